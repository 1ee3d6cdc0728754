"""The settings of the claim writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    RegistrationSettings,
    ServingSettings,
    registered_in,
    serving_on,
)
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube_dra_driver.annex import WRITER_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWriterSettings:
    """The settings of a claim writer."""

    registration: RegistrationSettings = registered_in(
        "MutatingWebhookConfiguration", "numakube-claim-writer"
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
