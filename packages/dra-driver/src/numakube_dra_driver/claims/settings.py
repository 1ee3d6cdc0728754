"""The settings of the claim writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube_dra_driver.annex import WRITER_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWriterSettings:
    """The settings of a claim writer."""

    ca_file: str = setting(
        "--ca-file",
        metavar="FILE",
        help="Authority of the certificate, to be registered with API servers; by default"
        " another program does that.",
    )
    configuration: str = setting(
        "--configuration",
        default="numakube-claim-writer",
        metavar="NAME",
        help="MutatingWebhookConfiguration to register the authority in.",
    )
    interval: float = setting(
        "--registration-interval",
        type=DURATION,
        default=60.0,
        help="How often to check that the right authority is registered.",
    )
    keep: float = setting(
        "--keep-templates",
        type=DURATION,
        default=3600.0,
        help="How long a template stays that no pod uses.",
    )
    serving: ServingSettings = serving_on(WRITER_PORT)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(ClaimWriterSettings)
