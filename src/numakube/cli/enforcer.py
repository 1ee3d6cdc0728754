"""``numakube enforcer``: give containers of this node what a scheduler allotted to them."""

from __future__ import annotations

import click

from numakube.apps.enforcer.command import Line, make_command, perform, values_of
from numakube.apps.host.running import run_until_stopped
from numakube.apps.host.surroundings import Surroundings
from numakube.cli.logs import configure_logs


def _run(line: Line) -> int:
    if line.once and line.restore:
        raise click.UsageError("--once and --restore exclude each other.")
    around = Surroundings()
    values = values_of(line, around)
    configure_logs(values["log_level"], values["log_format"])

    def echo(text: str) -> None:
        click.echo(text.rstrip("\n"))

    return run_until_stopped(lambda stop: perform(line, values, around, stop, echo))


command = make_command(_run)
