"""How one zone is laid out: its head, caches with cores and threads, memory, devices."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING, Final

from numakube.insight.node_map import map_words
from numakube.insight.node_map.picture import PictureChange
from numakube.values.display import bytes_text, short_name
from numakube_pages.drawing.scene import Box, DrawnGroup, Label, pod_paint, shortened, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.node_map.picture import (
        Amount,
        DrawnCache,
        DrawnCore,
        DrawnCpu,
        DrawnDevice,
        DrawnMemory,
        DrawnZone,
        MemoryPart,
        NodePicture,
    )
    from numakube_pages.drawing.scene import Item


# What the parts of a drawing are made of: cells that pods may own, and lines below one another.


PADDING: Final = 10.0
CAPTION: Final = 11.0
CELL_RADIUS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Appearance:
    """How something appears that a pod may own."""

    fill: str
    line: str
    text: str
    letter: str
    classes: str
    data: dict[str, str]
    change: PictureChange

    @classmethod
    def of(
        cls, picture: NodePicture, owner: int | None, state: str, change: PictureChange
    ) -> Appearance:
        """Return the look of something in *state*, or of what *owner* has."""
        if owner is not None:
            pod, paint = picture.pods[owner], pod_paint(owner)
            classes = " ".join(filter(None, ("owned", paint, change)))
            return cls(paint, "", "on-pod", pod.letter, classes, {"pod": pod.name}, change)
        text = {"reserved": "on-reserved", "several": "text"}.get(state, "muted")
        classes = " ".join(filter(None, (state, change)))
        return cls(state, "free-line" if state == "free" else "", text, "", classes, {}, change)

    def box(
        self, x: float, y: float, width: float, height: float, *, radius: float = CELL_RADIUS
    ) -> Iterator[Item]:
        """Yield the cell, framed if a plan changes it."""
        if self.change is PictureChange.NONE:
            inset = 0.5 if self.line else 0.0
            yield Box(
                x=x + inset, y=y + inset, width=width - 2 * inset, height=height - 2 * inset,
                fill=self.fill, line=self.line, radius=radius,
            )  # fmt: skip
            return
        yield Box(
            x=x + 1, y=y + 1, width=max(width - 2, 1), height=height - 2, fill=self.fill,
            line=str(self.change), line_width=2, radius=radius,
            dashed=self.change is PictureChange.FREED,
        )  # fmt: skip


class Sheet:
    """Where the next thing goes."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.y = PADDING - 4
        self.items: list[Item] = []

    def label(
        self, text: str, size: float, *, bold: bool = False, anchor: str = "start",
        paint: str = "text",
    ) -> None:  # fmt: skip
        """Add a text at the left or right end of the line."""
        end = anchor == "end"
        self.items.append(
            Label(
                x=PADDING + (self.width if end else 0), y=self.y, text=text, size=size,
                bold=bold, anchor="end" if end else "start", paint=paint,
            )
        )  # fmt: skip

    def caption(self, left: str, right: str) -> None:
        """Add a line with a name and what is to say about it."""
        self.y += CAPTION + 2
        room = self.width - text_width(right, CAPTION) - 6
        self.label(shortened(left, room, CAPTION), CAPTION)
        self.label(right, CAPTION, anchor="end", paint="muted")
        self.y += 5


GAP: Final = 4.0
CELL_HEIGHT: Final = 18.0
BAR_HEIGHT: Final = 14.0
HEAD: Final = 13.0
CELL_TEXT: Final = 10.0
SMALL: Final = 10.0
LETTER_ROOM: Final = 13.0  # below this width a part of a bar has no letter
_NARROWEST: Final = 212.0
_SMALL_DEVICE: Final = 15.0
_MANY_DEVICES: Final = 16


@dataclass(frozen=True, slots=True)
class ZoneMeasures:
    """Sizes that all zones of a drawing have in common."""

    cores_a_row: int
    cell_width: float
    zone_width: float

    @property
    def inner(self) -> float:
        """The width inside a zone."""
        return self.zone_width - 2 * PADDING


