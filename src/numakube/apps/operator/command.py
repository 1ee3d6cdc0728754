"""The command line of the operator, for the program and for containers of the lab alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from numakube.apps.operator.process import run
from numakube.apps.operator.settings import SETTINGS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from numakube.apps.settings import Values
    from numakube.apps.surroundings import Surroundings

NAME: Final = "operator"
HELP: Final = """Run exporters and a scheduler as two objects ask for.

NUMAResourcesOperator names the nodes that get exporters, NUMAResourcesScheduler describes the
scheduler. Both are kept as they should be, and say in their conditions how things stand.
"""


def make_command(act: Callable[[Values], Any]) -> click.Command:
    """Return the command, which calls *act* with its flags and returns what that returns."""

    @click.pass_context
    def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
        return act(SETTINGS.given(ctx))

    return click.Command(NAME, params=SETTINGS.options(), callback=callback, help=HELP)


def parse(args: tuple[str, ...]) -> Values:
    """Return the flags in *args*.

    Raises:
        click.ClickException: they make no command line.
    """
    flags: Values = make_command(lambda flags: flags).main(
        list(args), prog_name=f"numakube {NAME}", standalone_mode=False
    )
    return flags


async def perform(flags: Values, around: Surroundings, stop: asyncio.Event) -> int:
    """Operate until *stop* is set; return the exit code."""
    values = SETTINGS.resolve(files=(), env=around.env, flags=flags)
    return await run(values, around, stop)
