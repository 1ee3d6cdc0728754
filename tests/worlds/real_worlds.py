"""Plays worlds on a real control plane: ``make worlds ASSETS=~/kubernetes/1.35 N=20``.

Some worlds share a control plane; the next ones get a new one, whatever became of the last.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import click
from tests.real.api_server import VARIABLE, assets
from tests.worlds.oracles import Finding
from tests.worlds.play import Play
from tests.worlds.real_cluster import NEEDED, RealCluster, real_cluster
from tests.worlds.real_lab import RealLab
from tests.worlds.script import Command

TOGETHER: Final = 10
"""How many worlds share a control plane."""
LIMIT_SECONDS: Final = 900.0
"""After which a world will never end."""


@dataclass(frozen=True, slots=True)
class RealWorld:
    """What came of a world that was played on a real control plane.

    Attributes:
        pods: how many there were.
    """

    number: int
    pods: int
    findings: tuple[Finding, ...]


def lacking() -> str:
    """Say which programs are not there; an empty text if nothing is missing."""
    folder = assets()
    if folder is None:
        return f"set {VARIABLE} to a folder with {', '.join(NEEDED)}"
    missing = [name for name in NEEDED if not os.access(folder / name, os.X_OK)]
    return f"{folder} lacks {', '.join(missing)}" if missing else ""


def played_together(worlds: Sequence[tuple[int, list[Command]]]) -> list[RealWorld]:
    """Play worlds on a control plane of their own, one after the other.

    Those before which the control plane fails end with what it says.
    """
    played: list[RealWorld] = []
    try:
        asyncio.run(_play_together(worlds, played))
    except Exception as error:
        finding = Finding("a_world_ends", f"there is no control plane: {error!r}")
        played += [RealWorld(number, 0, (finding,)) for number, _ in worlds[len(played) :]]
    return played


async def _play_together(
    worlds: Sequence[tuple[int, list[Command]]], played: list[RealWorld]
) -> None:
    with tempfile.TemporaryDirectory(prefix="worlds-") as folder:
        async with real_cluster(Path(folder)) as cluster:
            for number, commands in worlds:
                played.append(await played_on(cluster, number, commands))
                _tell(played[-1])


def _tell(world: RealWorld) -> None:
    """Say at once what came of a world: one takes minutes."""
    came = "".join(f"\n  {finding}" for finding in world.findings) or " holds"
    click.echo(f"world {world.number} with {world.pods} pods:{came}", err=True)


async def played_on(cluster: RealCluster, number: int, commands: Sequence[Command]) -> RealWorld:
    """Play a world up to the first command that finds something."""
    lab = RealLab(cluster, Random(str(number)))
    play = Play(lab)
    try:
        async with asyncio.timeout(LIMIT_SECONDS), lab:
            for command in commands:
                await play.do(command)
                if play.findings:
                    break
    except Exception as error:
        play.findings.append(Finding("a_world_ends", repr(error)))
    return RealWorld(number, len(lab.seen.ever), tuple(play.findings))
