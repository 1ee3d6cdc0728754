"""``numakube scheduler``: schedule pods by NUMA topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.apps.host.malloc import keep_freed_memory
from numakube.apps.host.python_gc import quiet_collector
from numakube.apps.host.running import run_until_stopped
from numakube.apps.host.surroundings import Surroundings
from numakube.apps.scheduler.command import LINE, options_of
from numakube.apps.scheduler.process import run
from numakube.cli.logs import configure_logs

if TYPE_CHECKING:
    from numakube.apps.host.settings import Values


def _run(flags: Values) -> int:
    around = Surroundings()
    options = options_of(flags, around)
    configure_logs(options.values["log_level"], options.values["log_format"])
    keep_freed_memory()
    with quiet_collector():
        return run_until_stopped(lambda stop: run(options, around, stop))


command = LINE.command(_run)
