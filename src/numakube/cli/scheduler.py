"""``numakube scheduler``: schedule pods by NUMA topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.apps.heap import keep_freed_memory
from numakube.apps.running import run_until_stopped
from numakube.apps.scheduler.command import LINE, options_of
from numakube.apps.scheduler.process import run
from numakube.apps.surroundings import Surroundings
from numakube.cli.logs import configure_logs
from numakube.kube.collector import quiet_collector

if TYPE_CHECKING:
    from numakube.apps.settings import Values


def _run(flags: Values) -> int:
    around = Surroundings()
    options = options_of(flags, around)
    configure_logs(options.values["log_level"], options.values["log_format"])
    keep_freed_memory()
    with quiet_collector():
        return run_until_stopped(lambda stop: run(options, around, stop))


command = LINE.command(_run)
