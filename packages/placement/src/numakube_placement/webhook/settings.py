"""The settings of the admission webhook."""

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
from numakube.apps.host.settings_sources import SettingsTable, group, setting
from numakube_placement import WEBHOOK_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """The settings of a webhook."""

    registration: RegistrationSettings = registered_in(
        "ValidatingWebhookConfiguration", "numakube-webhook"
    )
    definition: str = setting(
        "--definition",
        metavar="NAME",
        help="CustomResourceDefinition to register the authority in too, if it converts by this"
        " webhook.",
    )
    serving: ServingSettings = serving_on(WEBHOOK_PORT)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(WebhookSettings)
