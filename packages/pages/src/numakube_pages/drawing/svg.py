"""A scene as SVG: one ``<svg>`` element that stands alone in a file or inside a page.

Colours are variables on ``.numakube-map``, light or dark as the reader's system is, or as an
ancestor with ``data-theme`` says. Programs other than browsers know no variables: for them the
light colours stand as they are, before a block that only browsers read. Everything that came from
a cluster is escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube_pages.drawing.node_layout import scene_of
from numakube_pages.drawing.scene import (
    DARK,
    LIGHT,
    Box,
    DrawnGroup,
    Item,
    Label,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.insight.node_map.picture import NodePicture
    from numakube_pages.drawing.scene import Scene


DEFAULT_SCALE: Final = 2
_ROOT: Final = ".numakube-map"
_SANS: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_PNG_FONT: Final = "Source Sans Pro"
_MONO: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
# What XML cannot hold at all, and everything that needs an entity.
_UNSAFE: Final = re.compile("[&<>\"']|[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg_of(
    picture: NodePicture,
    *,
    prefix: str = "",
    style: bool = True,
    link: Callable[[str], str] | None = None,
) -> str:
    """Return the drawing of *picture*.

    Args:
        picture: what to draw.
        prefix: goes before every id, so that several drawings can be in one page.
        style: with the style sheet inside; else the page has to bring `svg_style`.
        link: returns the address that everything of a pod leads to; empty for nowhere.
    """
    return "".join(_Pen(prefix, link).lines(scene_of(picture), svg_style() if style else ""))


def png_of(picture: NodePicture, *, scale: int = DEFAULT_SCALE, dark: bool = False) -> bytes:
    """Return the drawing of *picture*, *scale* pixels for each unit of the SVG.

    Its font is one that is installed with this package: images of containers have none, and a
    drawing is the same everywhere.
    """
    import font_source_sans_pro
    import resvg_py

    theme = DARK if dark else LIGHT
    svg = "".join(
        _Pen("", None).lines(scene_of(picture), _family(_PNG_FONT) + _plain_style(theme, _PNG_FONT))
    )
    return resvg_py.svg_to_bytes(
        svg_string=svg,
        zoom=scale,
        background=theme["page"],
        skip_system_fonts=True,
        font_dirs=[font_source_sans_pro.font_directory],
        font_family=_PNG_FONT,
    )


def draw_svg(picture: NodePicture, *, dark: bool) -> bytes:
    """Return an SVG, which is light or dark as its reader is."""
    del dark
    return svg_of(picture).encode()


def draw_png(picture: NodePicture, *, dark: bool) -> bytes:
    """Return a PNG."""
    return png_of(picture, dark=dark)


def svg_style() -> str:
    """Return the style sheet of all drawings."""
    light, dark = _variables(LIGHT), _variables(DARK)
    return (
        f"{_family(_SANS)}"
        f"{_ROOT}{{{light}}}\n"
        f"@media (prefers-color-scheme:dark){{{_ROOT}{{{dark}}}}}\n"
        f"[data-theme=light] {_ROOT}{{{light}}}\n"
        f"[data-theme=dark] {_ROOT}{{{dark}}}\n"
        f"{_plain_style(LIGHT, _MONO)}"
        f"@supports (fill:var(--nk-page)){{\n{_rules({n: f'var(--nk-{n})' for n in LIGHT})}}}\n"
    )


def _family(face: str) -> str:
    return f"{_ROOT}{{font-family:{face}}}\n"


def _plain_style(theme: Mapping[str, str], mono: str) -> str:
    """Return the style sheet with the colours of *theme* as they are, for any program."""
    return (
        f"{_ROOT} .b{{font-weight:600}}\n"
        f"{_ROOT} .m{{font-family:{mono}}}\n"
        f"{_ROOT} .middle{{text-anchor:middle}}\n"
        f"{_ROOT} .end{{text-anchor:end}}\n"
        f"{_ROOT} .dashed{{stroke-dasharray:3 2}}\n"
        f"{_ROOT} .cpu,{_ROOT} .device,{_ROOT} .part{{cursor:default}}\n"
        f"{_rules(theme)}"
    )


def _rules(paints: Mapping[str, str]) -> str:
    """Return the rules that paint with *paints*, by their names."""
    return "".join(
        f"{_ROOT} .f-{name}{{fill:{paint}}}{_ROOT} .s-{name}{{stroke:{paint}}}\n"
        for name, paint in paints.items()
    )


def _variables(theme: Mapping[str, str]) -> str:
    return "".join(f"--nk-{name}:{colour};" for name, colour in theme.items())


class _Pen:
    """Writes the items of one drawing."""

    def __init__(self, prefix: str, link: Callable[[str], str] | None) -> None:
        self._prefix = prefix
        self._link = link

    def lines(self, scene: Scene, style: str) -> Iterator[str]:
        width, height = _number(scene.width), _number(scene.height)
        title, description = f"{self._prefix}map-title", f"{self._prefix}map-description"
        # Links inside of one image cannot be found.
        role = "img" if self._link is None else "group"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="numakube-map" role="{role}"'
            f' aria-labelledby="{escaped(title)} {escaped(description)}"'
            f' viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        )
        yield f'<title id="{escaped(title)}">{escaped(scene.title)}</title>\n'
        yield f'<desc id="{escaped(description)}">{escaped(scene.description)}</desc>\n'
        if style:
            yield f"<style>\n{style}</style>\n"
        for item in scene.items:
            yield from self._item(item)
        yield "</svg>\n"

    def _item(self, item: Item) -> Iterator[str]:
        if isinstance(item, DrawnGroup):
            yield from self._group(item)
        elif isinstance(item, Label):
            yield _label(item)
        else:
            yield _box(item)

    def _group(self, group: DrawnGroup) -> Iterator[str]:
        attributes = {"class": group.classes, "id": self._prefix + group.id if group.id else ""}
        attributes |= {f"data-{name}": value for name, value in group.data.items()}
        opening, closing = self._linked(group)
        yield f"{opening}<g{_attributes(attributes)}>"
        if group.title:
            yield f"<title>{escaped(group.title)}</title>"
        for child in group.children:
            yield from self._item(child)
        yield f"</g>{closing}\n"

    def _linked(self, group: DrawnGroup) -> tuple[str, str]:
        """Return what goes around a group that is a pod's; only the legend is walked by keys."""
        pod = group.data.get("pod", "")
        address = self._link(pod) if self._link is not None and pod else ""
        if not address:
            return "", ""
        legend = "letter" in group.data
        attributes = {
            "href": address,
            "aria-label": pod if legend else "",
            "tabindex": "" if legend else "-1",
            "aria-hidden": "" if legend else "true",
        }
        return f"<a{_attributes(attributes)}>", "</a>"


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
