"""The settings of the admission webhook."""

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
from numakube_placement import WEBHOOK_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """The settings of a webhook."""

    ca_file: str = setting(
        "--ca-file",
        metavar="FILE",
        help="Authority of the certificate, to be registered with API servers; by default"
        " another program does that.",
    )
    configuration: str = setting(
        "--configuration",
        default="numakube-webhook",
        metavar="NAME",
        help="ValidatingWebhookConfiguration to register the authority in.",
    )
    definition: str = setting(
        "--definition",
        metavar="NAME",
        help="CustomResourceDefinition to register the authority in too, if it converts by this"
        " webhook.",
    )
    interval: float = setting(
        "--registration-interval",
        type=DURATION,
        default=60.0,
        help="How often to check that the right authority is registered.",
    )
    serving: ServingSettings = serving_on(WEBHOOK_PORT)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(WebhookSettings)
