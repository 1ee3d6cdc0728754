"""``numakube lab down``: stop a lab."""

from __future__ import annotations

import time

import click

from numakube.cli.lab.options import ask_lab, name_option, run_dir
from numakube.errors import ConfigError

_SECONDS = 30


@click.command("down")
@name_option
def command(name: str) -> None:
    """Stop a lab and remove what it kept on disk."""
    ask_lab(name, "POST", "/shutdown")
    folder = run_dir(name)
    deadline = time.monotonic() + _SECONDS
    while folder.path.exists():
        if time.monotonic() > deadline:
            raise ConfigError(f"the lab {name!r} has not ended after {_SECONDS} s")
        time.sleep(0.05)
    click.echo(f"Lab {name!r} is down.")
