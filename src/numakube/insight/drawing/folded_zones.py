"""Zones without CPUs that are alike and that no pod uses, drawn as one.

A GPU server has two zones with CPUs and 32 with memory only, most of them empty. A picture of 34
boxes says less than one of four.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.insight.drawing.picture import NodePicture, Zone

_FEW: Final = 4
"""So many zones without CPUs are drawn one by one."""


def folded(picture: NodePicture) -> NodePicture:
    """Return *picture* with one zone in place of many that are alike."""
    if sum(not zone.cores for zone in picture.zones) <= _FEW:
        return picture
    with_cpus = [zone.id for zone in picture.zones if zone.cores]
    groups: dict[object, list[Zone]] = {}
    for zone in sorted(picture.zones, key=lambda one: one.id):
        groups.setdefault(_kind(zone, with_cpus), []).append(zone)
    return replace(picture, zones=tuple(_together(zones) for zones in groups.values()))


def _kind(zone: Zone, with_cpus: Sequence[int]) -> object:
    """Return what zones have in common that can be drawn as one."""
    in_use = any(bar.parts or bar.freed_bytes for bar in zone.memory) or any(
        amount.available != amount.allocatable for amount in zone.amounts
    )
    if zone.cores or zone.devices or in_use:
        return zone.id
    distances = tuple(zone.distances.get(number) for number in with_cpus)
    return zone.memory, zone.amounts, zone.within, distances


def _together(zones: Sequence[Zone]) -> Zone:
    first, count = zones[0], len(zones)
    if count == 1:
        return first
    return replace(
        first,
        alike=tuple(zone.id for zone in zones),
        memory=tuple(
            replace(
                bar, total_bytes=bar.total_bytes * count, reserved_bytes=bar.reserved_bytes * count
            )
            for bar in first.memory
        ),
        amounts=tuple(
            replace(
                amount,
                capacity=amount.capacity * count,
                allocatable=amount.allocatable * count,
                available=amount.available * count,
            )
            for amount in first.amounts
        ),
    )
