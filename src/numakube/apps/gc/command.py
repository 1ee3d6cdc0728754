"""The command line of the garbage collector."""

from __future__ import annotations

from typing import Final

import click

from numakube.apps.host.command_line import CommandLine
from numakube.apps.host.common_settings import CONNECTION, LOGS, serving_settings
from numakube.apps.host.settings import DURATION, Setting, Settings

NAME: Final = "gc"

SETTINGS: Final = Settings(
    (
        Setting(
            name="interval",
            flag="--gc-interval",
            type=DURATION,
            default=3600.0,
            help="Look for objects without a node so often; deleted nodes are noticed at once.",
        ),
        Setting(
            name="grace",
            flag="--grace-period",
            type=DURATION,
            default=60.0,
            help="Remove an object when its node has been missing for so long.",
        ),
        Setting(
            name="page_size",
            flag="--list-size",
            type=click.IntRange(0),
            default=200,
            help="Objects to list at a time; 0: all at once.",
        ),
        Setting(
            name="oneshot",
            flag="--oneshot/--no-oneshot",
            default=False,
            help="Collect once, after the grace period, and exit.",
        ),
        Setting(
            name="dry_run",
            flag="--dry-run/--no-dry-run",
            default=False,
            help="Only print what would be removed.",
        ),
        *serving_settings(8080),
        *CONNECTION,
        *LOGS,
    )
)

HELP: Final = """Remove NodeResourceTopology objects of nodes that have vanished.

A node that is missing for shorter than the grace period keeps its object.
"""


LINE: Final = CommandLine(NAME, SETTINGS, HELP)
