"""What every picture format can draw: boxes and texts at places, in groups with a meaning.

Colours are names of `numakube_pages.drawing.scene`. A group says what it is
(``classes``, ``data``) and what a pointer over it should tell (``title``); formats without such
things draw it all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from numakube.insight.node_map.picture import POD_COLOURS

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
class DrawnGroup:
    """Things that belong together."""

    children: tuple[Item, ...]
    classes: str = ""
    id: str = ""
    title: str = ""
    data: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


Item: TypeAlias = Box | Label | DrawnGroup


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
    if isinstance(item, DrawnGroup):
        return replace(item, children=tuple(moved(child, right, down) for child in item.children))
    return replace(item, x=item.x + right, y=item.y + down)


# Colours of a drawing, for light and for dark surroundings.
#
# Pods have the same colours in both: soft ones, on which dark text can be read. Colours alone never
# tell pods apart: every cell of a pod has its letter, too.


_PODS: Final = {f"p{number}": colour for number, colour in enumerate(POD_COLOURS)}

LIGHT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "page": "#ffffff",
        "socket": "#eef2f7",
        "socket-line": "#d3dae3",
        "zone": "#ffffff",
        "zone-line": "#b9c4d1",
        "cache": "#f4f6f9",
        "cache-line": "#dce2ea",
        "core": "#e3e9f0",
        "free": "#ffffff",
        "free-line": "#cdd6e0",
        "reserved": "#b4bfcc",
        "several": "#cfd6de",
        "bar": "#e3e9f0",
        "broken": "#f6d5d5",
        "text": "#1f2328",
        "muted": "#59636e",
        "on-pod": "#1b1f24",
        "on-reserved": "#2b3138",
        "warning": "#9a6700",
        "good": "#1a7f37",
        "taken": "#cf222e",
        "freed": "#1a7f37",
        "heat": "#f0883e",
        **_PODS,
    }
)

DARK: Final[Mapping[str, str]] = MappingProxyType(
    {
        "page": "#0d1117",
        "socket": "#151b23",
        "socket-line": "#2f3742",
        "zone": "#0d1117",
        "zone-line": "#454e5a",
        "cache": "#171d26",
        "cache-line": "#2d3540",
        "core": "#262e38",
        "free": "#10161e",
        "free-line": "#3d444d",
        "reserved": "#4a5461",
        "several": "#5a6470",
        "bar": "#262e38",
        "broken": "#5d2a2e",
        "text": "#f0f6fc",
        "muted": "#9aa4af",
        "on-pod": "#1b1f24",
        "on-reserved": "#e6edf3",
        "warning": "#e3b341",
        "good": "#56d364",
        "taken": "#ff7b72",
        "freed": "#56d364",
        "heat": "#f0883e",
        **_PODS,
    }
)


def pod_paint(number: int) -> str:
    """Return the name of a pod's colour; after the last one they start again."""
    return f"p{number % len(POD_COLOURS)}"


def rgb(colour: str) -> tuple[int, int, int]:
    """Return the parts of ``#rrggbb``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
