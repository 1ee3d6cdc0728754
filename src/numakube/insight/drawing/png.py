"""A scene as PNG, made here rather than by an imaging library, which would be one more to install.

The drawing is the same as the SVG's, box for box. PNG is written as its specification (ISO 15948)
has it: eight bits a channel, no transparency, each line filtered by the difference to the last.
Pixels are plain Python: whole runs are copied as slices, and each letter is computed once.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor, hypot
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.insight.drawing.drawing_colours import DARK, LIGHT, blend, rgb
from numakube.insight.drawing.node_layout import scene_of
from numakube.insight.drawing.scene import MONO_ADVANCE, Box, Group, Item, Label
from numakube.insight.drawing.typeface import SPACING, UNITS_AN_EM, glyph_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.scene import Scene


Colour: TypeAlias = tuple[int, int, int]
Mask: TypeAlias = "tuple[tuple[int, int, int], ...]"
"""Pixels relative to a place, with how much of each is covered in parts of 256."""

_REGULAR: Final = 0.088  # thickness of strokes in parts of the size
_BOLD: Final = 0.135
_BOLDER: Final = 0.5  # more room between bold letters, in units of the typeface
_SAMPLES: Final = 4
SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
DEFAULT_SCALE: Final = 2
_TRUE_COLOUR: Final = 2
_SUBTRACT_LINE_ABOVE: Final = 2


class Canvas:
    """An image in red, green and blue, filled with one colour at first."""

    def __init__(self, width: int, height: int, colour: Colour) -> None:
        self.width = width
        self.height = height
        self.pixels = bytearray(bytes(colour) * (width * height))

    def box(self, edges: tuple[float, float, float, float], colour: Colour, radius: float) -> None:
        """Fill the box from left, top to right, bottom."""
        left, top, right, bottom = (round(edge) for edge in edges)
        right, bottom = max(right, left + 1), max(bottom, top + 1)
        size = min(round(radius), (right - left) // 2, (bottom - top) // 2)
        for y in range(top, bottom):
            inset = size if y < top + size or y >= bottom - size else 0
            self._run(left + inset, right - inset, y, colour)
        for x, y, share in _corner(size):
            for column in (left + x, right - 1 - x):
                for row in (top + y, bottom - 1 - y):
                    self._blend(((column, row, share),), 0, 0, colour)

    def _run(self, left: int, right: int, y: int, colour: Colour) -> None:
        left, right = max(left, 0), min(right, self.width)
        if 0 <= y < self.height and left < right:
            start = 3 * (y * self.width + left)
            self.pixels[start : start + 3 * (right - left)] = bytes(colour) * (right - left)

    def _blend(self, mask: Mask, left: int, top: int, colour: Colour) -> None:
        """Mix *colour* into the pixels of *mask*."""
        red, green, blue = colour
        pixels, width, height = self.pixels, self.width, self.height
        for across, down, share in mask:
            x, y = left + across, top + down
            if 0 <= x < width and 0 <= y < height:
                at = 3 * (y * width + x)
                pixels[at] += (red - pixels[at]) * share >> 8
                pixels[at + 1] += (green - pixels[at + 1]) * share >> 8
                pixels[at + 2] += (blue - pixels[at + 2]) * share >> 8

    def text(
        self, x: float, y: float, text: str, size: float, colour: Colour, *, bold: bool, mono: bool
    ) -> None:
        """Write *text* from *x* on; *y* is the base line."""
        for character, left in _places(text, size, bold=bold, mono=mono):
            column, rest = divmod(x + left, 1)
            # Halves of a pixel are as fine as the eye can tell.
            mask = _letter(character, size, 0.5 if rest >= 0.5 else 0.0, bold=bold, mono=mono)
            self._blend(mask, int(column), round(y), colour)


def text_length(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """Return how wide *text* is on a canvas."""
    return sum(_advance(one, size, bold=bold, mono=mono) for one in text)


def _places(text: str, size: float, *, bold: bool, mono: bool) -> Iterator[tuple[str, float]]:
    left = 0.0
    for character in text:
        yield character, left
        left += _advance(character, size, bold=bold, mono=mono)


def _advance(character: str, size: float, *, bold: bool, mono: bool) -> float:
    if mono:
        return size * MONO_ADVANCE
    spacing = SPACING + (_BOLDER if bold else 0.0)
    return (glyph_of(character).width + spacing) * size / UNITS_AN_EM


@lru_cache(maxsize=64)
def _corner(radius: int) -> Mask:
    """Return the pixels of a quarter of a disc, in the corner at the origin."""
    found = []
    for y in range(radius):
        for x in range(radius):
            inside = sum(
                hypot(radius - x - dx, radius - y - dy) <= radius
                for dx in _offsets()
                for dy in _offsets()
            )
            if inside:
                found.append((x, y, 256 * inside // _SAMPLES**2))
    return tuple(found)


def _offsets() -> Iterator[float]:
    return ((number + 0.5) / _SAMPLES for number in range(_SAMPLES))


@lru_cache(maxsize=4096)
def _letter(character: str, size: float, shift: float, *, bold: bool, mono: bool) -> Mask:
    """Return the pixels of a letter relative to its place on the base line."""
    glyph = glyph_of(character)
    unit = size / UNITS_AN_EM
    left, squeeze = shift, unit
    if mono:
        cell = MONO_ADVANCE * size
        squeeze = min(unit, 0.86 * cell / max(glyph.width, 0.1))
        left += (cell - glyph.width * squeeze) / 2
    half = (_BOLD if bold else _REGULAR) * size / 2
    shares: dict[tuple[int, int], float] = {}
    for stroke in glyph.strokes:
        points = [(left + px * squeeze, -py * unit) for px, py in stroke]
        for (x1, y1), (x2, y2) in pairwise(points):
            _cover(shares, (x1, y1, x2, y2), half)
    return tuple((x, y, round(256 * share)) for (x, y), share in shares.items())


def _cover(
    shares: dict[tuple[int, int], float], line: tuple[float, float, float, float], half: float
) -> None:
    """Raise the shares of the pixels that a line of twice *half* thickness covers."""
    x1, y1, x2, y2 = line
    reach = half + 0.5
    for y in range(floor(min(y1, y2) - reach), ceil(max(y1, y2) + reach)):
        for x in range(floor(min(x1, x2) - reach), ceil(max(x1, x2) + reach)):
            share = reach - _distance(x + 0.5, y + 0.5, *line)
            if share > shares.get((x, y), 0.0):
                shares[x, y] = min(share, 1.0)


def _distance(x: float, y: float, x1: float, y1: float, x2: float, y2: float) -> float:
    """Return how far a point is from a line between two points."""
    dx, dy = x2 - x1, y2 - y1
    length = dx * dx + dy * dy
    along = ((x - x1) * dx + (y - y1) * dy) / length if length else 0.0
    along = min(max(along, 0.0), 1.0)
    return hypot(x - x1 - along * dx, y - y1 - along * dy)


def png_of(picture: NodePicture, *, scale: int = DEFAULT_SCALE, dark: bool = False) -> bytes:
    """Return the drawing of *picture*, *scale* pixels for each unit of the SVG."""
    scene = scene_of(picture)
    canvas = _painted(scene, scale, DARK if dark else LIGHT)
    return encode_png(canvas, texts={"Title": scene.title, "Description": scene.description})


def _painted(scene: Scene, scale: int, theme: Mapping[str, str]) -> Canvas:
    canvas = Canvas(round(scene.width * scale), round(scene.height * scale), rgb(theme["page"]))
    for item in _flat(scene.items):
        if isinstance(item, Box):
            _paint_box(canvas, item, scale, theme)
        else:
            _paint_label(canvas, item, scale, theme)
    return canvas


def _flat(items: Iterable[Item]) -> Iterator[Box | Label]:
    for item in items:
        if isinstance(item, Group):
            yield from _flat(item.children)
        else:
            yield item


def _paint_box(canvas: Canvas, box: Box, scale: int, theme: Mapping[str, str]) -> None:
    colour = blend(theme["page"], theme[box.fill], box.opacity)
    grow = box.line_width / 2 if box.line else 0.0
    if box.line:
        canvas.box(_edges(box, grow, scale), rgb(theme[box.line]), (box.radius + grow) * scale)
    canvas.box(_edges(box, -grow, scale), rgb(colour), (box.radius - grow) * scale)


def _edges(box: Box, grow: float, scale: int) -> tuple[float, float, float, float]:
    return (
        (box.x - grow) * scale,
        (box.y - grow) * scale,
        (box.x + box.width + grow) * scale,
        (box.y + box.height + grow) * scale,
    )


def _paint_label(canvas: Canvas, label: Label, scale: int, theme: Mapping[str, str]) -> None:
    size = label.size * scale
    length = text_length(label.text, size, bold=label.bold, mono=label.mono)
    share = {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor]
    x, y = label.x * scale - share * length, label.y * scale
    colour = rgb(theme[label.paint])
    canvas.text(x, y, label.text, size, colour, bold=label.bold, mono=label.mono)


def encode_png(canvas: Canvas, *, texts: Mapping[str, str]) -> bytes:
    """Return the canvas as a file, with *texts* about it inside."""
    head = struct.pack(">IIBBBBB", canvas.width, canvas.height, 8, _TRUE_COLOUR, 0, 0, 0)
    about = [
        _chunk(b"iTXt", b"%s\0\0\0\0\0%s" % (name.encode("latin-1"), text.encode()))
        for name, text in texts.items()
    ]
    data = zlib.compress(_filtered(canvas), 6)
    return b"".join((SIGNATURE, _chunk(b"IHDR", head), *about, _chunk(b"IDAT", data), _END))


def _filtered(canvas: Canvas) -> bytes:
    """Return the lines, equal ones as zeros: most of a drawing repeats the line above."""
    stride = 3 * canvas.width
    above = bytes(stride)
    lines = []
    for start in range(0, len(canvas.pixels), stride):
        line = bytes(canvas.pixels[start : start + stride])
        if line == above:
            lines.append(bytes((_SUBTRACT_LINE_ABOVE,)) + bytes(stride))
        else:
            lines.append(b"\0" + line)
        above = line
    return b"".join(lines)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_END: Final = _chunk(b"IEND", b"")
