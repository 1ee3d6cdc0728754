"""``numakube dashboard``: pages that show a cluster by NUMA zone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from numakube.apps.dashboard.command import LINE, SETTINGS
from numakube.apps.host.running import run_until_stopped
from numakube.apps.host.surroundings import Surroundings
from numakube.cli.logs import configure_logs

if TYPE_CHECKING:
    from numakube.apps.host.settings import Values


def _run(flags: Values) -> int:
    from numakube.apps.dashboard.process import run

    values = SETTINGS.resolve(env=os.environ, flags=flags)
    configure_logs(values["log_level"], values["log_format"])
    return run_until_stopped(
        lambda stop: run(
            values, Surroundings(), stop, announce=lambda url: click.echo(f"dashboard   {url}")
        )
    )


command = LINE.command(_run)