def measures_of(picture: NodePicture, *, least_width: float = 0) -> ZoneMeasures:
    """Return sizes that suit the largest zone; a zone gets at least *least_width*."""
    caches = [cache for zone in picture.zones for cache in zone.caches]
    told = any(cache.id is not None for cache in caches)
    most = max((len(zone.cores) for zone in picture.zones), default=0)
    a_row = _cores_a_row(most, max((len(cache.cores) for cache in caches), default=1), told=told)
    digits = max((len(str(cpu.id)) for cpu in picture.cpus()), default=1)
    cell = text_width("W " + "0" * digits, CELL_TEXT, mono=True) + 6
    frame = 2 * PADDING + (2 * GAP if told else 0)
    natural = frame + a_row * (cell + 2 * GAP) - GAP
    width = max(natural, _NARROWEST, least_width)
    if most:
        cell = min((width - frame + GAP) / a_row - 2 * GAP, 2 * cell)
    return ZoneMeasures(a_row, cell, width)


def _cores_a_row(cores: int, shared: int, *, told: bool) -> int:
    """Return how many cores stand side by side, so that a zone is a bit wider than high."""
    if cores <= 4:
        return max(cores, 1)
    wanted = sqrt(1.6 * cores)
    whole = shared if told and len(range(shared)) > 1 else cores
    choices = [number for number in range(3, 17) if whole % number == 0] or [ceil(wanted)]
    best = min(choices, key=lambda number: abs(number - wanted))
    return best if abs(best - wanted) <= 0.6 * wanted else ceil(wanted)


