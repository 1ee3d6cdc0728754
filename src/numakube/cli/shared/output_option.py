"""``-o table|wide|json|yaml|name``, and the console on which tables and drawings appear.

Colours need a terminal and respect ``NO_COLOR``; what is piped is plain text that is never cut to
the width of a screen, unless ``COLUMNS`` says how wide that is. Where the encoding cannot draw
lines, ASCII is used.
"""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

# Wide enough that no line of ours is folded when there is no screen to fit.
PIPED_WIDTH: Final = 240
_LEAST_WIDTH: Final = 40


class Output(StrEnum):
    """A form of output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    HOSTFILE = "hostfile"
    RANKFILE = "rankfile"


def output_option(*forms: Output) -> Callable[[Any], Any]:
    """Declare ``-o/--output`` with the given *forms*, the first being the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice([form.value for form in forms]),
        default=forms[0].value,
        show_default=True,
        callback=lambda _ctx, _param, value: Output(value),
        help="Output format.",
    )


def print_document(document: object, output: Output) -> None:
    """Print plain data as JSON or YAML."""
    click.echo(document_text(document, output))


def document_text(document: object, output: Output) -> str:
    """Return plain data as JSON or YAML, without the end of the last line."""
    if output is Output.YAML:
        from numakube.api.yaml_text import dump_yaml

        text = dump_yaml(document)
        if not text.replace("\n", "").isprintable():
            text = dump_yaml(document, ascii_only=True)
        return text.removesuffix("\n")
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if not text.replace("\n", "").isprintable():
        text = json.dumps(document, indent=2)
    return text


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that fits where the output goes."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else told_width() or PIPED_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def text_width(console: Console, usual: int) -> int:
    """Return how wide a text may be: as the screen, as ``COLUMNS`` says, or else as *usual*."""
    return console.width if console.is_terminal else told_width() or usual


def told_width() -> int | None:
    """Return what ``COLUMNS`` says, which pagers and scripts set for what is no screen."""
    told = os.environ.get("COLUMNS", "")
    return max(int(told), _LEAST_WIDTH) if told.isdecimal() and int(told) else None


def can_draw(encoding: str | None) -> bool:
    """Tell whether *encoding* has the characters of boxes and bars."""
    try:
        "─│┌█░▒".encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
