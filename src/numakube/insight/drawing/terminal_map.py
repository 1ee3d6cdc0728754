"""The picture in a terminal: a box for each zone, a letter for each pod.

    ╭─ NUMA zone 0 · socket 0 · CPUs 0-7 ────────────╮
    │ CPUs    rr AA AA AA ·· ·· ·· ··     8 of 14 free │
    │ memory  ▒AAAAA░░░░░░░░░░░░░░  23Gi of 32Gi free │
    │ gpu     A ·                          1 of 2 free │
    ╰────────────────────────────────────────────────╯

Lines are parts with names of colours, so that a terminal can paint them and a file need not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.insight.drawing import map_words
from numakube.insight.drawing.connection_matrix import connections_of
from numakube.insight.drawing.folded_zones import folded
from numakube.insight.drawing.picture import Change
from numakube.insight.drawing.terminal_matrix import MatrixPen
from numakube.insight.drawing.terminal_zone import ASCII, BLOCKED, UNICODE, Span, TextPen, width_of
from numakube.values.display import counted
from numakube.values.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.terminal_zone import Glyphs

Line: TypeAlias = "tuple[Span, ...]"

DEFAULT_WIDTH: Final = 100
_MOST_COLUMNS: Final = 4
_FRAME: Final = 4  # a line and a blank on both sides


def text_of(picture: NodePicture, *, width: int = DEFAULT_WIDTH, ascii_only: bool = False) -> str:
    """Return the drawing as plain text of at most *width* columns, as far as names allow."""
    return plain_text(lines_of(picture, width=width, ascii_only=ascii_only))


def plain_text(lines: Iterable[Line]) -> str:
    """Return *lines* without colours."""
    return "".join("".join(span.text for span in line).rstrip() + "\n" for line in lines)


def lines_of(
    picture: NodePicture, *, width: int = DEFAULT_WIDTH, ascii_only: bool = False
) -> Iterator[Line]:
    """Yield the drawing line by line."""
    page = _Page(folded(picture), ASCII if ascii_only else UNICODE, width)
    parts = (
        page.head(), page.zones(), page.homeless(), page.switches(), page.distances(),
        page.hierarchy(), page.legend(),
    )  # fmt: skip
    return _cleaned(chain.from_iterable(parts))


def matrix_lines(
    picture: NodePicture, *, width: int = DEFAULT_WIDTH, ascii_only: bool = False
) -> Iterator[Line]:
    """Yield how close the devices are to each other, line by line."""
    page = _Page(picture, ASCII if ascii_only else UNICODE, width)
    return _cleaned(chain.from_iterable((page.head(), page.matrix(), page.legend())))


def zone_lines(
    picture: NodePicture, *, width: int = DEFAULT_WIDTH, ascii_only: bool = False
) -> Iterator[Line]:
    """Yield zones and legend only, for a drawing below something that has told the rest."""
    page = _Page(folded(picture), ASCII if ascii_only else UNICODE, width)
    return _cleaned(chain.from_iterable((page.zones(), page.homeless(), page.legend())))


def _cleaned(lines: Iterable[Line]) -> Iterator[Line]:
    for line in lines:
        yield tuple(span._replace(text=printable(span.text)) for span in line)


@dataclass(frozen=True, slots=True)
class _Page:
    """Everything on a page, from top to bottom."""

    picture: NodePicture
    glyphs: Glyphs
    width: int

    def head(self) -> Iterator[Line]:
        picture = self.picture
        name = f"{picture.node} after the plan" if picture.planned else picture.node
        badge = "exact data" if picture.exact and not picture.bare else ""
        phrases = [*map_words.machine_words(picture), *([badge] if badge else [])]
        if name:
            yield (Span(name, bold=True),)
        for line in self._folded(phrases):
            yield (Span(line, "muted"),)
        for line in self._folded(map_words.kubelet_words(picture.kubelet)):
            yield (Span(line, "muted"),)
        for text in map_words.data_words(picture):
            yield (Span(f"! {text}", "warning"),)
        yield ()

    def _folded(self, phrases: list[str]) -> Iterator[str]:
        """Yield phrases in lines that fit."""
        line = ""
        for phrase in phrases:
            joined = f"{line}{self.glyphs.dot}{phrase}" if line else phrase
            if line and len(joined) > self.width:
                yield line
                joined = phrase
            line = joined
        if line:
            yield line

    def zones(self) -> Iterator[Line]:
        """Yield boxes side by side."""
        zones = self.picture.zones
        if not zones:
            return
        pen = TextPen(self.picture, self.glyphs)
        columns = self._columns(pen.least_width(zones), len(zones))
        inner = (self.width - (columns - 1)) // columns - _FRAME
        inner = min(inner, pen.natural_width(zones))
        for start in range(0, len(zones), columns):
            boxes = [
                self._box(pen.title(zone), list(pen.zone(zone, inner)), inner)
                for zone in zones[start : start + columns]
            ]
            yield from _beside(boxes)

    def _columns(self, least: int, zones: int) -> int:
        fitting = (self.width + 1) // (least + _FRAME + 1)
        columns = max(min(fitting, _MOST_COLUMNS, zones), 1)
        # Three beside each other leave a hole wherever zones come in twos.
        return 2 if columns == 3 and zones % 3 else columns

    def _box(self, title: str, lines: Sequence[Line], inner: int) -> list[Line]:
        glyphs = self.glyphs
        title = title if len(title) <= inner - 2 else title[: inner - 3] + glyphs.ellipsis
        rest = glyphs.line * (inner - len(title) - 1)
        top = (
            Span(f"{glyphs.corners[0]}{glyphs.line} ", "muted"),
            Span(title, bold=True),
            Span(f" {rest}{glyphs.corners[1]}", "muted"),
        )
        side = Span(glyphs.side, "muted")
        body = [
            (side, Span(" "), *line, Span(" " * (inner - width_of(line) + 1)), side)
            for line in lines or [()]
        ]
        foot = glyphs.corners[2] + glyphs.line * (inner + 2) + glyphs.corners[3]
        return [top, *body, (Span(foot, "muted"),)]

    def homeless(self) -> Iterator[Line]:
        if self.picture.homeless:
            yield (Span("Devices without NUMA node", bold=True),)
            pen = TextPen(self.picture, self.glyphs)
            yield from pen.devices(self.picture.homeless, self.width)
            yield ()

    def switches(self) -> Iterator[Line]:
        connections = connections_of(self.picture)
        if connections and connections.switches():
            yield (Span("behind one PCIe switch", bold=True),)
            yield from MatrixPen(self.picture, connections, self.glyphs).switches()
            yield ()

    def matrix(self) -> Iterator[Line]:
        connections = connections_of(self.picture)
        if connections is None:
            yield (Span("How the devices of this node are connected is not known."),)
        else:
            yield from MatrixPen(self.picture, connections, self.glyphs).matrix(self.width)
            for line in self._folded(list(connections.legend())):
                yield (Span(line, "muted"),)
        yield ()

    def distances(self) -> Iterator[Line]:
        zones = [zone for zone in self.picture.zones if zone.distances]
        if len(zones) < 2:
            return
        cells = [str(value) for zone in zones for value in zone.distances.values()]
        wide = max(map(len, [*cells, *(str(zone.id) for zone in zones)])) + 1
        yield (
            Span("distances ", bold=True),
            Span("".join(f"{zone.id:>{wide}}" for zone in zones), "muted"),
        )
        for zone in zones:
            values = (zone.distances.get(other.id, "") for other in zones)
            yield (
                Span(f"{zone.id:>9} ", "muted"),
                Span("".join(f"{value:>{wide}}" for value in values)),
            )
        yield ()

    def hierarchy(self) -> Iterator[Line]:
        if self.picture.parts:
            yield (Span("hierarchy", bold=True),)
            for depth, line in map_words.hierarchy_words(self.picture):
                yield (Span("  " * (depth + 1) + line.replace(" · ", self.glyphs.dot)),)
            yield ()

    def legend(self) -> Iterator[Line]:
        picture = self.picture
        names = max((len(pod.name) for pod in picture.pods), default=0)
        for number, pod in enumerate(picture.pods):
            gone = pod.change is Change.FREED
            mark = Span("-", "freed") if gone else Span(pod.letter, f"p{number}")
            details = self.glyphs.dot.join(map_words.pod_words(pod))
            new = Span(" (new)", "taken") if pod.change is Change.TAKEN else Span("")
            yield (mark, Span(f" {pod.name:{names}}  "), Span(details, "muted"), new)
        if picture.exact and not picture.bare:
            yield (Span(self.glyphs.dot.join(self._key()), "muted"),)

    def _key(self) -> Iterator[str]:
        cpus, devices = list(self.picture.cpus()), list(self.picture.devices())
        yield f"{self.glyphs.free} free"
        if any(cpu.reserved for cpu in cpus):
            yield "r reserved for the system"
        if any(device.sharers for device in devices):
            yield "+ shared by several pods"
        if any(device.blocked for device in devices):
            yield f"{BLOCKED} parts of it are held"
        if any(not device.healthy and device.owner is None for device in devices):
            yield "! unhealthy"
        if any(cpu.change is Change.FREED for cpu in cpus):
            yield f"{self.glyphs.freed} freed by the plan"
        if self.picture.sharing_pods:
            yield f"{counted(self.picture.sharing_pods, 'pod')} without exclusive resources"


def _beside(boxes: list[list[Line]]) -> Iterator[Line]:
    """Yield the lines of *boxes* side by side; shorter ones get longer by blank lines."""
    height = max(map(len, boxes))
    for line in zip_longest(*(_stretched(box, height) for box in boxes)):
        joined: list[Span] = []
        for number, part in enumerate(line):
            joined += [Span(" "), *part] if number else part
        yield tuple(joined)


def _stretched(box: list[Line], height: int) -> list[Line]:
    if len(box) == height:
        return box
    side = box[1][0]
    blank = (side, Span(" " * (width_of(box[0]) - 2)), side)
    return [*box[:-1], *[blank] * (height - len(box)), box[-1]]
