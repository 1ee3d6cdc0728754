"""A click group that knows its commands by name and loads a command's module when it is called.

Its list can have sections, a mistyped command gets a suggestion, and the help of every command ends
with the examples that `numakube.cli.examples` has for it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

import click
from click.shell_completion import CompletionItem

from numakube.annexes import Group, load
from numakube.cli.examples import examples_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


Joined: TypeAlias = "Callable[[], Mapping[str, AnyEntry]]"
"""Tells which commands annexes add; called when a command is none of ours, or all are wanted."""


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
class OfAnnex:
    """A command of an annex, found by its entry point, and its line here."""

    group: Group
    name: str
    summary: str

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            ModuleNotFoundError: the annex is not installed.
        """
        command: click.Command = load(self.group, self.name)
        return command


@dataclass(frozen=True, slots=True)
class Below:
    """A group of commands, with those that annexes add to it, and its line in the list.

    Attributes:
        prepare: is called before each of them.
    """

    name: str
    summary: str
    commands: Mapping[str, AnyEntry]
    joined: Joined
    prepare: Callable[[click.Context], None] | None = None

    def load(self) -> click.Command:
        """Make the group; its commands are not imported."""
        return LazyGroup(
            name=self.name,
            lazy=self.commands,
            joined=self.joined,
            callback=None if self.prepare is None else click.pass_context(self.prepare),
            help=self.summary,
        )


AnyEntry: TypeAlias = Lazy | Hosted | OfAnnex | Below


class LazyGroup(click.Group):
    """A group whose list of commands can be shown without importing any of them."""

    def __init__(
        self,
        *,
        lazy: Mapping[str, AnyEntry] | None = None,
        joined: Joined = dict,
        sections: Callable[[], Mapping[str, Sequence[str]]] | None = None,
        **attributes: object,
    ) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.lazy = lazy or {}
        self.joined = joined
        self.sections = sections or (lambda: {"Commands": list(self.entries())})

    def entries(self) -> dict[str, AnyEntry]:
        """Return all commands that are shown and found without loading them."""
        return {**self.lazy, **self.joined()}

    def alternatives(self) -> dict[str, str]:
        """Return which other names there are, and what each stands for."""
        return {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order in which they were given."""
        return [*self.entries(), *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command by name, and show examples of its use in its help."""
        entry = self.lazy.get(cmd_name) or self.joined().get(cmd_name)
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
        if args and args[0] in self.lazy:
            return super().resolve_command(ctx, args)
        known = self.list_commands(ctx)
        if args and args[0] not in known and f"{args[0]}s" in known:
            args = [f"{args[0]}s", *args[1:]]
        if args and args[0] not in known and not ctx.resilient_parsing:
            meant = {**self.alternatives(), **{name: name for name in known}}
            near = difflib.get_close_matches(args[0], meant, n=1)
            hint = f" Did you mean {meant[near[0]]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from what is known without loading them."""
        if not self.lazy:
            super().format_commands(ctx, formatter)
            return
        entries = self.entries()
        for title, names in self.sections().items():
            with formatter.section(title):
                formatter.write_dl([(name, entries[name].summary) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that start with *incomplete*, loading no command."""
        if not self.lazy:
            return super().shell_complete(ctx, incomplete)
        commands = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries().items()
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
