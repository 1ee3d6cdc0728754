"""LeastNUMANodes: nodes on which the pod needs fewer zones, and closer ones, are better.

The zones a request needs are the first suitable combination of the smallest size, in the order of
the NRT; among those of one size the closest is preferred. Kubelets break ties by mask value instead
and look at distances only if told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.snapshot.zone_table import UNKNOWN_DISTANCE
from numakube.values.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.scheduling.numa.upstream.nrt_zones import NumaZone
    from numakube.scheduling.numa.upstream.pod_requests import Demand, Quantities, Request

MOST_COMBINATIONS: Final = 4096
"""The search ends at a size with more: that is beyond 14 zones, where the Go plugin takes hours."""


@dataclass(frozen=True, slots=True)
class Zones:
    """The zones that a request needs: positions in the list, and whether none are closer."""

    positions: tuple[int, ...]
    closest: bool

    def count(self, zones: Sequence[NumaZone]) -> int:
        """Return how many NUMA nodes they are; two zones may be of the same one."""
        return len({zones[position].id for position in self.positions})


def score_pod(demand: Demand, zones: Sequence[NumaZone], max_numa_nodes: int) -> int:
    """Rate a node whose kubelet aligns the pod as a whole."""
    if not _uses_zones(demand.whole, zones):
        return MAX_NODE_SCORE
    needed = zones_needed(demand.whole.quantities, zones)
    if needed is None:
        return 0
    return score_of(needed.count(zones), max_numa_nodes, closest=needed.closest)


def score_containers(demand: Demand, zones: Sequence[NumaZone], max_numa_nodes: int) -> int:
    """Rate a node whose kubelet aligns each container, by the one that needs the most zones.

    What a container takes, an init container as well, is gone for the others.
    """
    zones = [zone.copy() for zone in zones]
    most, closest = 0, True
    for request in demand.each:
        if not _uses_zones(request, zones):
            continue
        needed = zones_needed(request.quantities, zones)
        if needed is None:
            return 0
        most = max(most, needed.count(zones))
        closest = closest and needed.closest
        _take(request, zones, needed.positions)
    return score_of(most, max_numa_nodes, closest=closest) if most else MAX_NODE_SCORE


def score_of(count: int, max_numa_nodes: int, *, closest: bool) -> int:
    """Return the score for *count* zones; half a zone's worth is added if none are closer.

    A node may need more zones than its kubelet accepts; that is worth nothing.
    """
    unit = MAX_NODE_SCORE // max_numa_nodes
    return max(0, MAX_NODE_SCORE - count * unit + (unit // 2 if closest else 0))


def zones_needed(wanted: Quantities, zones: Sequence[NumaZone]) -> Zones | None:
    """Return the zones that *wanted* needs, or ``None`` if all together do not have it."""
    if not _have_together(wanted, zones):
        return None
    for size in range(1, len(zones) + 1):
        if comb(len(zones), size) > MOST_COMBINATIONS:
            break
        found = _of_size(size, wanted, zones)
        if found is not None:
            return found
    return None


def _have_together(wanted: Quantities, zones: Sequence[NumaZone]) -> bool:
    """Tell at a glance whether there is enough in all zones that name everything wanted."""
    naming = [zone.available for zone in zones if wanted.keys() <= zone.available.keys()]
    nothing = Quantity.of_count(0)
    return bool(naming) and all(
        quantity <= sum((max(nothing, one[name]) for one in naming), start=nothing)
        for name, quantity in wanted.items()
    )


def _of_size(size: int, wanted: Quantities, zones: Sequence[NumaZone]) -> Zones | None:
    every = [(_distance(one, zones), one) for one in combinations(range(len(zones)), size)]
    closest = min(UNKNOWN_DISTANCE * size**2, *(distance for distance, _ in every))
    # Beyond this a combination is never taken, however well it fits.
    shortest = (UNKNOWN_DISTANCE + 1) * size**2
    best = None
    for distance, positions in every:
        if distance < shortest and _holds(positions, wanted, zones):
            if distance == closest:
                return Zones(positions, closest=True)
            shortest, best = distance, Zones(positions, closest=False)
    return best


def _distance(positions: Iterable[int], zones: Sequence[NumaZone]) -> int:
    """Return the sum of all distances; combinations of one size compare as their means do."""
    chosen = [zones[position] for position in positions]
    return sum(one.costs.get(to.id, UNKNOWN_DISTANCE) for one in chosen for to in chosen)


def _holds(positions: Iterable[int], wanted: Quantities, zones: Sequence[NumaZone]) -> bool:
    """Tell whether each zone names everything wanted and they have it all together."""
    chosen = [zones[position].available for position in positions]
    for name, quantity in wanted.items():
        if any(name not in available for available in chosen):
            return False
        if quantity and quantity > sum((one[name] for one in chosen), start=Quantity.of_count(0)):
            return False
    return True


def _uses_zones(request: Request, zones: Sequence[NumaZone]) -> bool:
    return any(name in zone.available for name in request.quantities for zone in zones)


def _take(request: Request, zones: Sequence[NumaZone], positions: Iterable[int]) -> None:
    """Take *request* from its zones, emptying the one with the lowest id first."""
    for name, quantity in request.wanted.items():
        missing = quantity
        for zone in _charged(zones, positions):
            taken = min(missing, zone.available.get(name, missing))
            if name in zone.available:
                zone.available[name] = zone.available[name] - taken
                missing = missing - taken


def _charged(zones: Sequence[NumaZone], positions: Iterable[int]) -> list[NumaZone]:
    """Return the zones to take from, by ascending id.

    The Go plugin takes the id of a zone for its position in the list. If zones are listed in
    another order, or ids have holes, it charges others than those it chose, and so do we; where
    there is no such position it panics, and we charge the right ones.
    """
    ids = sorted({zones[position].id for position in positions})
    if ids[-1] < len(zones):
        return [zones[numa_id] for numa_id in ids]
    by_id = {zone.id: zone for zone in zones}
    return [by_id[numa_id] for numa_id in ids]
