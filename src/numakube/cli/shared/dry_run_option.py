"""``--dry-run`` as kubectl takes it: with a value, and alone (kubectl 1.37, ``GetDryRunStrategy``).

To kubectl the word after a lone ``--dry-run`` is never its value. Here it is one if it names a
mode, as in ``--dry-run server``; no component is called so. Everything else is what to work on:
``remove --dry-run exporter`` changes nothing, and asks for the exporter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_FLAG: Final = "--dry-run"
_NONE: Final = "none"


def dry_run_option(*modes: str, text: str) -> Callable[..., Any]:
    """Declare ``--dry-run`` with its *modes* for a `DryRunCommand`; alone it is the first."""
    return click.option(
        _FLAG,
        type=click.Choice((_NONE, *modes)),
        default=_NONE,
        show_default=True,
        help=text,
    )


class DryRunCommand(click.Command):
    """A command with `dry_run_option`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*, in which ``--dry-run`` may stand alone."""
        choices = next(
            tuple(param.type.choices)
            for param in self.params
            if _FLAG in param.opts and isinstance(param.type, click.Choice)
        )
        return super().parse_args(ctx, list(_with_a_value(args, choices)))


def _with_a_value(args: Sequence[str], choices: Sequence[str]) -> Iterator[str]:
    end = args.index("--") if "--" in args else len(args)
    for at, word in enumerate(args):
        if word == _FLAG and at < end and not any(one in choices for one in args[at + 1 : at + 2]):
            usual = next(choice for choice in choices if choice != _NONE)
            click.echo(f"warning: {_FLAG} without a value is {_FLAG}={usual}", err=True)
            yield f"{_FLAG}={usual}"
        else:
            yield word
