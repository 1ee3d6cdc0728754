"""A click group that knows its commands by name and loads a command's module when it is called."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command lives and its line in the list."""

    module: str
    summary: str
    attribute: str = "command"


class LazyGroup(click.Group):
    """A group whose list of commands can be shown without importing any of them."""

    def __init__(self, *, lazy: Mapping[str, Lazy], **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order in which they were given."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command by name."""
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(entry.module), entry.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from what is known without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.lazy.items()])

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Return the commands and options that start with *incomplete*, loading no command."""
        commands = [
            click.shell_completion.CompletionItem(name, help=entry.summary)
            for name, entry in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)
