"""An explanation on a terminal: sentences folded to its width, tables left alone, some colour.

What goes elsewhere is printed as it is: one sentence a line, so that it can be searched.
"""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.output_option import make_console
from numakube.insight.explain.explanation_text import Line, Role, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_STYLES: Final = {
    Role.TITLE: "bold",
    Role.HEADING: "bold",
    Role.CHANGE: "green",
    Role.NOTE: "dim",
    Role.FITS: "green",
    Role.REFUSED: "yellow",
}
_NARROWEST: Final = 60


def print_lines(lines: Iterable[Line]) -> None:
    """Print *lines* as fits standard output."""
    if not sys.stdout.isatty():
        click.echo(joined(lines), nl=False)
        return
    from rich.text import Text

    console = make_console()
    for line in lines:
        for part in folded(line, max(_NARROWEST, console.width)):
            console.print(Text(part, style=_STYLES.get(line.role, "")), soft_wrap=True)


def folded(line: Line, width: int) -> Iterator[str]:
    """Yield a line in parts of at most *width* characters; rows of tables stay whole."""
    text = line.text
    if len(text) <= width or line.role is Role.ROW:
        yield text
        return
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    yield from textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
