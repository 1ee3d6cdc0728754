"""A group with a command for each kind, called as kubectl's are: ``explain pods/web``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.cli.lazy import LazyGroup
from numakube.cli.shared.kubectl_names import kind_of

if TYPE_CHECKING:
    import click


class KindGroup(LazyGroup):
    """A group whose first command is meant where no kind is named: ``explain web``, ``-f FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the group's own options, of which there are none but for help."""
        if args and args[0].startswith("-") and args[0] not in self.get_help_option_names(ctx):
            args = [self._usual, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a kind, whatever its number and whether it has a slash."""
        word, slash, _ = args[0].partition("/")
        kind = kind_of(word)
        if kind in self.lazy:
            words = [str(kind), *args] if slash else [str(kind), *args[1:]]
        elif len(args) == 1 or args[1].startswith("-"):
            words = [self._usual, *args]
        else:
            words = args
        return super().resolve_command(ctx, words)

    @property
    def _usual(self) -> str:
        return next(iter(self.lazy))
