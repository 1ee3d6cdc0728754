"""What every picture format can draw: boxes and texts at places, in groups with a meaning.

Colours are names of `numakube.insight.drawing.drawing_colours`. A group says what it is
(``classes``, ``data``) and what a pointer over it should tell (``title``); formats without such
things draw it all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# How wide a character is, in parts of the size: of the monospaced face, and at most of the other.
MONO_ADVANCE: Final = 0.6
TEXT_ADVANCE: Final = 0.59
BOLD_ADVANCE: Final = 0.68


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle.

    Attributes:
        opacity: of the filling; 1 hides what is below.
    """

    x: float
    y: float
    width: float
    height: float
    fill: str
    line: str = ""
    line_width: float = 1
    radius: float = 0
    opacity: float = 1
    dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One line of text; *y* is its base line."""

    x: float
    y: float
    text: str
    size: float
    paint: str = "text"
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    mono: bool = False

    @property
    def width(self) -> float:
        """About how wide the text is."""
        return text_width(self.text, self.size, bold=self.bold, mono=self.mono)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Things that belong together."""

    children: tuple[Item, ...]
    classes: str = ""
    id: str = ""
    title: str = ""
    data: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


Item: TypeAlias = Box | Label | Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A drawing of some size, with its name and its description for those who do not see it."""

    width: float
    height: float
    items: tuple[Item, ...]
    title: str
    description: str


def text_width(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """Return about how wide *text* is; rather too much than too little."""
    advance = MONO_ADVANCE if mono else BOLD_ADVANCE if bold else TEXT_ADVANCE
    return len(text) * size * advance


def shortened(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Return *text*, cut with an ellipsis at its end if it is wider than *width*."""
    room = int(width / text_width("x", size, bold=bold))
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"


def shortened_name(name: str, width: float, size: float, *, bold: bool = False) -> str:
    """Return *name*, cut in the middle: the ends of generated names tell them apart."""
    room = int(width / text_width("x", size, bold=bold))
    if len(name) <= room:
        return name
    end = room // 3
    return f"{name[: max(room - end - 1, 0)]}…{name[len(name) - end :]}"


def wrapped(parts: Iterable[str], width: float, size: float, *, between: str) -> list[str]:
    """Return *parts* in lines of at most *width*, broken only between parts if possible."""
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]}{between}{part}" if lines else part
        if lines and text_width(joined, size) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


def moved(item: Item, right: float, down: float) -> Item:
    """Return *item* at another place."""
    if isinstance(item, Group):
        return replace(item, children=tuple(moved(one, right, down) for one in item.children))
    return replace(item, x=item.x + right, y=item.y + down)
