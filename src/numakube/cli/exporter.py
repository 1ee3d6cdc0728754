"""``numakube exporter``: publish what this node's NUMA zones have and have left."""

from __future__ import annotations

import click

from numakube.apps.exporter.command import Line, make_command, options_of, perform
from numakube.apps.host.running import run_until_stopped
from numakube.apps.host.surroundings import Surroundings
from numakube.cli.logs import configure_logs


def _run(line: Line) -> int:
    if not line.kubelet and not line.dry_run:
        raise click.UsageError("--no-kubelet goes with --dry-run only.")
    around = Surroundings()
    options = options_of(line, around)
    configure_logs(options["log_level"], options["log_format"])

    def echo(text: str) -> None:
        click.echo(text.rstrip("\n"))

    return run_until_stopped(lambda stop: perform(line, options, around, stop, echo))


command = make_command(_run)
