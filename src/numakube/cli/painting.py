"""Drawings and tables that are kept up to date on a terminal, in colour where it has any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from numakube.insight.drawing.theme import POD_COLOURS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.text import Line
    from numakube.insight.drawing.text_zone import Span

_STYLES: Final = {
    "muted": "dim",
    "reserved": "dim",
    "several": "black on grey70",
    "warning": "yellow",
    "taken": "bold red",
    "freed": "bold green",
    "broken": "bold red",
}
_POD_TEXT: Final = "#1b1f24"


def print_drawing(console: Console, lines: Iterable[Line]) -> None:
    """Print a drawing; nothing is folded, since every line was made to fit."""
    for line in lines:
        text = Text.assemble(*((span.text, _style(span)) for span in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def _style(span: Span) -> str:
    paint = span.paint
    if paint.startswith("p") and paint[1:].isdigit():
        colour = POD_COLOURS[int(paint[1:]) % len(POD_COLOURS)]
        return f"{'bold underline ' if span.bold else ''}{_POD_TEXT} on {colour}"
    bold = "bold " if span.bold else ""
    return bold + _STYLES.get(paint, "")


def name_styles(picture: NodePicture) -> dict[str, str]:
    """Return how the names of pods are written where they stand alone."""
    return {
        pod.name: POD_COLOURS[number % len(POD_COLOURS)] for number, pod in enumerate(picture.pods)
    }
