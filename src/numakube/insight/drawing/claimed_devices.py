"""Devices of DRA drivers in the picture of a node, beside those of device plugins.

They are drawn in the zone that their driver tells, and belong to the pods that their claims are
reserved for. A claim that no pod uses is in the legend itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.insight.dra_devices import zones_of_devices
from numakube.insight.drawing.picture import Device, NodePicture, PodMark, letter_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numakube.insight.dra_devices import DraDevice


def with_claimed(
    picture: NodePicture, devices: Sequence[DraDevice], *, reported: Collection[str] = ()
) -> NodePicture:
    """Return *picture* with *devices*; one without zones, for lack of a report, stays as it is.

    Args:
        picture: of a node.
        devices: of DRA drivers on that node.
        reported: names of all pods that the picture counts, with exclusive resources or without.
    """
    if not devices or not picture.zones:
        return picture
    marks = _marks(picture.pods, devices)
    drawn = list(_drawn(devices, {mark.name: number for number, mark in enumerate(marks)}))
    known = {zone.id for zone in picture.zones}
    placed = [one for one in drawn if not known.isdisjoint(one.zones)]
    return replace(
        picture,
        pods=marks,
        zones=tuple(
            replace(zone, devices=(*zone.devices, *(one for one in placed if zone.id in one.zones)))
            for zone in picture.zones
        ),
        homeless=(*picture.homeless, *(one for one in drawn if one not in placed)),
        sharing_pods=picture.sharing_pods
        - sum(mark.name in reported for mark in marks[len(picture.pods) :]),
    )


def _marks(pods: tuple[PodMark, ...], devices: Sequence[DraDevice]) -> tuple[PodMark, ...]:
    """Return the legend with what claims hold, pods that hold nothing else last."""
    marks = {mark.name: mark for mark in pods}
    held: dict[str, list[DraDevice]] = {}
    for device in devices:
        for name in device.holders:
            held.setdefault(name, []).append(device)
    for name, some in held.items():
        known = marks.get(name) or PodMark(name, letter_of(len(marks)))
        marks[name] = _holding(known, some)
    return tuple(marks.values())


def _holding(mark: PodMark, devices: Sequence[DraDevice]) -> PodMark:
    counts = Counter(mark.devices)
    counts.update(one.id.driver for one in devices)
    zones = tuple(sorted({*mark.zones, *zones_of_devices(devices, mark.zones)}))
    return replace(mark, devices=dict(counts), zones=zones)


def _drawn(devices: Sequence[DraDevice], owners: Mapping[str, int]) -> Iterator[Device]:
    positions: Counter[str] = Counter()
    for one in devices:
        driver = one.id.driver
        holders = [owners[name] for name in one.holders]
        yield Device(
            resource=driver,
            position=positions[driver],
            id=one.id.device,
            zones=one.zones,
            owner=holders[0] if holders else None,
            sharers=tuple(holders[1:]),
            claims=one.claims,
            healthy=not one.trouble,
            blocked=one.is_blocked,
            trouble=one.trouble,
        )
        positions[driver] += 1