class ZonePen:
    """Draws the zones of one picture, each at the origin."""

    def __init__(self, picture: NodePicture, measures: ZoneMeasures) -> None:
        self._picture = picture
        self._measures = measures

    def zone(self, zone: DrawnZone) -> tuple[list[Item], float]:
        """Return what is inside a zone, and how high it is."""
        sheet = Sheet(self._measures.inner)
        self._head(sheet, zone)
        for cache in zone.caches:
            self._cache(sheet, cache)
        for amount in zone.amounts:
            _amount(sheet, amount)
        for bar in zone.memory:
            self._memory(sheet, zone, bar)
        self.devices(sheet, zone.devices)
        return sheet.items, sheet.y + PADDING

    def _head(self, sheet: Sheet, zone: DrawnZone) -> None:
        sheet.y += HEAD + 2
        title = map_words.zone_title(zone)
        sheet.label(title, HEAD, bold=True)
        if not zone.amounts:
            sheet.label(
                map_words.cpus_free_words(self._picture, zone), CAPTION, anchor="end", paint="muted"
            )
        if zone.cores:
            sheet.y += CAPTION + 5
            text = shortened(f"CPUs {zone.cpu_set}", sheet.width, CAPTION)
            sheet.label(text, CAPTION, paint="muted")
        sheet.y += 8

    def _cache(self, sheet: Sheet, cache: DrawnCache) -> None:
        if cache.id is None:
            sheet.y += self._cores(sheet, cache, PADDING, sheet.y) + 6
            return
        top = sheet.y
        head = SMALL + 7
        height = head + self._core_rows(cache) * self._core_height(cache) - GAP + 6
        frame = Box(
            x=PADDING, y=top, width=sheet.width, height=height,
            fill="cache", line="cache-line", radius=4,
        )  # fmt: skip
        name = Label(
            x=PADDING + 6, y=top + SMALL + 3, text=f"L3 cache {cache.id}", size=SMALL, paint="muted"
        )
        inside = Sheet(sheet.width)
        self._cores(inside, cache, PADDING + GAP, top + head)
        sheet.items.append(
            DrawnGroup(
                children=(frame, name, *inside.items),
                classes="cache",
                data={"cache": str(cache.id)},
            )
        )
        sheet.y = top + height + 6

    def _core_rows(self, cache: DrawnCache) -> int:
        return ceil(len(cache.cores) / self._measures.cores_a_row)

    def _core_height(self, cache: DrawnCache) -> float:
        threads = max((len(core.cpus) for core in cache.cores), default=1)
        return threads * (CELL_HEIGHT + 2) + 2 + GAP

    def _cores(self, sheet: Sheet, cache: DrawnCache, left: float, top: float) -> float:
        """Draw the cores of a cache and return how much height they take."""
        across = self._measures.cell_width + 2 * GAP
        down = self._core_height(cache)
        for number, core in enumerate(cache.cores):
            row, column = divmod(number, self._measures.cores_a_row)
            sheet.items.append(self._core(core, left + column * across, top + row * down))
        return self._core_rows(cache) * down - GAP

    def _core(self, core: DrawnCore, x: float, y: float) -> DrawnGroup:
        width = self._measures.cell_width
        height = len(core.cpus) * (CELL_HEIGHT + 2) + 2
        frame = Box(x=x, y=y, width=width + GAP, height=height, fill="core", radius=4)
        cells = (
            self._cpu(cpu, x + 2, y + 2 + number * (CELL_HEIGHT + 2), width)
            for number, cpu in enumerate(core.cpus)
        )
        return DrawnGroup(children=(frame, *cells), classes="core")

    def _cpu(self, cpu: DrawnCpu, x: float, y: float, width: float) -> DrawnGroup:
        state = "owned" if cpu.owner is not None else "reserved" if cpu.reserved else "free"
        look = Appearance.of(self._picture, cpu.owner, state, cpu.change)
        data = {"cpu": str(cpu.id), **look.data}
        items = [
            *look.box(x, y, width, CELL_HEIGHT),
            Label(
                x=x + width - 4, y=y + 13, text=str(cpu.id), size=CELL_TEXT, mono=True,
                anchor="end", paint=look.text,
            ),
        ]  # fmt: skip
        letter = look.letter or ("r" if cpu.reserved else "")
        if letter:
            items.append(
                Label(
                    x=x + 4, y=y + 13, text=letter, size=CELL_TEXT, mono=True,
                    bold=True, paint=look.text,
                )
            )  # fmt: skip
        return DrawnGroup(
            children=tuple(items),
            classes=f"cpu {look.classes}",
            id=f"cpu-{cpu.id}",
            title=map_words.cpu_words(self._picture, cpu),
            data=data,
        )

    def _memory(self, sheet: Sheet, zone: DrawnZone, bar: DrawnMemory) -> None:
        sheet.caption(bar.kind, map_words.memory_words(self._picture, bar))
        top, left = sheet.y, PADDING
        items: list[Item] = [
            Box(x=left, y=top, width=sheet.width, height=BAR_HEIGHT, fill="bar", radius=3)
        ]
        scale = sheet.width / max(bar.total_bytes, 1)
        if bar.managed and bar.reserved_bytes:
            width = min(bar.reserved_bytes * scale, sheet.width)
            items.append(_reserved_part(bar, left, top, width))
            left += width
        for part in bar.parts:
            width = min(part.size_bytes * scale, PADDING + sheet.width - left)
            items.append(self._part(bar, part, left, top, width))
            left += width
        if bar.freed_bytes:
            width = min(bar.freed_bytes * scale, PADDING + sheet.width - left)
            items.append(
                Box(
                    x=left + 1, y=top + 1, width=max(width - 2, 1), height=BAR_HEIGHT - 2,
                    fill="bar", line="freed", line_width=2, dashed=True, radius=2,
                )
            )  # fmt: skip
        sheet.items.append(
            DrawnGroup(
                children=tuple(items),
                classes="memory" if bar.managed else "memory unmanaged",
                title=f"{bar.kind}: {map_words.memory_words(self._picture, bar)}",
                data={"kind": bar.kind, "zone": str(zone.id)},
            )
        )
        sheet.y += BAR_HEIGHT + 4

    def _part(
        self, bar: DrawnMemory, part: MemoryPart, x: float, y: float, width: float
    ) -> DrawnGroup:
        alone = part.owners[0] if len(part.owners) == 1 else None
        look = Appearance.of(self._picture, alone, "several", part.change)
        # A hair of room between neighbours keeps two pods of one colour apart.
        items = list(look.box(x, y, max(width - 1, 1), BAR_HEIGHT))
        letters = "+".join(self._picture.pods[owner].letter for owner in part.owners)
        if width >= max(LETTER_ROOM, text_width(letters, CELL_TEXT, mono=True) + 4):
            items.append(
                Label(
                    x=x + width / 2, y=y + 11, text=letters, size=CELL_TEXT, mono=True,
                    bold=True, anchor="middle", paint="on-pod" if alone is not None else "text",
                )
            )  # fmt: skip
        return DrawnGroup(
            children=tuple(items),
            classes=f"part {look.classes}",
            title=map_words.part_words(self._picture, bar, part),
            data=look.data,
        )

    def devices(self, sheet: Sheet, devices: tuple[DrawnDevice, ...]) -> None:
        """Draw devices, resource by resource."""
        for resource, some in map_words.by_resource(devices).items():
            sheet.caption(short_name(resource), map_words.devices_free_words(self._picture, some))
            self._chips(sheet, some)

    def _chips(self, sheet: Sheet, devices: list[DrawnDevice]) -> None:
        many = len(devices) > _MANY_DEVICES
        width = _SMALL_DEVICE if many else max(self._measures.cell_width, 40.0)
        a_row = max(int((sheet.width + GAP) / (width + GAP)), 1)
        for number, device in enumerate(devices):
            row, column = divmod(number, a_row)
            x = PADDING + column * (width + GAP)
            y = sheet.y + row * (CELL_HEIGHT + GAP)
            sheet.items.append(self._chip(device, x, y, width, numbered=not many))
        sheet.y += ceil(len(devices) / a_row) * (CELL_HEIGHT + GAP)

    def _chip(
        self, device: DrawnDevice, x: float, y: float, width: float, *, numbered: bool
    ) -> DrawnGroup:
        several = device.sharers or device.blocked
        state = "several" if several else "free" if device.healthy else "broken"
        look = Appearance.of(
            self._picture, None if device.sharers else device.owner, state, device.change
        )
        items = list(look.box(x, y, width, CELL_HEIGHT, radius=8 if numbered else 4))
        letter = look.letter or ("+" if device.sharers else "" if device.healthy else "!")
        if numbered:
            number = f"#{device.position}"
            items.append(
                Label(
                    x=x + width - 6, y=y + 13, text=number, size=CELL_TEXT, mono=True,
                    anchor="end", paint=look.text,
                )
            )  # fmt: skip
        if letter:
            items.append(
                Label(
                    x=x + (6 if numbered else width / 2 - 3), y=y + 13, text=letter,
                    size=CELL_TEXT, mono=True, bold=True, paint=look.text,
                )
            )  # fmt: skip
        return DrawnGroup(
            children=tuple(items),
            classes=f"device {look.classes}",
            title=map_words.device_words(self._picture, device),
            data={"resource": device.resource, "device": str(device.position), **look.data},
        )


