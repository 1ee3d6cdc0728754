"""The command line of the extender, for the program and for containers of the lab alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.extender.process import run
from numakube.apps.extender.settings import SETTINGS
from numakube.apps.host.command_line import CommandLine

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings

NAME: Final = "extender"
HELP: Final = """Answer a stock kube-scheduler's calls.

Keeps a mirror of nodes, pods and NodeResourceTopologies, and answers filter, prioritize, preempt
and bind of the scheduler-extender protocol.
"""


LINE: Final = CommandLine(NAME, SETTINGS, HELP)


async def perform(flags: Values, around: Surroundings, stop: asyncio.Event) -> int:
    """Run the extender until *stop* is set; return the exit code."""
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    return await run(values, around, stop)
