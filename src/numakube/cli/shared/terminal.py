"""Drawings and tables that are kept up to date on a terminal, in colour where it has any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from numakube.insight.drawing.theme import POD_COLOURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.terminal_map import Line
    from numakube.insight.drawing.terminal_zone import Span

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


def print_drawing(console: Console, lines: Iterable[Line]) -> None:
    """Print a drawing; nothing is folded, since every line was made to fit."""
    palette = _palette(console)
    for line in lines:
        text = Text.assemble(*((span.text, _style(span, palette)) for span in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def _palette(console: Console) -> Sequence[str]:
    return _FEW_COLOURS if console.color_system == "standard" else POD_COLOURS


def _style(span: Span, palette: Sequence[str]) -> str:
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