def _reserved_part(bar: DrawnMemory, x: float, y: float, width: float) -> DrawnGroup:
    box = Box(x=x, y=y, width=max(width - 1, 1), height=BAR_HEIGHT, fill="reserved", radius=3)
    title = f"{bar.kind}: {bytes_text(bar.reserved_bytes)} reserved for the system"
    return DrawnGroup(children=(box,), classes="part reserved", title=title)


def _amount(sheet: Sheet, amount: Amount) -> None:
    """Draw how much of a resource is used, without knowing by whom."""
    sheet.caption(map_words.resource_label(amount.resource), map_words.amount_words(amount))
    used = max(amount.allocatable - amount.available, 0)
    width = sheet.width * min(used / amount.allocatable, 1) if amount.allocatable else 0
    bar = Box(x=PADDING, y=sheet.y, width=sheet.width, height=BAR_HEIGHT, fill="bar", radius=3)
    part = Box(x=PADDING, y=sheet.y, width=width, height=BAR_HEIGHT, fill="several", radius=3)
    sheet.items.append(
        DrawnGroup(
            children=(bar, part) if used else (bar,),
            classes="amount",
            title=f"{amount.resource}: {map_words.amount_words(amount)}",
            data={"resource": amount.resource},
        )
    )
    sheet.y += BAR_HEIGHT + 4
