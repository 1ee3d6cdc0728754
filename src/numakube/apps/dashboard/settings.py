"""The settings of the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import SettingsTable, group, setting
from numakube.programs import PROGRAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """The settings of a dashboard."""

    bundle: str = setting(
        "--from",
        metavar="FILE",
        help="Show this bundle (of `kubectl numa bundle`) instead of a live cluster.",
    )
    port: int | None = setting(
        "--port",
        type=click.IntRange(0, 65535),
        default=None,
        help="Port on this machine: short for --bind-address 127.0.0.1:PORT.",
    )
    title: str = setting(
        "--title",
        default="numakube",
        help="Title of the pages, such as the name of the cluster.",
    )
    serving: ServingSettings = serving_on(
        PROGRAMS["dashboard"].port, served="the pages, health and metrics"
    )
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(DashboardSettings)
