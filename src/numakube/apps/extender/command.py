"""The command line of the extender, for the program and for containers of the lab alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from numakube.apps.extender.process import run
from numakube.apps.extender.settings import SETTINGS

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.settings import Values
    from numakube.apps.surroundings import Surroundings

NAME: Final = "extender"
HELP: Final = """Answer a stock kube-scheduler's calls.

Keeps a mirror of nodes, pods and NodeResourceTopologies, and answers filter, prioritize, preempt
and bind of the scheduler-extender protocol.
"""


def parse(args: tuple[str, ...]) -> Values:
    """Return the flags in *args*.

    Raises:
        click.ClickException: they make no command line.
    """

    @click.pass_context
    def callback(ctx: click.Context, /, **_: object) -> Values:
        return SETTINGS.given(ctx)

    command = click.Command(NAME, params=SETTINGS.options(), callback=callback, help=HELP)
    flags: Values = command.main(list(args), prog_name=f"numakube {NAME}", standalone_mode=False)
    return flags


async def perform(flags: Values, around: Surroundings, stop: asyncio.Event) -> int:
    """Run the extender until *stop* is set; return the exit code."""
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    return await run(values, around, stop)
