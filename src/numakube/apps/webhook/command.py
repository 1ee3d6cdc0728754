"""The command line of the admission webhook, for the program and for containers of the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.host.command_line import CommandLine
from numakube.apps.host.common_settings import CONNECTION, LOGS, serving_settings
from numakube.apps.host.settings import DURATION, Setting, Settings
from numakube.apps.webhook.process import run

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings

NAME: Final = "webhook"
PORT: Final = 8443

SETTINGS: Final = Settings(
    (
        Setting(
            name="ca_file",
            flag="--ca-file",
            metavar="FILE",
            help="Authority of the certificate, to be registered with API servers; by default"
            " somebody else sees to that.",
        ),
        Setting(
            name="configuration",
            flag="--configuration",
            metavar="NAME",
            default="numakube-webhook",
            help="ValidatingWebhookConfiguration to register the authority in.",
        ),
        Setting(
            name="interval",
            flag="--registration-interval",
            type=DURATION,
            default=60.0,
            help="Look so often whether the right authority is registered.",
        ),
        *serving_settings(PORT),
        *CONNECTION,
        *LOGS,
    )
)

HELP: Final = """Refuse pods whose NUMA annotations are wrong.

Answers AdmissionReviews at /validate, beside health and metrics. Pods with mistakes are refused;
who writes templates of pods or labels of nodes is warned. Without --ca-file no cluster is needed.
"""


LINE: Final = CommandLine(NAME, SETTINGS, HELP)


async def perform(flags: Values, around: Surroundings, stop: asyncio.Event) -> int:
    """Run the webhook until *stop* is set; return the exit code."""
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    return await run(values, around, stop)
