"""``numakube gc``: remove the NodeResourceTopology objects of nodes that have vanished."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numakube.apps.gc.command import LINE, SETTINGS
from numakube.apps.gc.process import run
from numakube.apps.host.running import run_until_stopped
from numakube.cli.logs import configure_logs
from numakube.kube.clock import SystemClock

if TYPE_CHECKING:
    from numakube.apps.host.settings import Values


def _run(flags: Values) -> int:
    values = SETTINGS.resolve(env=os.environ, flags=flags)
    configure_logs(values["log_level"], values["log_format"])
    return run_until_stopped(
        lambda stop: run(
            values, stop, env=os.environ, root=Path("/"), clock=SystemClock(), echo=click.echo
        )
    )


command = LINE.command(_run)
