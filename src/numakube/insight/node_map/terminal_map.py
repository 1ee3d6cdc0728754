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
from itertools import chain, groupby, zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from numakube.insight.node_map import map_words
from numakube.insight.node_map.map_words import SELF, connections_of
from numakube.insight.node_map.picture import PictureChange, folded
from numakube.values.display import counted, short_name
from numakube.values.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.insight.node_map.map_words import Connections, Function
    from numakube.insight.node_map.picture import (
        Amount,
        DrawnCache,
        DrawnCpu,
        DrawnDevice,
        DrawnMemory,
        DrawnZone,
        NodePicture,
    )


Line: TypeAlias = "tuple[PaintedText, ...]"

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
    page = _MapPage(folded(picture), ASCII if ascii_only else UNICODE, width)
    parts = (
        page.head(), page.zones(), page.observed(), page.homeless(), page.switches(),
        page.distances(), page.hierarchy(), page.legend(),
    )  # fmt: skip
    return _cleaned(chain.from_iterable(parts))


def matrix_lines(
    picture: NodePicture, *, width: int = DEFAULT_WIDTH, ascii_only: bool = False
) -> Iterator[Line]:
    """Yield how close the devices are to each other, line by line."""
    page = _MapPage(picture, ASCII if ascii_only else UNICODE, width)
    return _cleaned(chain.from_iterable((page.head(), page.matrix(), page.legend())))


def zone_lines(
    picture: NodePicture, *, width: int = DEFAULT_WIDTH, ascii_only: bool = False
) -> Iterator[Line]:
    """Yield zones and legend only, for a drawing below something that has told the rest."""
    page = _MapPage(folded(picture), ASCII if ascii_only else UNICODE, width)
    return _cleaned(chain.from_iterable((page.zones(), page.homeless(), page.legend())))


def _cleaned(lines: Iterable[Line]) -> Iterator[Line]:
    for line in lines:
        yield tuple(span._replace(text=printable(span.text)) for span in line)


