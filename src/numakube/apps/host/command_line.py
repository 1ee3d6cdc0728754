"""A command that takes settings and nothing else, for the program and for containers of the lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.apps.host.settings import Settings, Values


@dataclass(frozen=True, slots=True)
class CommandLine:
    """How a process is told on the command line what to do."""

    name: str
    settings: Settings
    help: str

    def command(self, act: Callable[[Values], Any]) -> click.Command:
        """Return the command, which calls *act* with the flags that were given."""

        @click.pass_context
        def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
            return act(self.settings.given(ctx))

        params = self.settings.options()
        return click.Command(self.name, params=params, callback=callback, help=self.help)

    def parse(self, args: tuple[str, ...]) -> Values:
        """Return the flags in *args*.

        Raises:
            click.ClickException: they make no command line.
        """
        flags: Values = parsed(self.command(lambda flags: flags), args)
        return flags


def parsed(command: click.Command, args: tuple[str, ...]) -> Any:  # noqa: ANN401 - the callback's
    """Return what the callback of *command* makes of *args*.

    Raises:
        click.ClickException: they make no command line.
    """
    return command.main(list(args), prog_name=f"numakube {command.name}", standalone_mode=False)
