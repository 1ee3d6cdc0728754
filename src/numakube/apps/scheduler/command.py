"""The command line of the scheduler, for the program and for containers of the lab alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from numakube.apps.scheduler.process import SchedulerOptions, run
from numakube.apps.scheduler.settings import SETTINGS, configuration_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from numakube.apps.settings import Values
    from numakube.apps.surroundings import Surroundings

NAME: Final = "scheduler"
HELP: Final = """Schedule pods by NUMA topology.

Takes every pod that names one of its profiles in spec.schedulerName, and places it as
kube-scheduler would, on a node whose kubelet will align it.
"""


def make_command(act: Callable[[Values], Any]) -> click.Command:
    """Return the command, which calls *act* with the flags that were given."""

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
