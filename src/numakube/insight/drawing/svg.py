"""A scene as SVG: one ``<svg>`` element that stands alone in a file or inside a page.

Colours are variables on ``.numakube-map``, light or dark as the reader's system is, or as an
ancestor with ``data-theme`` says. Everything that came from a cluster is escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.insight.drawing.layout import scene_of
from numakube.insight.drawing.scene import Box, Group, Item, Label
from numakube.insight.drawing.theme import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.scene import Scene

_ROOT: Final = ".numakube-map"
_SANS: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_MONO: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
# What XML cannot hold at all, and everything that needs an entity.
_UNSAFE: Final = re.compile("[&<>\"']|[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg_of(picture: NodePicture, *, prefix: str = "", style: bool = True) -> str:
    """Return the drawing of *picture*.

    Args:
        picture: what to draw.
        prefix: goes before every id, so that several drawings can be in one page.
        style: with the style sheet inside; else the page has to bring `svg_style`.
    """
    return "".join(_lines(scene_of(picture), prefix, style=style))


def svg_style() -> str:
    """Return the style sheet of all drawings."""
    light, dark = _variables(LIGHT), _variables(DARK)
    return (
        f"{_ROOT}{{{light}font-family:{_SANS}}}\n"
        f"@media (prefers-color-scheme:dark){{{_ROOT}{{{dark}}}}}\n"
        f"[data-theme=light] {_ROOT}{{{light}}}\n"
        f"[data-theme=dark] {_ROOT}{{{dark}}}\n"
        f"{_ROOT} .b{{font-weight:600}}\n"
        f"{_ROOT} .m{{font-family:{_MONO}}}\n"
        f"{_ROOT} .middle{{text-anchor:middle}}\n"
        f"{_ROOT} .end{{text-anchor:end}}\n"
        f"{_ROOT} .dashed{{stroke-dasharray:3 2}}\n"
        f"{_ROOT} .cpu,{_ROOT} .device,{_ROOT} .part{{cursor:default}}\n"
        + "".join(
            f"{_ROOT} .f-{name}{{fill:var(--nk-{name})}}"
            f"{_ROOT} .s-{name}{{stroke:var(--nk-{name})}}\n"
            for name in LIGHT
        )
    )


def _variables(theme: Mapping[str, str]) -> str:
    return "".join(f"--nk-{name}:{colour};" for name, colour in theme.items())


def _lines(scene: Scene, prefix: str, *, style: bool) -> Iterator[str]:
    width, height = _number(scene.width), _number(scene.height)
    title, description = f"{prefix}map-title", f"{prefix}map-description"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="numakube-map" role="img"'
        f' aria-labelledby="{escaped(title)} {escaped(description)}"'
        f' viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
    )
    yield f'<title id="{escaped(title)}">{escaped(scene.title)}</title>\n'
    yield f'<desc id="{escaped(description)}">{escaped(scene.description)}</desc>\n'
    if style:
        yield f"<style>\n{svg_style()}</style>\n"
    for item in scene.items:
        yield from _item(item, prefix)
    yield "</svg>\n"


def _item(item: Item, prefix: str) -> Iterator[str]:
    if isinstance(item, Group):
        yield from _group(item, prefix)
    elif isinstance(item, Label):
        yield _label(item)
    else:
        yield _box(item)


def _group(group: Group, prefix: str) -> Iterator[str]:
    attributes = {"class": group.classes, "id": prefix + group.id if group.id else ""}
    attributes |= {f"data-{name}": value for name, value in group.data.items()}
    yield f"<g{_attributes(attributes)}>"
    if group.title:
        yield f"<title>{escaped(group.title)}</title>"
    for child in group.children:
        yield from _item(child, prefix)
    yield "</g>\n"


def _box(box: Box) -> str:
    attributes = {
        "class": _words(f"f-{box.fill}", box.line and f"s-{box.line}", box.dashed and "dashed"),
        "x": _number(box.x),
        "y": _number(box.y),
        "width": _number(box.width),
        "height": _number(box.height),
        "rx": _number(box.radius) if box.radius else "",
        "stroke-width": _number(box.line_width) if box.line and box.line_width != 1 else "",
        "fill-opacity": _number(box.opacity) if box.opacity != 1 else "",
    }
    return f"<rect{_attributes(attributes)}/>"


def _label(label: Label) -> str:
    attributes = {
        "class": _words(
            f"f-{label.paint}",
            label.anchor != "start" and label.anchor,
            label.bold and "b",
            label.mono and "m",
        ),
        "x": _number(label.x),
        "y": _number(label.y),
        "font-size": _number(label.size),
    }
    return f"<text{_attributes(attributes)}>{escaped(label.text)}</text>"


def _words(*words: str | bool) -> str:
    return " ".join(word for word in words if isinstance(word, str) and word)


def _attributes(attributes: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escaped(value)}"' for name, value in attributes.items() if value)


def _number(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def escaped(text: str) -> str:
    """Return *text* as it may stand in XML, inside and outside of attributes."""
    return _UNSAFE.sub(lambda match: _ENTITIES.get(match[0], "\ufffd"), text)
