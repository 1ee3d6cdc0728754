"""``numakube operator``: run exporters and a scheduler as two objects ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.apps.host.running import run_until_stopped
from numakube.apps.host.surroundings import Surroundings
from numakube.apps.operator.command import LINE
from numakube.apps.operator.process import run
from numakube.apps.operator.settings import SETTINGS
from numakube.cli.logs import configure_logs

if TYPE_CHECKING:
    from numakube.apps.host.settings import Values


def _run(flags: Values) -> int:
    around = Surroundings()
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    configure_logs(values["log_level"], values["log_format"])
    return run_until_stopped(lambda stop: run(values, around, stop))


command = LINE.command(_run)
