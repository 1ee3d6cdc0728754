"""A click group that knows its commands by name and loads a command's module when it is called.

Its list can have sections, a mistyped command gets a suggestion, and the help of every command ends
with the examples that `numakube.cli.examples` has for it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from numakube.cli.examples import examples_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ENTRY_POINTS: Final = "numakube.commands"
"""The group of entry points under which other distributions have commands."""

LAB: Final = "numakube_lab"
"""The package of the lab, a distribution of its own."""


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command lives and its line in the list."""

    module: str
    summary: str
    attribute: str = "command"

    def load(self) -> click.Command:
        """Import the command."""
        command: click.Command = getattr(import_module(self.module), self.attribute)
        return command


@dataclass(frozen=True, slots=True)
class Hosted:
    """A program of `numakube.programs`, whose command is made from its description."""

    name: str
    summary: str

    def load(self) -> click.Command:
        """Import the program."""
        from numakube.cli.program_commands import command_of

        return command_of(self.name)


@dataclass(frozen=True, slots=True)
class Contributed:
    """A command of another distribution, which names it as an entry point, and its line here."""

    name: str
    package: str
    summary: str

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            ModuleNotFoundError: the distribution is not installed.
        """
        from importlib.metadata import entry_points

        for entry in entry_points(group=ENTRY_POINTS, name=self.name):
            command: click.Command = entry.load()
            return command
        raise ModuleNotFoundError(name=self.package)


class LazyGroup(click.Group):
    """A group whose list of commands can be shown without importing any of them."""

    def __init__(
        self,
        *,
        lazy: Mapping[str, Lazy | Hosted | Contributed] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        **attributes: object,
    ) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.lazy = lazy or {}
        self.sections = sections or {"Commands": list(self.lazy)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order in which they were given."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command by name, and show examples of its use in its help."""
        entry = self.lazy.get(cmd_name)
        command = super().get_command(ctx, cmd_name) if entry is None else entry.load()
        if command is not None and not command.epilog:
            program = ctx.find_root().info_name or "numakube"
            command.epilog = examples_text(_path(ctx, cmd_name), program)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* begin with; a mistyped one gets a suggestion.

        ``fit`` and ``fits`` are the same, as ``pod`` and ``pods`` are to kubectl.
        """
        known = self.list_commands(ctx)
        if args and args[0] not in known and f"{args[0]}s" in known:
            args = [f"{args[0]}s", *args[1:]]
        if args and args[0] not in known and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from what is known without loading them."""
        if not self.lazy:
            super().format_commands(ctx, formatter)
            return
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.lazy[name].summary) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that start with *incomplete*, loading no command."""
        if not self.lazy:
            return super().shell_complete(ctx, incomplete)
        commands = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def _path(ctx: click.Context, name: str) -> str:
    """Return how a command is called, without the program: ``lab node add``."""
    names = [name]
    while ctx.parent is not None:
        names.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return " ".join(names)
