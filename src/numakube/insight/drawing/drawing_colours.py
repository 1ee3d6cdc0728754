"""Colours of a drawing, for light and for dark surroundings.

Pods have the same colours in both: soft ones, on which dark text can be read. Colours alone never
tell pods apart: every cell of a pod has its letter, too.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

POD_COLOURS: Final = (
    "#7cc4f8", "#ffb454", "#8fdc8a", "#f39ab8", "#b9a4f4", "#f5dd5b",
    "#6fd6cb", "#f58f7c", "#c6d96a", "#9fb4d8", "#e0a5ea", "#d1b48c",
)  # fmt: skip

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


def blend(colour: str, other: str, share: float) -> str:
    """Return *colour* mixed with *share* of *other*."""
    pairs = zip(rgb(colour), rgb(other), strict=True)
    mixed = (round(one + (two - one) * share) for one, two in pairs)
    return "#" + "".join(f"{part:02x}" for part in mixed)


def rgb(colour: str) -> tuple[int, int, int]:
    """Return the parts of ``#rrggbb``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
