"""The settings of the admission check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
class AdmissionCheckSettings:
    """The settings of an admission check."""

    kueue: bool = setting(
        "--kueue/--no-kueue",
        default=True,
        help="Whether to answer for workloads of Kueue, where it is installed.",
    )
    gates: bool = setting(
        "--gates/--no-gates",
        default=True,
        help="Whether to remove the scheduling gate numakube.dev/fits from pods that fit.",
    )
    interval: float = setting(
        "--interval",
        type=DURATION,
        default=5.0,
        help="How often to ask about waiting work.",
    )
    hold: float = setting(
        "--hold",
        type=DURATION,
        default=120.0,
        help="How long room is kept for admitted pods that do not exist yet.",
    )
    patience: float = setting(
        "--patience",
        type=DURATION,
        default=300.0,
        help="How long a workload keeps its quota while it does not fit; 0s: no limit.",
    )
    requeue: float = setting(
        "--requeue-after",
        type=DURATION,
        default=60.0,
        help="How long Kueue keeps such a workload out of its queue.",
    )
    scheduler_url: str = setting(
        "--scheduler-url",
        metavar="URL",
        help="Ask this scheduler instead of the pods with --scheduler-selector.",
    )
    scheduler_selector: str = setting(
        "--scheduler-selector",
        default="app.kubernetes.io/part-of=numakube,app.kubernetes.io/component=scheduler",
        metavar="SELECTOR",
        help="Labels of the scheduler's pods, which are asked through the API server.",
    )
    scheduler_ca: str = setting(
        "--scheduler-ca",
        metavar="FILE",
        help="Authority of the certificate behind --scheduler-url.",
    )
    scheduler_token_file: str = setting(
        "--scheduler-token-file",
        metavar="FILE",
        help="Bearer token for --scheduler-url.",
    )
    lease: LeaseSettings = group(LeaseSettings)
    serving: ServingSettings = serving_on(PROGRAMS["admission-check"].port)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(AdmissionCheckSettings)
