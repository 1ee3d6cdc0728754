"""``numakube webhook``: refuse pods whose NUMA annotations are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.apps.host.running import run_until_stopped
from numakube.apps.host.surroundings import Surroundings
from numakube.apps.webhook.command import LINE, SETTINGS, perform
from numakube.cli.logs import configure_logs

if TYPE_CHECKING:
    from numakube.apps.host.settings import Values


def _run(flags: Values) -> int:
    around = Surroundings()
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    configure_logs(values["log_level"], values["log_format"])
    return run_until_stopped(lambda stop: perform(flags, around, stop))


command = LINE.command(_run)
