"""What the Go plugin reads from an NRT: NUMA zones, beside the Topology Manager's configuration.

Zones of another type or with a name other than ``node-<id>`` do not count. Ids above 63 do not
either; the Go plugin panics on 64. Zones keep the order of the object, and two with the same id
both count, with the costs of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import ZONE_TYPE_NODE, numa_id_of
from numakube.errors import InvalidValue
from numakube.scheduling.numa.upstream.topology_manager import topology_manager
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.nrt import Cost, NodeResourceTopology
    from numakube.scheduling.numa.upstream.topology_manager import TopologyManager
    from numakube.values.quantity import Quantity

_REMEMBERED: Final = 1024
"""Readings kept; what-ifs of preemption make an NRT each, which is never seen again."""


@dataclass(slots=True)
class NumaZone:
    """One NUMA zone; ``available`` is changed while containers are placed one after the other."""

    id: int
    available: dict[str, Quantity]
    costs: dict[int, int]

    def copy(self) -> NumaZone:
        """Return a zone from which can be taken without changing this one."""
        return NumaZone(self.id, dict(self.available), self.costs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one NRT says; ``zones`` are shared, copy those that are changed."""

    manager: TopologyManager
    zones: tuple[NumaZone, ...]


def read(nrt: NodeResourceTopology) -> Reading | None:
    """Return what *nrt* says; ``None`` if it has a quantity that Go could not have decoded."""
    try:
        return Reading(topology_manager(nrt), tuple(numa_zones(nrt)))
    except InvalidValue:
        return None


class Reader:
    """Reads NRTs and remembers what they say: nodes outlive cycles."""

    def __init__(self) -> None:
        # The object is kept beside its reading, so that its identity stays its own.
        self._known: dict[int, tuple[NodeResourceTopology, Reading | None]] = {}

    def read(self, nrt: NodeResourceTopology) -> Reading | None:
        """Return what `read` does, from memory if possible."""
        known = self._known.get(id(nrt))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[id(nrt)] = (nrt, read(nrt))
        return known[1]


def numa_zones(nrt: NodeResourceTopology) -> list[NumaZone]:
    """Return the zones of *nrt*; raise `InvalidValue` for a malformed quantity."""
    costs: dict[int, dict[int, int]] = {}
    zones = []
    for zone in nrt.zones:
        numa_id = _numa_id(zone.name) if zone.type == ZONE_TYPE_NODE else None
        if numa_id is None:
            continue
        costs[numa_id] = _costs(zone.costs)
        available = {one.name: parse_quantity(one.available) for one in zone.resources}
        zones.append(NumaZone(numa_id, available, {}))
    for made in zones:
        made.costs = costs[made.id]
    return zones


@lru_cache(maxsize=1024)
def _numa_id(name: str) -> int | None:
    try:
        number = numa_id_of(name)
    except InvalidValue:
        return None
    return number if number <= MAX_NODE_ID else None


def _costs(costs: Iterable[Cost]) -> dict[int, int]:
    known = ((_numa_id(cost.name), cost.value) for cost in costs)
    return {numa_id: value for numa_id, value in known if numa_id is not None}