@dataclass(frozen=True, slots=True)
class _MapPage:
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
            yield (PaintedText(name, bold=True),)
        for line in self._folded(phrases):
            yield (PaintedText(line, "muted"),)
        for line in self._folded(map_words.kubelet_words(picture.kubelet)):
            yield (PaintedText(line, "muted"),)
        for text in map_words.data_words(picture):
            yield (PaintedText(f"! {text}", "warning"),)
        yield ()

    def observed(self) -> Iterator[Line]:
        """Yield what was seen of the zones, beside what they gave out."""
        for zone, seen in self.picture.observed.items():
            colour = "warning" if seen.is_bad else "muted"
            words = seen.words or (str(seen.document.get("unknown", "unknown")),)
            for number, line in enumerate(self._folded(list(words))):
                head = f"zone {zone}: " if not number else " " * len(f"zone {zone}: ")
                yield (PaintedText(head, bold=True), PaintedText(line, colour))
        if self.picture.observed:
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
            PaintedText(f"{glyphs.corners[0]}{glyphs.line} ", "muted"),
            PaintedText(title, bold=True),
            PaintedText(f" {rest}{glyphs.corners[1]}", "muted"),
        )
        side = PaintedText(glyphs.side, "muted")
        body = [
            (side, PaintedText(" "), *line, PaintedText(" " * (inner - width_of(line) + 1)), side)
            for line in lines or [()]
        ]
        foot = glyphs.corners[2] + glyphs.line * (inner + 2) + glyphs.corners[3]
        return [top, *body, (PaintedText(foot, "muted"),)]

    def homeless(self) -> Iterator[Line]:
        if self.picture.homeless:
            yield (PaintedText("Devices without NUMA node", bold=True),)
            pen = TextPen(self.picture, self.glyphs)
            yield from pen.devices(self.picture.homeless, self.width)
            yield ()

    def switches(self) -> Iterator[Line]:
        connections = connections_of(self.picture)
        if connections and connections.switches():
            yield (PaintedText("behind one PCIe switch", bold=True),)
            yield from MatrixPen(self.picture, connections, self.glyphs).switches()
            yield ()

    def matrix(self) -> Iterator[Line]:
        connections = connections_of(self.picture)
        if connections is None:
            yield (PaintedText("How the devices of this node are connected is not known."),)
        else:
            yield from MatrixPen(self.picture, connections, self.glyphs).matrix(self.width)
            for line in self._folded(list(connections.legend())):
                yield (PaintedText(line, "muted"),)
        yield ()

    def distances(self) -> Iterator[Line]:
        zones = [zone for zone in self.picture.zones if zone.distances]
        if len(zones) < 2:
            return
        cells = [str(value) for zone in zones for value in zone.distances.values()]
        wide = max(map(len, [*cells, *(str(zone.id) for zone in zones)])) + 1
        yield (
            PaintedText("distances ", bold=True),
            PaintedText("".join(f"{zone.id:>{wide}}" for zone in zones), "muted"),
        )
        for zone in zones:
            values = (zone.distances.get(other.id, "") for other in zones)
            yield (
                PaintedText(f"{zone.id:>9} ", "muted"),
                PaintedText("".join(f"{value:>{wide}}" for value in values)),
            )
        yield ()

    def hierarchy(self) -> Iterator[Line]:
        if self.picture.parts:
            yield (PaintedText("hierarchy", bold=True),)
            for depth, line in map_words.hierarchy_words(self.picture):
                yield (PaintedText("  " * (depth + 1) + line.replace(" · ", self.glyphs.dot)),)
            yield ()

    def legend(self) -> Iterator[Line]:
        picture = self.picture
        names = max((len(pod.name) for pod in picture.pods), default=0)
        for number, pod in enumerate(picture.pods):
            gone = pod.change is PictureChange.FREED
            mark = PaintedText("-", "freed") if gone else PaintedText(pod.letter, f"p{number}")
            details = self.glyphs.dot.join(map_words.pod_words(pod))
            new = (
                PaintedText(" (new)", "taken")
                if pod.change is PictureChange.TAKEN
                else PaintedText("")
            )
            yield (mark, PaintedText(f" {pod.name:{names}}  "), PaintedText(details, "muted"), new)
        if picture.exact and not picture.bare:
            yield (PaintedText(self.glyphs.dot.join(self._key()), "muted"),)

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
        if any(cpu.change is PictureChange.FREED for cpu in cpus):
            yield f"{self.glyphs.freed} freed by the plan"
        if self.picture.sharing_pods:
            yield f"{counted(self.picture.sharing_pods, 'pod')} without exclusive resources"


def _beside(boxes: list[list[Line]]) -> Iterator[Line]:
    """Yield the lines of *boxes* side by side; shorter ones get longer by blank lines."""
    height = max(map(len, boxes))
    for line in zip_longest(*(_stretched(box, height) for box in boxes)):
        joined: list[PaintedText] = []
        for number, part in enumerate(line):
            joined += [PaintedText(" "), *part] if number else part
        yield tuple(joined)


def _stretched(box: list[Line], height: int) -> list[Line]:
    if len(box) == height:
        return box
    side = box[1][0]
    blank = (side, PaintedText(" " * (width_of(box[0]) - 2)), side)
    return [*box[:-1], *[blank] * (height - len(box)), box[-1]]


# One zone in a terminal: lines of cells for CPUs and devices, bars for memory.


LEAST_BAR: Final = 8
MOST_BAR: Final = 32
_LONG_TITLE: Final = 60  # longer ones are cut: CPU numbers may alternate between sockets
BLOCKED: Final = "x"
_ROW: Final = 48  # cells of CPUs in one line, at most


