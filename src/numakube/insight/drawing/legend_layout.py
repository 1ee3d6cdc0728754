"""What stands below the zones: how far they are from one another, and what colours mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.drawing import map_words
from numakube.insight.drawing.drawing_colours import pod_paint
from numakube.insight.drawing.picture import Change
from numakube.insight.drawing.scene import Box, Group, Label, shortened_name, text_width, wrapped
from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.insight.drawing.picture import NodePicture, PodMark
    from numakube.insight.drawing.scene import Item

_HEAD: Final = 13.0
_TEXT: Final = 12.0
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


def _distance(one: int, other: int, value: int, most: int, place: tuple[float, float]) -> Group:
    x, y = place
    share = (value - _LOCAL) / (most - _LOCAL) if most > _LOCAL else 0.0
    cell = Box(
        x=x + 1, y=y + 1, width=_CELL - 2, height=_CELL_HEIGHT - 2,
        fill="heat", opacity=round(0.06 + 0.55 * max(share, 0), 2), radius=3,
    )  # fmt: skip
    label = Label(
        x=x + _CELL / 2, y=y + 14, text=str(value), size=_SMALL, mono=True, anchor="middle"
    )
    return Group(
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
    holders = sum(pod.change is not Change.FREED for pod in picture.pods)
    return f"{counted(holders, 'pod')} with exclusive resources{sharing}"


def _pod(
    pod: PodMark, number: int, place: tuple[float, float], widths: tuple[float, float]
) -> tuple[Group, float]:
    """Return what one pod holds, in as many lines as that takes, and how high they are."""
    (x, y), (room, width) = place, widths
    gone = pod.change is Change.FREED
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
    lines = _lines(phrases, x + width - left)
    details = [
        Label(x=left, y=y + 14 + _LINE * position, text=line, size=_SMALL, paint="muted")
        for position, line in enumerate(lines)
    ]
    state = "" if pod.change is Change.NONE else f" {pod.change}"
    group = Group(
        children=(swatch, letter, label, *details),
        classes=f"pod {pod_paint(number)}{state}",
        id=f"pod-{number}",
        title=f"{pod.name}: {' · '.join(phrases)}",
        data={"pod": pod.name, "letter": pod.letter},
    )
    return group, _ROW + _LINE * max(len(lines) - 1, 0)


def _lines(phrases: Iterable[str], width: float) -> list[str]:
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
    if Change.TAKEN in changes:
        entries.append(("free", "taken", "taken by the plan"))
    if Change.FREED in changes:
        entries.append(("free", "freed", "freed by the plan"))
    x = 0.0
    for fill, line, text in entries:
        changed = line in (Change.TAKEN, Change.FREED)
        yield Box(
            x=x + 1, y=y + 2, width=20, height=16, radius=3, fill=fill, line=line,
            line_width=2 if changed else 1, dashed=line == Change.FREED,
        )  # fmt: skip
        yield Label(x=x + 28, y=y + 14, text=text, size=_SMALL, paint="muted")
        x += 28 + text_width(text, _SMALL) + 18
