"""Try many seeds and print every kind of disagreement once."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import click
from tests.lab.differential.bodies import KINDS
from tests.lab.differential.comparing import Disagreement, compare, describe
from tests.lab.differential.driving import Server, define_widgets, drive
from tests.lab.differential.sequences import Sequence, make_sequence
from tests.lab.differential.shrinking import Trial, shrink
from tests.real.api_server import real_server

from kube_lab_server import ApiServer
from numakube_lab.replay.run_case import USERS


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:20", help="first:end")
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--kinds", default="", help="names of resources, separated by commas")
    parser.add_argument("--without", default="", help="actions to leave out, as apply,bind")
    parser.add_argument("--managed-fields", action="store_true")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    names = options.kinds.split(",") if options.kinds else [kind.resource for kind in KINDS]
    kinds = tuple(kind for kind in KINDS if kind.resource in names)
    without = tuple(options.without.split(","))
    sequences = (
        make_sequence(seed, length=options.length, kinds=kinds, without=without)
        for seed in range(first, end)
    )
    sys.exit(asyncio.run(_run(sequences, managed_fields=options.managed_fields)))


async def _run(sequences: Iterator[Sequence], *, managed_fields: bool) -> int:
    counter = itertools.count()
    with tempfile.TemporaryDirectory() as directory:
        async with (
            real_server(Path(directory)) as real,
            real.session() as real_session,
            ApiServer(users=USERS, rbac=True) as lab,
            aiohttp.ClientSession() as lab_session,
        ):
            servers = (Server("real", real.url, real_session), Server("lab", lab.url, lab_session))
            for server in servers:
                await define_widgets(server)

            async def attempt(sequence: Sequence) -> Disagreement | None:
                namespace = f"d{next(counter)}"
                records = [
                    await drive(server, sequence, namespace, managed_fields=managed_fields)
                    for server in servers
                ]
                return compare(sequence, *records)

            return await _report(sequences, attempt)


async def _report(sequences: Iterator[Sequence], attempt: Trial) -> int:
    seen: dict[str, int] = {}
    count = 0
    for sequence in sequences:
        count += 1
        found = await attempt(sequence)
        if found is None:
            continue
        seen[found.signature] = seen.get(found.signature, 0) + 1
        if seen[found.signature] == 1:
            short, again = await shrink(sequence, found, attempt)
            click.echo(f"\n===== seed {sequence.seed}")
            for step in short.steps[:-1] if again.step is not None else short.steps:
                click.echo(f"  after {describe(step)[:600]}")
            click.echo(str(again))
    click.echo(f"{count} sequences, {sum(seen.values())} with a difference")
    return 1 if seen else 0


main()
