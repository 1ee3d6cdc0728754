"""How a node is laid out: head, sockets with their zones, distances, and the legend."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING, Final

from numakube.insight.node_map import map_words
from numakube.insight.node_map.picture import PictureChange, folded
from numakube.values.display import counted
from numakube_pages.drawing.scene import (
    Box,
    DrawnGroup,
    Label,
    Scene,
    moved,
    pod_paint,
    shortened,
    shortened_name,
    text_width,
    wrapped,
)
from numakube_pages.drawing.zone_layout import PADDING, Sheet, ZonePen, measures_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.insight.node_map.picture import DrawnZone, NodePicture, PodMark
    from numakube_pages.drawing.scene import Item


MARGIN: Final = 16.0
LEAST_WIDTH: Final = 660.0
MOST_WIDTH: Final = 1240.0
_ZONE_GAP: Final = 8.0
_SOCKET_GAP: Final = 12.0
_SOCKET_HEAD: Final = 24.0
_MEMORY_ONLY: Final = "Memory only"
_TITLE: Final = 20.0
_TEXT: Final = 12.0
_INDENT: Final = 14.0


@dataclass(frozen=True, slots=True)
class _Block:
    """Something laid out at the origin."""

    items: tuple[Item, ...]
    width: float
    height: float

    def at(self, x: float, y: float) -> Iterator[Item]:
        return (moved(item, x, y) for item in self.items)


def scene_of(picture: NodePicture) -> Scene:
    """Return the drawing of *picture*."""
    picture = folded(picture)
    body = _body(picture)
    width = max(body.width, LEAST_WIDTH)
    parts = [
        _head(picture, width), body, _switches(picture, width), *_below(picture, width),
        _hierarchy(picture, width),
    ]  # fmt: skip
    items: list[Item] = []
    y = MARGIN
    for part in parts:
        items.extend(part.at(MARGIN, y))
        y += part.height + (_SOCKET_GAP if part.height else 0)
    size = (width + 2 * MARGIN, y - _SOCKET_GAP + MARGIN)
    page = Box(x=0, y=0, width=size[0], height=size[1], fill="page", radius=8)
    return Scene(
        width=size[0],
        height=size[1],
        items=(page, *items),
        title=f"NUMA map of node {picture.node}" if picture.node else "NUMA map",
        description=map_words.description(picture),
    )


def _head(picture: NodePicture, width: float) -> _Block:
    items: list[Item] = []
    y = 0.0
    if picture.node:
        y = _TITLE + 3
        badge = _badge(picture, width)
        name = f"{picture.node} after the plan" if picture.planned else picture.node
        title = shortened_name(name, width - badge.width - 24, _TITLE, bold=True)
        items += [Label(x=0, y=y - 5, text=title, size=_TITLE, bold=True), badge]
    lines = [
        *wrapped(map_words.machine_words(picture), width, _TEXT, between=" · "),
        *wrapped(map_words.kubelet_words(picture.kubelet), width, _TEXT, between=" · "),
    ]
    warnings = [
        line
        for text in map_words.data_words(picture)
        for line in wrapped(text.split(" "), width, _TEXT, between=" ")
    ]
    for line in [*lines, *warnings]:
        y += _TEXT + 5
        paint = "warning" if line in warnings else "muted"
        items.append(Label(x=0, y=y, text=line, size=_TEXT, paint=paint))
    return _Block(tuple(items), width, y + 4)


def _badge(picture: NodePicture, width: float) -> Label:
    if picture.stale:
        text, paint = "may be old", "warning"
    elif picture.exact:
        text, paint = "" if picture.bare else "exact data", "good"
    else:
        text, paint = "amounts only", "warning"
    return Label(x=width, y=_TITLE - 2, text=text, size=_TEXT, paint=paint, anchor="end")


def _body(picture: NodePicture) -> _Block:
    """Return all zones, socket by socket; what has no CPUs stands at the side."""
    groups = _sockets(picture.zones)
    bare = groups.pop(_MEMORY_ONLY, [])
    natural = measures_of(picture).zone_width
    columns = [_columns(len(zones), natural) for zones in groups.values()]
    a_row = _sockets_a_row(columns, natural)
    measures = measures_of(picture, least_width=_least(columns[:a_row]))
    pen = ZonePen(picture, measures)
    blocks = [
        _socket(name, zones, pen, count, measures.zone_width)
        for (name, zones), count in zip(groups.items(), columns, strict=True)
    ]
    rows = [blocks[start : start + a_row] for start in range(0, len(blocks), a_row)]
    aside = [_socket(_MEMORY_ONLY, bare, pen, 1, measures.zone_width)] if bare else []
    if picture.homeless:
        aside.append(_homeless(picture, pen, measures.zone_width + 2 * PADDING))
    if aside:
        _add_aside(rows, _below_one_another(aside))
    return _below_one_another([_beside(row) for row in rows])


def _columns(zones: int, zone_width: float) -> int:
    """Return how many zones of a socket stand side by side: a square, if it is not too wide."""
    fitting = int((MOST_WIDTH - 2 * PADDING + _ZONE_GAP) / (zone_width + _ZONE_GAP))
    return max(min(ceil(sqrt(zones)), fitting), 1)


def _sockets_a_row(columns: list[int], zone_width: float) -> int:
    """Return how many sockets stand side by side, in rows of about the same length."""
    count = max(len(columns), 1)
    widest = max(columns, default=1) * (zone_width + _ZONE_GAP) - _ZONE_GAP + 2 * PADDING
    fitting = max(int((MOST_WIDTH + _SOCKET_GAP) / (widest + _SOCKET_GAP)), 1)
    return ceil(count / ceil(count / fitting))


def _least(columns: list[int]) -> float:
    """Return how wide zones must be for a row of sockets to have the least width of a drawing."""
    beside = columns or [1]
    frames = len(beside) * (2 * PADDING + _SOCKET_GAP) - _SOCKET_GAP
    gaps = sum(count - 1 for count in beside) * _ZONE_GAP
    return (LEAST_WIDTH - frames - gaps) / sum(beside)


def _add_aside(rows: list[list[_Block]], aside: _Block) -> None:
    """Put *aside* at the end of the only row if there is room, else into a row of its own."""
    used = sum(block.width + _SOCKET_GAP for block in rows[0]) if rows else 0.0
    if len(rows) == 1 and used + aside.width <= MOST_WIDTH:
        rows[0].append(aside)
    else:
        rows.append([aside])


def _beside(blocks: list[_Block]) -> _Block:
    items: list[Item] = []
    x = 0.0
    for block in blocks:
        items.extend(block.at(x, 0))
        x += block.width + _SOCKET_GAP
    return _Block(tuple(items), x - _SOCKET_GAP, max(block.height for block in blocks))


def _below_one_another(blocks: list[_Block]) -> _Block:
    if not blocks:
        return _Block((), 0, 0)
    items: list[Item] = []
    y = 0.0
    for block in blocks:
        items.extend(block.at(0, y))
        y += block.height + _SOCKET_GAP
    return _Block(tuple(items), max(block.width for block in blocks), y - _SOCKET_GAP)


def _sockets(zones: Sequence[DrawnZone]) -> dict[str, list[DrawnZone]]:
    """Return the zones by what they stand in."""
    groups: dict[str, list[DrawnZone]] = {}
    for zone in zones:
        if zone.sockets:
            name = (
                f"Socket{'s' if len(zone.sockets) > 1 else ''} {'+'.join(map(str, zone.sockets))}"
            )
        else:
            name = map_words.within_words(zone) if zone.amounts else _MEMORY_ONLY
        groups.setdefault(name, []).append(zone)
    return groups


def _socket(
    name: str, zones: list[DrawnZone], pen: ZonePen, columns: int, zone_width: float
) -> _Block:
    """Return a socket with its zones in rows of equal height."""
    head = _SOCKET_HEAD if name else PADDING
    items: list[Item] = []
    y = head
    for start in range(0, len(zones), columns):
        row = zones[start : start + columns]
        drawn = [pen.zone(zone) for zone in row]
        height = max(one for _, one in drawn)
        for column, (zone, (inside, _)) in enumerate(zip(row, drawn, strict=True)):
            x = PADDING + column * (zone_width + _ZONE_GAP)
            group = _framed(zone, inside, zone_width, height)
            items.append(moved(group, x, y))
        y += height + _ZONE_GAP
    width = columns * (zone_width + _ZONE_GAP) - _ZONE_GAP + 2 * PADDING
    height = y - _ZONE_GAP + PADDING
    frame = Box(
        x=0.5, y=0.5, width=width - 1, height=height - 1,
        fill="socket", line="socket-line", radius=8,
    )  # fmt: skip
    label = Label(x=PADDING, y=17, text=name, size=_TEXT, bold=True, paint="muted")
    head_items = (frame, label) if name else (frame,)
    return _Block((DrawnGroup(children=(*head_items, *items), classes="socket"),), width, height)


def _framed(zone: DrawnZone, inside: list[Item], width: float, height: float) -> DrawnGroup:
    frame = Box(
        x=0.5, y=0.5, width=width - 1, height=height - 1, fill="zone", line="zone-line", radius=6
    )
    return DrawnGroup(
        children=(frame, *inside),
        classes="zone",
        id=f"zone-{zone.id}",
        data={"zone": str(zone.id), "socket": "+".join(map(str, zone.sockets))},
    )


def _homeless(picture: NodePicture, pen: ZonePen, width: float) -> _Block:
    sheet = Sheet(width - 2 * PADDING)
    sheet.y += 13
    sheet.label("Devices without NUMA node", _TEXT, bold=True, paint="muted")
    sheet.y += 4
    pen.devices(sheet, picture.homeless)
    height = sheet.y + PADDING
    frame = Box(
        x=0.5, y=0.5, width=width - 1, height=height - 1,
        fill="socket", line="socket-line", radius=8, dashed=True,
    )  # fmt: skip
    group = DrawnGroup(children=(frame, *sheet.items), classes="homeless")
    return _Block((group,), width, height)


def _switches(picture: NodePicture, width: float) -> _Block:
    """Return which devices share a PCIe switch; nothing if that is not known."""
    words = map_words.switch_words(picture)
    lines = wrapped(words, width - _INDENT, _TEXT, between="   |   ")
    return _lines(
        [
            *([(0, "Behind one PCIe switch", True)] if words else []),
            *((1, line, False) for line in lines),
        ],
        width,
    )


def _hierarchy(picture: NodePicture, width: float) -> _Block:
    """Return the parts of the machine as their producer tells them; nothing if it tells none."""
    lines = [(0, "Hierarchy", True)] if picture.parts else []
    lines += [(depth + 1, line, False) for depth, line in map_words.hierarchy_words(picture)]
    return _lines(lines, width)


def _lines(lines: list[tuple[int, str, bool]], width: float) -> _Block:
    """Return lines below one another, each with how far it is indented and whether it is bold."""
    items = [
        Label(
            x=depth * _INDENT, y=(number + 1) * (_TEXT + 5), size=_TEXT, bold=bold,
            text=shortened(line, width - depth * _INDENT, _TEXT),
        )
        for number, (depth, line, bold) in enumerate(lines)
    ]  # fmt: skip
    return _Block(tuple(items), width, len(lines) * (_TEXT + 5))


def _below(picture: NodePicture, width: float) -> Iterator[_Block]:
    """Yield the distances with the legend beside or below them."""
    matrix, matrix_width, matrix_height = distances_items(picture)
    beside = width - matrix_width - 24
    if matrix and beside >= LEAST_WIDTH * 0.55:
        legend, height = legend_items(picture, beside)
        shifted = tuple(moved(item, matrix_width + 24, 0) for item in legend)
        yield _Block((*matrix, *shifted), width, max(height, matrix_height))
        return
    if matrix:
        yield _Block(tuple(matrix), matrix_width, matrix_height)
    legend, height = legend_items(picture, width)
    yield _Block(tuple(legend), width, height)


# What stands below the zones: how far they are from one another, and what colours mean.


_HEAD: Final = 13.0
_SMALL: Final = 11.0
_CELL: Final = 30.0
_CELL_HEIGHT: Final = 20.0
_ROW: Final = 24.0
_LINE: Final = 15.0  # each further line of a row
_COLUMN: Final = 520.0
_FEW: Final = 6  # pods that one column is enough for
_LOCAL: Final = 10  # the distance of a zone to itself, by the ACPI specification


def distances_items(picture: NodePicture) -> tuple[list[Item], float, float]:
    """Return the matrix of distances with its width and height; nothing for a single zone."""
    ids = [zone.id for zone in picture.zones if zone.distances]
    if len(ids) < 2:
        return [], 0.0, 0.0
    items: list[Item] = [Label(x=0, y=_HEAD, text="Distances", size=_HEAD, bold=True)]
    top = _HEAD + 10
    most = max(max(zone.distances.values(), default=_LOCAL) for zone in picture.zones)
    for column, number in enumerate(ids):
        x = _CELL * (column + 1)
        items.append(_axis(x + _CELL / 2, top + 13, number))
    for row, zone in enumerate(zone for zone in picture.zones if zone.distances):
        y = top + _CELL_HEIGHT * (row + 1)
        items.append(_axis(_CELL / 2, y + 14, zone.id))
        for column, number in enumerate(ids):
            value = zone.distances.get(number)
            if value is not None:
                x = _CELL * (column + 1)
                items.append(_distance(zone.id, number, value, most, (x, y)))
    width = max(_CELL * (len(ids) + 1), text_width("Distances", _HEAD, bold=True))
    return items, width, top + _CELL_HEIGHT * (len(ids) + 1)


def _axis(x: float, y: float, number: int) -> Label:
    return Label(
        x=x, y=y, text=str(number), size=_SMALL, mono=True, bold=True, anchor="middle",
        paint="muted",
    )  # fmt: skip


def _distance(
    one: int, other: int, value: int, most: int, place: tuple[float, float]
) -> DrawnGroup:
    x, y = place
    share = (value - _LOCAL) / (most - _LOCAL) if most > _LOCAL else 0.0
    cell = Box(
        x=x + 1, y=y + 1, width=_CELL - 2, height=_CELL_HEIGHT - 2,
        fill="heat", opacity=round(0.06 + 0.55 * max(share, 0), 2), radius=3,
    )  # fmt: skip
    label = Label(
        x=x + _CELL / 2, y=y + 14, text=str(value), size=_SMALL, mono=True, anchor="middle"
    )
    return DrawnGroup(
        children=(cell, label),
        classes="distance",
        title=f"distance from zone {one} to zone {other}: {value}",
    )


def legend_items(picture: NodePicture, width: float) -> tuple[list[Item], float]:
    """Return what letters and colours mean, and how high that is."""
    if picture.bare:
        return [], 0.0
    items: list[Item] = [Label(x=0, y=_HEAD, text=_heading(picture), size=_HEAD, bold=True)]
    columns = max(int(width / _COLUMN), 1) if len(picture.pods) > _FEW else 1
    rows = -(-len(picture.pods) // columns)
    names = max((text_width(pod.name, _TEXT, bold=True) for pod in picture.pods), default=0.0)
    names = min(names, 0.5 * width / columns)
    widths = (names, width / columns - 12)
    bottom = _HEAD + 10
    for column in range(columns):
        y = _HEAD + 10
        for number in range(column * rows, min((column + 1) * rows, len(picture.pods))):
            group, height = _pod(
                picture.pods[number], number, (column * width / columns, y), widths
            )
            items.append(group)
            y += height
        bottom = max(bottom, y)
    y = bottom
    if picture.exact:
        items.extend(_key(picture, y))
        y += _ROW
    return items, y


def _heading(picture: NodePicture) -> str:
    if not picture.exact:
        return "Who has what is not known"
    if not picture.pods and not picture.sharing_pods:
        return "Nothing is held exclusively" if picture.kubelet.topology_policy else "Legend"
    sharing = f", {counted(picture.sharing_pods, 'pod')} without" if picture.sharing_pods else ""
    holders = sum(pod.change is not PictureChange.FREED for pod in picture.pods)
    return f"{counted(holders, 'pod')} with exclusive resources{sharing}"


def _pod(
    pod: PodMark, number: int, place: tuple[float, float], widths: tuple[float, float]
) -> tuple[DrawnGroup, float]:
    """Return what one pod holds, in as many lines as that takes, and how high they are."""
    (x, y), (room, width) = place, widths
    gone = pod.change is PictureChange.FREED
    swatch = Box(
        x=x + 1, y=y + 1, width=20, height=18, radius=3,
        fill="page" if gone else pod_paint(number),
        line=str(pod.change), line_width=2, dashed=gone,
    )  # fmt: skip
    letter = Label(
        x=x + 11, y=y + 14, text="-" if gone else pod.letter, size=_SMALL, mono=True, bold=True,
        anchor="middle", paint="text" if gone else "on-pod",
    )  # fmt: skip
    name = shortened_name(pod.name, room, _TEXT, bold=True)
    label = Label(x=x + 28, y=y + 14, text=name, size=_TEXT, bold=True)
    left = x + 28 + room + 10
    phrases = map_words.pod_words(pod)
    lines = _phrase_lines(phrases, x + width - left)
    details = [
        Label(x=left, y=y + 14 + _LINE * position, text=line, size=_SMALL, paint="muted")
        for position, line in enumerate(lines)
    ]
    state = "" if pod.change is PictureChange.NONE else f" {pod.change}"
    group = DrawnGroup(
        children=(swatch, letter, label, *details),
        classes=f"pod {pod_paint(number)}{state}",
        id=f"pod-{number}",
        title=f"{pod.name}: {' · '.join(phrases)}",
        data={"pod": pod.name, "letter": pod.letter},
    )
    return group, _ROW + _LINE * max(len(lines) - 1, 0)


def _phrase_lines(phrases: Iterable[str], width: float) -> list[str]:
    """Return *phrases* in lines; one that is too long for a line is broken after commas."""
    parts: list[str] = []
    for phrase in phrases:
        pieces = wrapped(phrase.split(","), width - _SMALL, _SMALL, between=",")
        parts += [f"{piece}," for piece in pieces[:-1]] + pieces[-1:]
    return wrapped(parts, width, _SMALL, between=" · ")


def _key(picture: NodePicture, y: float) -> Iterator[Item]:
    """Yield the meaning of everything that is not a pod, as far as it appears."""
    cpus, devices = list(picture.cpus()), list(picture.devices())
    changes = {*(cpu.change for cpu in cpus), *(device.change for device in devices)}
    entries: list[tuple[str, str, str]] = [("free", "free-line", "free")]
    if any(cpu.reserved for cpu in cpus):
        entries.append(("reserved", "", "reserved for the system"))
    if any(device.sharers for device in devices):
        entries.append(("several", "", "+ shared by several pods"))
    if any(device.blocked for device in devices):
        entries.append(("several", "", "parts of it are held"))
    if any(not device.healthy and device.owner is None for device in devices):
        entries.append(("broken", "", "unhealthy"))
    if PictureChange.TAKEN in changes:
        entries.append(("free", "taken", "taken by the plan"))
    if PictureChange.FREED in changes:
        entries.append(("free", "freed", "freed by the plan"))
    x = 0.0
    for fill, line, text in entries:
        changed = line in (PictureChange.TAKEN, PictureChange.FREED)
        yield Box(
            x=x + 1, y=y + 2, width=20, height=16, radius=3, fill=fill, line=line,
            line_width=2 if changed else 1, dashed=line == PictureChange.FREED,
        )  # fmt: skip
        yield Label(x=x + 28, y=y + 14, text=text, size=_SMALL, paint="muted")
        x += 28 + text_width(text, _SMALL) + 18
