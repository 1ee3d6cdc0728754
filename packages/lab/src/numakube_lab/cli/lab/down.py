"""``numakube lab down``: stop a lab."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import click

from numakube.errors import ConfigError
from numakube_lab.cli.lab.background import name_option, no_such_lab, run_dir

if TYPE_CHECKING:
    from numakube_lab.run_folder import RunDir

_SECONDS = 60.0
"""How long a lab may take to end by itself."""


@click.command("down")
@name_option
def command(name: str) -> None:
    """Stop a lab, also one that is still starting, and remove what it kept on disk."""
    folder = run_dir(name)
    pid = folder.owner()
    if pid is None and not folder.path.exists():
        raise no_such_lab(name)
    if pid is not None and not _ends(folder, pid, signal.SIGTERM):
        click.echo(f"It has not ended after {_SECONDS:.0f} s and is killed.", err=True)
        _ends(folder, pid, signal.SIGKILL)
    # A lab that was killed has left its files.
    folder.remove()
    if folder.path.exists():
        raise ConfigError(f"{folder.path} cannot be removed; remove it by hand")
    click.echo(f"Lab {name!r} is down.")


def _ends(folder: RunDir, pid: int, number: signal.Signals) -> bool:
    """Send a signal, and tell whether it made an end."""
    os.kill(pid, number)
    deadline = time.monotonic() + _SECONDS
    while folder.owner() == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
