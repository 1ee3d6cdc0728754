"""A scene as PNG, made here rather than by an imaging library, which would be one more to install.

The drawing is the same as the SVG's, box for box. PNG is written as its specification (ISO 15948)
has it: eight bits a channel, no transparency, each line filtered by the difference to the last.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from numakube.insight.drawing.layout import scene_of
from numakube.insight.drawing.raster import Canvas, text_length
from numakube.insight.drawing.scene import Box, Group, Item, Label
from numakube.insight.drawing.theme import DARK, LIGHT, blend, rgb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.scene import Scene

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
DEFAULT_SCALE: Final = 2
_TRUE_COLOUR: Final = 2
_SUBTRACT_LINE_ABOVE: Final = 2


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
