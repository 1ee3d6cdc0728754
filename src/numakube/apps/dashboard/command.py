"""The command line of the dashboard."""

from __future__ import annotations

from typing import Final

import click

from numakube.apps.host.command_line import CommandLine
from numakube.apps.host.common_settings import CONNECTION, LOGS, serving_settings
from numakube.apps.host.settings import Setting, Settings

NAME: Final = "dashboard"
PORT: Final = 8090

SETTINGS: Final = Settings(
    (
        Setting(
            name="bundle",
            flag="--from",
            metavar="FILE",
            help="Show this bundle (of `kubectl numa bundle`) instead of a live cluster.",
        ),
        Setting(
            name="port",
            flag="--port",
            type=click.IntRange(0, 65535),
            default=None,
            help="Port on this machine: short for --bind-address 127.0.0.1:PORT.",
        ),
        Setting(
            name="title",
            flag="--title",
            default="numakube",
            help="What the pages are headed with, such as the name of the cluster.",
        ),
        *serving_settings(PORT, served="the pages, health and metrics"),
        *CONNECTION,
        *LOGS,
    )
)

HELP: Final = """Serve pages that show a cluster by NUMA zone.

Open the address that it prints. Only this machine can reach it, unless --bind-address says
otherwise; then it needs a certificate, and readers need a token.
"""


LINE: Final = CommandLine(NAME, SETTINGS, HELP)
