"""What the lab commands share: the name of the lab, and a way to talk to it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.run_folder import RunDir

name_option = click.option(
    "--name", default="lab", show_default=True, help="Name of the lab; several can run."
)


def run_dir(name: str) -> RunDir:
    """Return the folder of the lab called *name*."""
    from numakube_lab.run_folder import RunDir

    return RunDir.of(name, os.environ)


def no_such_lab(name: str) -> ConfigError:
    """Return the error for a name that no lab has."""
    return ConfigError(f"no lab called {name!r} is running; start one with: numakube lab up")


def ask_lab(
    name: str, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Send a request to the running lab called *name*."""
    from numakube_lab.control_socket import ControlClient

    folder = run_dir(name)
    if folder.info() is None:
        if folder.owner() is None:
            raise no_such_lab(name)
        raise ConfigError(f"the lab {name!r} is still starting: {folder.progress()}")
    return asyncio.run(ControlClient(folder.control_socket).call(method, path, body))
