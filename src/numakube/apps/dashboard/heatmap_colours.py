"""What colours on the map mean: one byte a zone, which is a percentage of what the zone has.

Used and free are read off a row. Stranded and largest need the whole report (which cores are free,
see `numakube.insight.usage.largest_pod`), so they are computed for readers who choose them only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.apps.dashboard.node_rows import used_percent
from numakube.insight.usage.zone_usage import zone_usages
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numakube.apps.dashboard.node_rows import NodeRow
    from numakube.insight.usage.zone_usage import ZoneUsage
    from numakube.topology.topology_view import NodeTopology

USED: Final = "used"
FREE: Final = "free"
STRANDED: Final = "stranded"
LARGEST: Final = "largest"
MEASURES: Final = {
    USED: "used",
    FREE: "free",
    STRANDED: "stranded",
    LARGEST: "largest free",
}

NO_ZONE: Final = 255
"""The node has fewer zones than others, or no usable report."""
NO_RESOURCE: Final = 254
"""The zone has nothing of the resource to give."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """What is stranded in each zone, and the largest that each zone can still give to one pod."""

    stranded: Mapping[str, tuple[int, ...]]
    largest: Mapping[str, tuple[int, ...]]


NO_SHAPES: Final = Shapes({}, {})


def shapes_of(view: NodeTopology) -> Shapes:
    """Return both by resource."""
    zones = zone_usages(view)
    resources = dict.fromkeys(name for zone in zones for name in zone.allocatable)
    return Shapes(
        stranded={name: _by_zone(zones, name, _stranded) for name in resources},
        largest={name: _by_zone(zones, name, _largest) for name in resources},
    )


def cells_of(row: NodeRow, resource: str, width: int, measure: str, shapes: Shapes) -> bytes:
    """Return the bytes of one node on the map, filled or cut to *width*."""
    use = row.uses.get(resource)
    if use is None:
        cells = bytes((NO_RESOURCE,)) * len(row.zones)
    elif measure == USED:
        cells = _percents(use.allocatable, use.free)
    else:
        amounts = {FREE: use.free, STRANDED: shapes.stranded.get(resource)}.get(
            measure, shapes.largest.get(resource)
        )
        cells = _shares(use.allocatable, amounts or (0,) * len(row.zones))
    return cells[:width] + bytes((NO_ZONE,)) * (width - len(cells))


@lru_cache(maxsize=65536)
def _percents(allocatable: tuple[int, ...], free: tuple[int, ...]) -> bytes:
    """Return percent used by zone; nodes in the same state share it."""
    return bytes(
        used_percent(whole, left) if whole > 0 else NO_RESOURCE
        for whole, left in zip(allocatable, free, strict=True)
    )


def _shares(allocatable: tuple[int, ...], amounts: tuple[int, ...]) -> bytes:
    return _percents(
        allocatable,
        tuple(whole - amount for whole, amount in zip(allocatable, amounts, strict=True)),
    )


def _by_zone(
    zones: Sequence[ZoneUsage], resource: str, amount: Callable[[ZoneUsage, str], int]
) -> tuple[int, ...]:
    return tuple(amount(zone, resource) for zone in zones)


def _stranded(zone: ZoneUsage, resource: str) -> int:
    return zone.stranded.get(resource, 0)


def _largest(zone: ZoneUsage, resource: str) -> int:
    if resource == CPU:
        return zone.largest.cpus * MILLI_PER_CPU
    if resource == MEMORY:
        return zone.largest.memory_bytes
    if is_memory(resource):
        return zone.free.get(resource, 0)
    shape = zone.with_devices.get(resource)
    return shape.devices[resource] if shape is not None else 0
