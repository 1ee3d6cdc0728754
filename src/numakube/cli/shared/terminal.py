"""What commands print: drawings in colour, tables as kubectl prints them, and again with ``-w``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click
from rich.text import Text

from numakube.cli.shared.output_option import print_document
from numakube.insight.node_map.picture import POD_COLOURS
from numakube.values.display import age_text
from numakube.values.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import Console

    from numakube.cli.shared.output_option import Output
    from numakube.insight.node_map.picture import NodePicture
    from numakube.insight.node_map.terminal_map import Line, PaintedText


_STYLES: Final = {
    "muted": "dim",
    "reserved": "dim",
    "several": "black on grey70",
    "warning": "yellow",
    "taken": "bold red",
    "freed": "bold green",
    "broken": "bold red",
}
_FEW_COLOURS: Final = (
    "cyan", "yellow", "green", "magenta", "bright_blue", "bright_yellow",
    "bright_cyan", "bright_red", "bright_green", "white", "bright_magenta", "blue",
)  # fmt: skip
"""For terminals of sixteen colours, where the nearest ones to ours would be three."""
_GAP: Final = "   "
WATCH_SECONDS: Final = 2.0


def print_drawing(console: Console, lines: Iterable[Line]) -> None:
    """Print a drawing; nothing is folded, since every line was made to fit."""
    palette = _palette(console)
    for line in lines:
        text = Text.assemble(*((span.text, _style(span, palette)) for span in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def _palette(console: Console) -> Sequence[str]:
    return _FEW_COLOURS if console.color_system == "standard" else POD_COLOURS


def _style(span: PaintedText, palette: Sequence[str]) -> str:
    paint = span.paint
    if paint.startswith("p") and paint[1:].isdigit():
        colour = palette[int(paint[1:]) % len(palette)]
        dark = "black" if palette is _FEW_COLOURS else "#1b1f24"
        return f"{'bold underline ' if span.bold else ''}{dark} on {colour}"
    bold = "bold " if span.bold else ""
    return bold + _STYLES.get(paint, "")


def name_styles(picture: NodePicture, console: Console) -> dict[str, str]:
    """Return how the names of pods are written where they stand alone."""
    palette = _palette(console)
    return {pod.name: palette[number % len(palette)] for number, pod in enumerate(picture.pods)}


def watch_option(command: Callable[..., object]) -> Callable[..., object]:
    """Declare ``-w``; it arrives as ``watch``."""
    option = click.option(
        "-w", "--watch", is_flag=True, help=f"Look again every {WATCH_SECONDS:g} s."
    )
    return option(command)


def repeated(look: Callable[[], None], *, watch: bool) -> None:
    """Look once, or until interrupted."""
    look()
    while watch:
        time.sleep(WATCH_SECONDS)
        click.echo()
        look()


def say(line: str) -> None:
    """Print a line with words of others in it."""
    click.echo(printable(line))


def print_rows(
    titles: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "nothing"
) -> None:
    """Print a table as kubectl does, of full width; *empty* says what there is none of."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not texts:
        click.echo(empty)
        return
    for line in column_lines(titles, texts, blank=""):
        click.echo(line)


def column_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, headers: bool = True, blank: str = "-"
) -> Iterator[str]:
    """Yield the lines of a table of full width; empty cells are shown as *blank*."""
    filled = [[printable(cell) or blank for cell in row] for row in rows]
    everything = [list(titles), *filled] if headers else filled
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
    for row in everything:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield _GAP.join(cells).rstrip()


def print_list(kind: str, items: Sequence[object], output: Output) -> None:
    """Print plain data as a list in JSON or YAML."""
    head = {"apiVersion": "debug.numakube.dev/v1alpha1", "kind": kind}
    print_document({**head, "items": list(items)}, output)


def age(seconds: float | None) -> str:
    """Return how long ago something was; ``?`` if that is not known."""
    return "?" if seconds is None else age_text(seconds)
