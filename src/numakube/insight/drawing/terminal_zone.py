"""One zone in a terminal: lines of cells for CPUs and devices, bars for memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.insight.drawing import map_words
from numakube.insight.drawing.picture import Change
from numakube.values.display import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.insight.drawing.picture import (
        Amount,
        Cache,
        Cpu,
        Device,
        Memory,
        NodePicture,
        Zone,
    )

LEAST_BAR: Final = 8
MOST_BAR: Final = 32
_LONG_TITLE: Final = 60  # longer ones are cut: CPU numbers may alternate between sockets
BLOCKED: Final = "x"
_ROW: Final = 48  # cells of CPUs in one line, at most


class Span(NamedTuple):
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


def width_of(line: Sequence[Span]) -> int:
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

    def least_width(self, zones: Sequence[Zone]) -> int:
        """Return the width below which bars and cells cannot be read."""
        facts = max((len(fact) for zone in zones for fact in self._facts(zone)), default=0)
        titles = max((len(self.title(zone)) + 2 for zone in zones), default=0)
        return max(self._label + LEAST_BAR + 2 + facts, min(titles, _LONG_TITLE))

    def _facts(self, zone: Zone) -> Iterator[str]:
        yield from (map_words.memory_words(self._picture, bar) for bar in zone.memory)
        yield from (map_words.amount_words(amount) for amount in zone.amounts)

    def natural_width(self, zones: Sequence[Zone]) -> int:
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

    def title(self, zone: Zone) -> str:
        """Return what stands on the frame of a zone."""
        parts = [map_words.zone_title(zone)]
        if zone.cores:
            parts.append(f"socket {'+'.join(map(str, zone.sockets))}")
        elif zone.within:
            parts.append(map_words.within_words(zone))
        if zone.cores and not _has_caches(zone):
            parts.append(f"CPUs {zone.cpu_set}")
        return self._glyphs.dot.join(parts)

    def zone(self, zone: Zone, width: int) -> Iterator[tuple[Span, ...]]:
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

    def _cpu_list(self, zone: Zone, fact: str, width: int) -> tuple[Span, ...]:
        room = width - self._label - len(fact) - 1
        ids = str(zone.cpu_set)
        ids = ids if len(ids) <= room else ids[: room - 1] + self._glyphs.ellipsis
        return self._ended([self._name("CPUs"), Span(ids)], fact, width)

    def _cpus(self, cache: Cache, fact: str, width: int) -> Iterator[tuple[Span, ...]]:
        name = "CPUs" if cache.id is None else f"L3 {cache.id}"
        line = [self._name(name)]
        for core in cache.cores:
            room = width - len(fact) - (1 if fact else 0)
            if width_of(line) + len(core.cpus) > min(room, self._label + _ROW):
                yield self._ended(line, fact, width)
                line, fact = [self._name("")], ""
            line += [self._cpu(cpu) for cpu in core.cpus]
            line.append(Span(" "))
        yield self._ended(line, fact, width)

    def _cpu(self, cpu: Cpu) -> Span:
        if cpu.owner is not None:
            return self._owned(cpu.owner, cpu.change)
        if cpu.change is Change.FREED:
            return Span(self._glyphs.freed, "freed", bold=True)
        return Span("r", "reserved") if cpu.reserved else Span(self._glyphs.free, "muted")

    def _owned(self, owner: int, change: Change) -> Span:
        mark = self._picture.pods[owner]
        return Span(mark.letter, f"p{owner}", bold=change is Change.TAKEN)

    def _memory(self, bar: Memory, width: int) -> tuple[Span, ...]:
        fact = map_words.memory_words(self._picture, bar)
        line = [self._name(bar.kind)]
        if bar.managed:
            line += self._bar(bar, self._bar_width(fact, width))
        return self._ended(line, fact, width)

    def _bar_width(self, fact: str, width: int) -> int:
        return max(min(width - self._label - len(fact) - 1, MOST_BAR), LEAST_BAR)

    def _bar(self, bar: Memory, width: int) -> Iterator[Span]:
        left = width
        shares = [(bar.reserved_bytes, Span(self._glyphs.reserved, "reserved"))]
        for part in bar.parts:
            alone = len(part.owners) == 1
            span = self._owned(part.owners[0], part.change) if alone else Span("+", "several")
            shares.append((part.size_bytes, span))
        shares.append((bar.freed_bytes, Span(self._glyphs.freed, "freed")))
        for size, span in shares:
            cells = min(_share(size, bar.total_bytes, width), left)
            if cells:
                yield span._replace(text=span.text * cells)
            left -= cells
        yield Span(self._glyphs.unused * left, "muted")

    def _amount(self, amount: Amount, width: int) -> tuple[Span, ...]:
        fact = map_words.amount_words(amount)
        room = self._bar_width(fact, width)
        used = _share(amount.allocatable - amount.available, amount.allocatable, room)
        line = [
            self._name(map_words.resource_label(amount.resource)),
            Span("#" * used, "several"),
            Span(self._glyphs.unused * (room - used), "muted"),
        ]
        return self._ended(line, fact, width)

    def devices(self, devices: Sequence[Device], width: int) -> Iterator[tuple[Span, ...]]:
        """Yield a line for each resource, or more where it has many devices."""
        for resource, some in map_words.by_resource(devices).items():
            fact = map_words.devices_free_words(self._picture, some)
            line = [self._name(short_name(resource))]
            for device in some:
                if width_of(line) + 1 > width - len(fact) - (1 if fact else 0):
                    yield self._ended(line, fact, width)
                    line, fact = [self._name("")], ""
                line += [self._device(device), Span(" ")]
            yield self._ended(line, fact, width)

    def _device(self, device: Device) -> Span:
        if device.sharers:
            return Span("+", "several")
        if device.owner is not None:
            return self._owned(device.owner, device.change)
        if device.change is Change.FREED:
            return Span(self._glyphs.freed, "freed", bold=True)
        if device.blocked:
            return Span(BLOCKED, "several")
        return Span(self._glyphs.free, "muted") if device.healthy else Span("!", "broken")

    def _name(self, name: str) -> Span:
        return Span(f"{name:{self._label}}")

    def _ended(self, line: list[Span], fact: str, width: int) -> tuple[Span, ...]:
        """Return the line with *fact* at its right end."""
        if line and line[-1].text == " ":
            line = line[:-1]
        gap = width - width_of(line) - len(fact)
        return (*line, Span(" " * max(gap, 1 if fact else 0)), Span(fact, "muted"))


def _has_caches(zone: Zone) -> bool:
    return any(cache.id is not None for cache in zone.caches)


def _labels(zone: Zone) -> Iterator[str]:
    yield from ("CPUs" if one.id is None else f"L3 {one.id}" for one in zone.caches)
    yield from (bar.kind for bar in zone.memory)
    yield from (map_words.resource_label(amount.resource) for amount in zone.amounts)
    yield from (short_name(device.resource) for device in zone.devices)


def _share(part: int, total: int, width: int) -> int:
    """Return how many cells of a bar *part* fills; at least one if it is anything at all."""
    if part <= 0 or total <= 0:
        return 0
    return min(max(round(part * width / total), 1), width)
