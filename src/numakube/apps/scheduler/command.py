"""The command line of the scheduler, for the program and for containers of the lab alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.host.command_line import CommandLine
from numakube.apps.scheduler.process import SchedulerOptions, run
from numakube.apps.scheduler.settings import SETTINGS, configuration_of

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings

NAME: Final = "scheduler"
HELP: Final = """Schedule pods by NUMA topology.

Takes every pod that names one of its profiles in spec.schedulerName, and places it as
kube-scheduler would, on a node whose kubelet will align it.
"""


LINE: Final = CommandLine(NAME, SETTINGS, HELP)


def options_of(flags: Values, around: Surroundings) -> SchedulerOptions:
    """Return what files and flags add up to.

    Raises:
        ConfigError: something makes no sense.
    """
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    return SchedulerOptions(values=values, config=configuration_of(flags, around.locate))


async def perform(flags: Values, around: Surroundings, stop: asyncio.Event) -> int:
    """Run the scheduler until *stop* is set; return the exit code."""
    return await run(options_of(flags, around), around, stop)
