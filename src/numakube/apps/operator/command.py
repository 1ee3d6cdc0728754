"""The command line of the operator, for the program and for containers of the lab alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.apps.host.command_line import CommandLine
from numakube.apps.operator.process import run
from numakube.apps.operator.settings import SETTINGS

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings

NAME: Final = "operator"
HELP: Final = """Run exporters and a scheduler as two objects ask for.

NUMAResourcesOperator names the nodes that get exporters, NUMAResourcesScheduler describes the
scheduler. Both are kept as they should be, and say in their conditions how things stand.
"""


LINE: Final = CommandLine(NAME, SETTINGS, HELP)


async def perform(flags: Values, around: Surroundings, stop: asyncio.Event) -> int:
    """Operate until *stop* is set; return the exit code."""
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    return await run(values, around, stop)
