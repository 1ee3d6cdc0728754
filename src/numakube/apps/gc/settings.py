"""The settings of the garbage collector."""

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
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.programs import PROGRAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class GcSettings:
    """The settings of a garbage collector."""

    interval: float = setting(
        "--gc-interval",
        type=DURATION,
        default=3600.0,
        help="How often to look for objects without a node; deleted nodes are noticed immediately.",
    )
    grace: float = setting(
        "--grace-period",
        type=DURATION,
        default=60.0,
        help="Remove an object when its node has been missing for this time.",
    )
    page_size: int = setting(
        "--list-size",
        type=click.IntRange(0),
        default=200,
        help="Objects to list at a time; 0: all at once.",
    )
    oneshot: bool = setting(
        "--oneshot/--no-oneshot",
        default=False,
        help="Collect once, after the grace period, and exit.",
    )
    dry_run: bool = setting(
        "--dry-run/--no-dry-run",
        default=False,
        help="Only print what would be removed.",
    )
    serving: ServingSettings = serving_on(PROGRAMS["gc"].port)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(GcSettings)
