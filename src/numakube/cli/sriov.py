"""``numakube sriov``: offer PCI devices to this node's kubelet."""

from __future__ import annotations

import asyncio
import signal

import click

from numakube.apps.host.running import run_until_stopped
from numakube.apps.host.surroundings import Surroundings
from numakube.apps.sriov.command import Line, make_command, perform, values_of
from numakube.cli.logs import configure_logs


def _run(line: Line) -> int:
    if line.explain and not line.dry_run:
        raise click.UsageError("--explain goes with --dry-run only.")
    around = Surroundings()
    values = values_of(line, around)
    configure_logs(values["log_level"], values["log_format"])

    def echo(text: str) -> None:
        click.echo(text.rstrip("\n"))

    async def main(stop: asyncio.Event) -> int:
        wake = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, wake.set)
        return await perform(line, values, around, stop, echo, wake=wake)

    return run_until_stopped(main)


command = make_command(_run)
