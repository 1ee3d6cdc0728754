"""The settings of the rebalancer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LeaseSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.programs import PROGRAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancerSettings:
    """What a rebalancer can be told."""

    waiting: bool = setting(
        "--waiting/--no-waiting",
        default=True,
        help="Whether to make room for pods and gangs that fit nowhere.",
    )
    stranded: bool = setting(
        "--stranded/--no-stranded",
        default=True,
        help="Whether to make stranded devices usable when no pod waits.",
    )
    moves_per_hour: int = setting(
        "--moves-per-hour",
        type=click.IntRange(1),
        default=6,
        help="Most pods to move in an hour.",
    )
    quiet_hours: str = setting(
        "--quiet-hours",
        metavar="HH:MM-HH:MM,...",
        help="Move nothing at these times of the day, in UTC.",
    )
    dry_run: bool = setting(
        "--dry-run/--no-dry-run",
        default=False,
        help="Move nothing: events of pods say what would be moved, and why.",
    )
    interval: float = setting(
        "--interval",
        type=DURATION,
        default=300.0,
        help="How often to look for pods to move.",
    )
    patience: float = setting(
        "--move-timeout",
        type=DURATION,
        default=300.0,
        help="Abandon a plan if one pod takes longer to move.",
    )
    pause: float = setting(
        "--pause",
        type=DURATION,
        default=3600.0,
        help="How long to move nothing after a plan was abandoned.",
    )
    lease: LeaseSettings = group(LeaseSettings)
    serving: ServingSettings = serving_on(PROGRAMS["rebalancer"].port)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(RebalancerSettings)
