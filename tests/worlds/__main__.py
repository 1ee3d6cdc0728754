"""Runs worlds: ``make worlds N=1000 SEED=7``.

Every world is made from a row of the covering array, again and again with other choices. A world
in which something does not hold is made smaller and printed as a scenario; then the exit code is 1.
With ``--real`` worlds are played on the control plane whose programs ``KUBEBUILDER_ASSETS`` names,
and printed whole.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from random import Random

import click
from tests.worlds.covering import Row, covered, covering_array, wanted
from tests.worlds.features import FEATURES
from tests.worlds.generate import world
from tests.worlds.oracles import Finding
from tests.worlds.play import Play, played
from tests.worlds.quiet_loop import run
from tests.worlds.real_worlds import TOGETHER, RealWorld, lacking, played_together
from tests.worlds.script import Command, listed
from tests.worlds.shrinking import shrunk
from tests.worlds.virtual_lab import virtual_lab


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a world.

    Attributes:
        pods: how many pods there were.
        script: the smallest world in which the first finding is still found.
    """

    number: int
    pods: int = 0
    findings: tuple[Finding, ...] = ()
    script: str = ""


@cache
def rows(seed: int) -> list[Row]:
    """Return the rows of the covering array."""
    return list(covering_array(FEATURES, Random(seed)))


def commands_of(number: int, seed: int) -> list[Command]:
    """Return the commands of one world."""
    all_rows = rows(seed)
    return world(all_rows[number % len(all_rows)], Random(f"{seed}/{number}"))


def outcome(number: int, seed: int, *, shrink: bool = True) -> Outcome:
    """Play a world."""
    commands = commands_of(number, seed)
    if not gc.isenabled():
        gc.collect()
    try:
        pods, findings = run(_played(commands, number))
    except Exception as error:
        return Outcome(number, 0, (Finding("a_world_ends", repr(error)),), listed(commands))
    if not findings:
        return Outcome(number, pods)
    if shrink:
        commands = shrunk(commands, number, findings[0].oracle)
        findings = run(played(commands, seed=number))
    return Outcome(number, pods, tuple(findings), listed(commands))


def _leave_garbage() -> None:
    """Collect between worlds alone: a tenth of their time is spent on looking for little."""
    gc.freeze()
    gc.disable()


async def _played(commands: list[Command], seed: object) -> tuple[int, list[Finding]]:
    async with virtual_lab(seed) as lab:
        play = Play(lab)
        for command in commands:
            await play.do(command)
            if play.findings:
                break
        return len(lab.seen.ever), play.findings


@click.command()
@click.option("-n", "--count", default=200, show_default=True, help="How many worlds.")
@click.option("--seed", default=1, show_default=True, help="Others make other worlds.")
@click.option("--first", default=0, show_default=True, help="The number of the first world.")
@click.option("--workers", default=os.cpu_count() or 1, help="How many at the same time.")
@click.option("--shrink/--no-shrink", default=True, help="Whether to make findings smaller.")
@click.option("--real", is_flag=True, help="On real kube-apiservers, in the machine's time.")
def main(*, count: int, seed: int, first: int, workers: int, shrink: bool, real: bool) -> None:
    """Play many worlds and print what does not hold."""
    if real and (missing := lacking()):
        raise click.ClickException(f"no worlds on a real server: {missing}")
    began = time.monotonic()
    found: Counter[str] = Counter()
    pods = 0
    numbers = range(first, first + count)
    outcomes = (
        _real_outcomes(numbers, seed, workers)
        if real
        else _outcomes(numbers, seed, workers, shrink=shrink)
    )
    for one in outcomes:
        pods += one.pods
        if one.findings:
            found[one.findings[0].oracle] += 1
            click.echo(f"\n# world {one.number} of seed {seed}")
            click.echo(f"{one.script}\n----\n" + "\n".join(map(str, one.findings)))
    seconds = time.monotonic() - began
    met = {each for row in rows(seed)[first : first + count] for each in covered(row)}
    all_wanted = wanted(FEATURES)
    click.echo(
        f"{count} worlds with {pods} pods in {seconds:.0f} s,"
        f" {3600 * count / seconds:.0f} an hour;"
        f" {len(all_wanted & met)} of {len(all_wanted)} combinations met"
    )
    for oracle, times in found.most_common():
        click.echo(f"{times} times: {oracle.replace('_', ' ')}")
    click.echo(f"{count - found.total()} passed, {found.total()} failed")
    sys.exit(1 if found else 0)


def _outcomes(numbers: range, seed: int, workers: int, *, shrink: bool) -> Iterator[Outcome]:
    if workers == 1:
        yield from (outcome(number, seed, shrink=shrink) for number in numbers)
        return
    rows(seed)  # Made once, before the processes that are copies of this one.
    with ProcessPoolExecutor(workers, initializer=_leave_garbage) as pool:
        waiting = [pool.submit(outcome, number, seed, shrink=shrink) for number in numbers]
        for one in waiting:
            yield one.result()


def _real_outcomes(numbers: range, seed: int, workers: int) -> Iterator[Outcome]:
    with ProcessPoolExecutor(workers) as pool:
        batches = [numbers[start : start + TOGETHER] for start in range(0, len(numbers), TOGETHER)]
        waiting = [
            pool.submit(played_together, [(number, commands_of(number, seed)) for number in batch])
            for batch in batches
        ]
        for done in as_completed(waiting):
            yield from (_whole(one, seed) for one in done.result())


def _whole(world: RealWorld, seed: int) -> Outcome:
    script = listed(commands_of(world.number, seed)) if world.findings else ""
    return Outcome(world.number, world.pods, world.findings, script)


if __name__ == "__main__":
    main()
