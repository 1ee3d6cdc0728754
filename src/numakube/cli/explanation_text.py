"""An explanation on a terminal: sentences folded to its width, tables left alone, some colour.

What goes elsewhere is printed as it is: one sentence a line, so that it can be searched.
"""

from __future__ import annotations

import re
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.output import make_console

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLUMNS: Final = re.compile(r"\S {2,}\S")
"""What rows of tables have, and sentences have not."""
_STYLES: Final = (
    (re.compile(r"Pod "), "bold"),
    (re.compile(r"Node .*: fits$"), "green"),
    (re.compile(r"Node .*: refused"), "yellow"),
    (re.compile(r"(What would|No change)"), "bold"),
    (re.compile(r" +\d+\. "), "green"),
    (re.compile(r"Note: "), "dim"),
)
_NARROWEST: Final = 60


def print_explanation(text: str) -> None:
    """Print *text* as fits standard output."""
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.text import Text

    console = make_console()
    for line in text.splitlines():
        for part in folded(line, max(_NARROWEST, console.width)):
            console.print(Text(part, style=style_of(line)), soft_wrap=True)


def folded(line: str, width: int) -> Iterator[str]:
    """Yield a line in parts of at most *width* characters; rows of tables stay whole."""
    if len(line) <= width or _COLUMNS.search(line.partition("   [")[0]):
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    yield from textwrap.wrap(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def style_of(line: str) -> str:
    """Return the style of a line; empty for most."""
    return next((style for pattern, style in _STYLES if pattern.match(line)), "")