class PaintedText(NamedTuple):
    """A piece of a line; *paint* is a colour of the theme, or nothing."""

    text: str
    paint: str = ""
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a drawing."""

    free: str
    reserved: str
    unused: str
    freed: str
    dot: str
    line: str
    side: str
    corners: str
    ellipsis: str


UNICODE: Final = Glyphs("·", "▒", "░", "○", " · ", "─", "│", "╭╮╰╯", "…")
ASCII: Final = Glyphs(".", "r", ".", "o", ", ", "-", "|", "++++", "~")


def width_of(line: Sequence[PaintedText]) -> int:
    """Return how many columns a line takes."""
    return sum(len(span.text) for span in line)


class TextPen:
    """Draws the zones of one picture."""

    def __init__(self, picture: NodePicture, glyphs: Glyphs) -> None:
        self._picture = picture
        self._glyphs = glyphs
        zones = picture.zones
        names = [name for zone in zones for name in _labels(zone)]
        names += [short_name(device.resource) for device in picture.homeless]
        self._label = max(map(len, names), default=0) + 2

    def least_width(self, zones: Sequence[DrawnZone]) -> int:
        """Return the width below which bars and cells cannot be read."""
        facts = max((len(fact) for zone in zones for fact in self._facts(zone)), default=0)
        titles = max((len(self.title(zone)) + 2 for zone in zones), default=0)
        return max(self._label + LEAST_BAR + 2 + facts, min(titles, _LONG_TITLE))

    def _facts(self, zone: DrawnZone) -> Iterator[str]:
        yield from (map_words.memory_words(self._picture, bar) for bar in zone.memory)
        yield from (map_words.amount_words(amount) for amount in zone.amounts)

    def natural_width(self, zones: Sequence[DrawnZone]) -> int:
        """Return the width beyond which there would only be blanks."""
        cells = [
            sum(len(core.cpus) + 1 for core in cache.cores)
            for zone in zones
            for cache in zone.caches
        ]
        cpus = self._label + min(max(cells, default=0), _ROW) + len("00 of 00 free") + 1
        titles = max((len(self.title(zone)) + 2 for zone in zones), default=0)
        facts = max((len(fact) for zone in zones for fact in self._facts(zone)), default=0)
        bars = self._label + MOST_BAR + 2 + facts
        return max(cpus, titles, bars if any(z.memory or z.amounts for z in zones) else 0)

    def title(self, zone: DrawnZone) -> str:
        """Return what stands on the frame of a zone."""
        parts = [map_words.zone_title(zone)]
        if zone.cores:
            parts.append(f"socket {'+'.join(map(str, zone.sockets))}")
        elif zone.within:
            parts.append(map_words.within_words(zone))
        if zone.cores and not _has_caches(zone):
            parts.append(f"CPUs {zone.cpu_set}")
        return self._glyphs.dot.join(parts)

    def zone(self, zone: DrawnZone, width: int) -> Iterator[tuple[PaintedText, ...]]:
        """Yield what is inside a zone."""
        fact = map_words.cpus_free_words(self._picture, zone)
        if _has_caches(zone):
            yield self._cpu_list(zone, fact, width)
            fact = ""
        for cache in zone.caches:
            yield from self._cpus(cache, fact, width)
            fact = ""
        for amount in zone.amounts:
            yield self._amount(amount, width)
        for bar in zone.memory:
            yield self._memory(bar, width)
        yield from self.devices(zone.devices, width)

    def _cpu_list(self, zone: DrawnZone, fact: str, width: int) -> tuple[PaintedText, ...]:
        room = width - self._label - len(fact) - 1
        ids = str(zone.cpu_set)
        ids = ids if len(ids) <= room else ids[: room - 1] + self._glyphs.ellipsis
        return self._ended([self._name("CPUs"), PaintedText(ids)], fact, width)

    def _cpus(self, cache: DrawnCache, fact: str, width: int) -> Iterator[tuple[PaintedText, ...]]:
        name = "CPUs" if cache.id is None else f"L3 {cache.id}"
        line = [self._name(name)]
        for core in cache.cores:
            room = width - len(fact) - (1 if fact else 0)
            if width_of(line) + len(core.cpus) > min(room, self._label + _ROW):
                yield self._ended(line, fact, width)
                line, fact = [self._name("")], ""
            line += [self._cpu(cpu) for cpu in core.cpus]
            line.append(PaintedText(" "))
        yield self._ended(line, fact, width)

    def _cpu(self, cpu: DrawnCpu) -> PaintedText:
        if cpu.owner is not None:
            return self._owned(cpu.owner, cpu.change)
        if cpu.change is PictureChange.FREED:
            return PaintedText(self._glyphs.freed, "freed", bold=True)
        return (
            PaintedText("r", "reserved")
            if cpu.reserved
            else PaintedText(self._glyphs.free, "muted")
        )

    def _owned(self, owner: int, change: PictureChange) -> PaintedText:
        mark = self._picture.pods[owner]
        return PaintedText(mark.letter, f"p{owner}", bold=change is PictureChange.TAKEN)

    def _memory(self, bar: DrawnMemory, width: int) -> tuple[PaintedText, ...]:
        fact = map_words.memory_words(self._picture, bar)
        line = [self._name(bar.kind)]
        if bar.managed:
            line += self._bar(bar, self._bar_width(fact, width))
        return self._ended(line, fact, width)

    def _bar_width(self, fact: str, width: int) -> int:
        return max(min(width - self._label - len(fact) - 1, MOST_BAR), LEAST_BAR)

    def _bar(self, bar: DrawnMemory, width: int) -> Iterator[PaintedText]:
        left = width
        shares = [(bar.reserved_bytes, PaintedText(self._glyphs.reserved, "reserved"))]
        for part in bar.parts:
            alone = len(part.owners) == 1
            span = (
                self._owned(part.owners[0], part.change) if alone else PaintedText("+", "several")
            )
            shares.append((part.size_bytes, span))
        shares.append((bar.freed_bytes, PaintedText(self._glyphs.freed, "freed")))
        for size, span in shares:
            cells = min(_share(size, bar.total_bytes, width), left)
            if cells:
                yield span._replace(text=span.text * cells)
            left -= cells
        yield PaintedText(self._glyphs.unused * left, "muted")

    def _amount(self, amount: Amount, width: int) -> tuple[PaintedText, ...]:
        fact = map_words.amount_words(amount)
        room = self._bar_width(fact, width)
        used = _share(amount.allocatable - amount.available, amount.allocatable, room)
        line = [
            self._name(map_words.resource_label(amount.resource)),
            PaintedText("#" * used, "several"),
            PaintedText(self._glyphs.unused * (room - used), "muted"),
        ]
        return self._ended(line, fact, width)

    def devices(
        self, devices: Sequence[DrawnDevice], width: int
    ) -> Iterator[tuple[PaintedText, ...]]:
        """Yield a line for each resource, or more where it has many devices."""
        for resource, some in map_words.by_resource(devices).items():
            fact = map_words.devices_free_words(self._picture, some)
            line = [self._name(short_name(resource))]
            for device in some:
                if width_of(line) + 1 > width - len(fact) - (1 if fact else 0):
                    yield self._ended(line, fact, width)
                    line, fact = [self._name("")], ""
                line += [self._device(device), PaintedText(" ")]
            yield self._ended(line, fact, width)

    def _device(self, device: DrawnDevice) -> PaintedText:
        if device.sharers:
            return PaintedText("+", "several")
        if device.owner is not None:
            return self._owned(device.owner, device.change)
        if device.change is PictureChange.FREED:
            return PaintedText(self._glyphs.freed, "freed", bold=True)
        if device.blocked:
            return PaintedText(BLOCKED, "several")
        return (
            PaintedText(self._glyphs.free, "muted")
            if device.healthy
            else PaintedText("!", "broken")
        )

    def _name(self, name: str) -> PaintedText:
        return PaintedText(f"{name:{self._label}}")

    def _ended(self, line: list[PaintedText], fact: str, width: int) -> tuple[PaintedText, ...]:
        """Return the line with *fact* at its right end."""
        if line and line[-1].text == " ":
            line = line[:-1]
        gap = width - width_of(line) - len(fact)
        return (*line, PaintedText(" " * max(gap, 1 if fact else 0)), PaintedText(fact, "muted"))


def _has_caches(zone: DrawnZone) -> bool:
    return any(cache.id is not None for cache in zone.caches)


def _labels(zone: DrawnZone) -> Iterator[str]:
    yield from ("CPUs" if cache.id is None else f"L3 {cache.id}" for cache in zone.caches)
    yield from (bar.kind for bar in zone.memory)
    yield from (map_words.resource_label(amount.resource) for amount in zone.amounts)
    yield from (short_name(device.resource) for device in zone.devices)


def _share(part: int, total: int, width: int) -> int:
    """Return how many cells of a bar *part* fills; at least one if it is anything at all."""
    if part <= 0 or total <= 0:
        return 0
    return min(max(round(part * width / total), 1), width)


# How the devices of a node are connected, in a terminal.
#
# closeness     gpu                 nic
# zone          0    1    2    3    0    1
# 0     gpu 0 A X    NV18 NV18 NV18 PIX  NODE
# 0     gpu 1 · NV18 X    NV18 NV18 NODE PIX


_CELL: Final = 5
_GAP: Final = 2
_PAINTS: Final = {"PIX": "p2", "PXB": "p2", "SYS": "muted", "NODE": "muted", SELF: "muted"}


class MatrixPen:
    """Writes what is between the devices of one picture."""

    def __init__(self, picture: NodePicture, connections: Connections, glyphs: Glyphs) -> None:
        self._picture = picture
        self._connections = connections
        self._glyphs = glyphs
        self._label = max(len(function.label) for function in connections.functions)
        self._zone = len("zone") + _GAP

    def switches(self) -> Iterator[tuple[PaintedText, ...]]:
        """Yield a line for each PCIe switch with several devices, and who has them."""
        for group in self._connections.switches():
            line = [PaintedText(f"  zone {self._zone_of(group[0])}  ")]
            for number, one in enumerate(group):
                line += [
                    PaintedText(", " if number else ""),
                    PaintedText(f"{one.label} "),
                    *self._owners(one),
                ]
            yield tuple(line)

    def matrix(self, width: int) -> Iterator[tuple[PaintedText, ...]]:
        """Yield the matrix, in several parts one below the other if it is too wide."""
        functions = self._connections.functions
        indent = self._zone + self._label + 1 + self._owner_width() + 1
        cell = max(_CELL, *(len(function.number) + 1 for function in functions))
        columns = max((width - indent) // cell, 1)
        for start in range(0, len(functions), columns):
            if start:
                yield ()
            yield from self._part(functions[start : start + columns], indent, cell)

    def _part(
        self, columns: Sequence[Function], indent: int, cell: int
    ) -> Iterator[tuple[PaintedText, ...]]:
        yield (
            PaintedText(f"{'closeness':{indent}}", bold=True),
            PaintedText(_heads(columns, cell)),
        )
        numbers = "".join(f"{column.number:{cell}}" for column in columns)
        yield (PaintedText(f"{'zone':{indent}}{numbers}", "muted"),)
        for function in self._connections.functions:
            owners = self._owners(function)
            filling = self._owner_width() - len(owners) + 1
            yield (
                PaintedText(f"{self._zone_of(function):{self._zone}}", "muted"),
                PaintedText(f"{function.label:{self._label}} "),
                *owners,
                PaintedText(" " * filling),
                *(self._cell(function, other, cell) for other in columns),
            )

    def _cell(self, one: Function, other: Function, width: int) -> PaintedText:
        word = self._connections.word(one, other)
        return PaintedText(f"{word:{width}}", _PAINTS.get(word, ""), bold=word in ("PIX", "PXB"))

    def _owner_width(self) -> int:
        return max(len(self._owners(function)) for function in self._connections.functions)

    def _owners(self, function: Function) -> list[PaintedText]:
        """Return the letters of the pods that have devices of a function."""
        spans = [
            PaintedText(self._picture.pods[owner].letter, f"p{owner}")
            for owner in function.owners()
        ]
        free = any(device.is_free for device in function.devices)
        mark = PaintedText(self._glyphs.free, "muted") if free else PaintedText("!", "broken")
        return spans if spans and not free else [*spans, mark]

    def _zone_of(self, function: Function) -> str:
        node = function.path.numa_node
        return "-" if node is None else str(node)


def _heads(columns: Sequence[Function], cell: int) -> str:
    """Return the names of resources, each above its first column."""
    parts = []
    for resource, group in groupby(columns, key=lambda column: column.resource):
        room = len(list(group)) * cell
        parts.append(f"{short_name(resource)[: room - 1]:{room}}")
    return "".join(parts).rstrip()
