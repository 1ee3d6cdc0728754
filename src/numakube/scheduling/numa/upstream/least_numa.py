"""LeastNUMANodes: nodes on which the pod needs fewer zones, and closer ones, are better.

The zones a request needs are the first suitable combination of the smallest size, in the order of
the NRT; among those of one size the closest is preferred. Kubelets break ties by mask value instead
and look at distances only if told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.snapshot.zone_table import UNKNOWN_DISTANCE
from numakube.values.quantity import Quantity
from numakube.values.topology_policy import NO_DATA, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.numa.upstream.plugin_inputs import (
        Demand,
        NumaZone,
        PluginRequest,
        Quantities,
    )
    from numakube.scheduling.numa.upstream.zone_columns import ZoneColumns
    from numakube.scheduling.snapshot.zone_table import ZoneShape

    Free: TypeAlias = Mapping[str, IntArray]

MOST_COMBINATIONS: Final = 4096
"""The search ends at a size with more: that is beyond 14 zones, where the Go plugin takes hours."""


@dataclass(frozen=True, slots=True)
class NeededZones:
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


def zones_needed(wanted: Quantities, zones: Sequence[NumaZone]) -> NeededZones | None:
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


def _of_size(size: int, wanted: Quantities, zones: Sequence[NumaZone]) -> NeededZones | None:
    every = [
        (_distance(combination, zones), combination)
        for combination in combinations(range(len(zones)), size)
    ]
    closest = min(UNKNOWN_DISTANCE * size**2, *(distance for distance, _ in every))
    # Beyond this a combination is never taken, however well it fits.
    shortest = (UNKNOWN_DISTANCE + 1) * size**2
    best = None
    for distance, positions in every:
        if distance < shortest and _holds(positions, wanted, zones):
            if distance == closest:
                return NeededZones(positions, closest=True)
            shortest, best = distance, NeededZones(positions, closest=False)
    return best


def _distance(positions: Iterable[int], zones: Sequence[NumaZone]) -> int:
    """Return the sum of all distances; combinations of one size compare as their means do."""
    chosen = [zones[position] for position in positions]
    return sum(zone.costs.get(to.id, UNKNOWN_DISTANCE) for zone in chosen for to in chosen)


def _holds(positions: Iterable[int], wanted: Quantities, zones: Sequence[NumaZone]) -> bool:
    """Tell whether each zone names everything wanted and they have it all together."""
    chosen = [zones[position].available for position in positions]
    for name, quantity in wanted.items():
        if any(name not in available for available in chosen):
            return False
        if quantity and quantity > sum((one[name] for one in chosen), start=Quantity.of_count(0)):
            return False
    return True


def _uses_zones(request: PluginRequest, zones: Sequence[NumaZone]) -> bool:
    return any(name in zone.available for name in request.quantities for zone in zones)


def _take(request: PluginRequest, zones: Sequence[NumaZone], positions: Iterable[int]) -> None:
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


# ------------------------------------------------------------------------------------------------
# LeastNUMANodes for all nodes at once.
#
# Nodes are taken together by the shape of their zones, which decides the order of combinations.
# Sizes that cannot suffice are left out: the largest zones of each resource together are the most
# that any combination of a size has.

_NOT_NAMED: Final = -(2**56)
"""Stands for what a zone has that does not name a resource: no sum with it is ever enough.

Other sums are exact: there are at most 14 zones in a combination, with less than 2**49 each.
"""
_CELLS_AT_ONCE: Final = 2**17
"""Sums computed in one go: about what a processor's cache holds."""


def score(demand: Demand, columns: ZoneColumns) -> IntArray:
    """Rate each node."""
    scores = np.zeros(len(columns), dtype=np.int64)
    known = (columns.policy != NO_DATA) & ~columns.blocked
    shapes = columns.shape
    for scope, requests in (
        (TopologyScope.POD, (demand.whole,)),
        (TopologyScope.CONTAINER, demand.each),
    ):
        mine = known & (columns.scope == scope.code)
        for number in np.unique(shapes[mine]):
            positions = np.flatnonzero(mine & (shapes == number))
            shape = columns.zones.shape_at(int(number))
            scores[positions] = _score_shape(requests, columns.part(positions), shape)
    return scores


def _score_shape(
    requests: Sequence[PluginRequest], columns: ZoneColumns, shape: ZoneShape
) -> IntArray:
    """Rate nodes whose zones have one shape."""
    size = len(columns)
    most = np.zeros(size, dtype=np.int64)
    closest = np.ones(size, dtype=np.bool_)
    fits = np.ones(size, dtype=np.bool_)
    zones = _Zones(columns, shape)
    for index, request in enumerate(requests):
        uses = zones.uses(request)
        found = zones.find(request, np.flatnonzero(uses & fits))
        fits &= ~uses | (found.count > 0)
        np.maximum(most, found.count, out=most)
        closest &= found.closest | ~uses
        later = {name for one in requests[index + 1 :] for name in one.quantities}
        zones.take(request, found.members, later)
    unit = MAX_NODE_SCORE // columns.max_zones.astype(np.int64)
    scores = MAX_NODE_SCORE - most * unit + np.where(closest, unit // 2, 0)
    return np.where(fits, np.where(most > 0, np.maximum(scores, 0), MAX_NODE_SCORE), 0)


class _Found:
    """What was found for one request, a column a node.

    Attributes:
        count: how many zones the node needs; 0 if all together do not have it.
        closest: whether none are closer.
        members: which zones they are.
    """

    def __init__(self, zones: int, nodes: int) -> None:
        self.count = np.zeros(nodes, dtype=np.int64)
        self.closest = np.zeros(nodes, dtype=np.bool_)
        self.members = np.zeros((zones, nodes), dtype=np.bool_)


class _Zones:
    """The zones of nodes of one shape while containers are placed one after the other."""

    def __init__(self, columns: ZoneColumns, shape: ZoneShape) -> None:
        self._columns = columns
        self._shape = shape
        self._count = len(shape.ids)
        self._free: dict[str, IntArray] = {}

    def uses(self, request: PluginRequest) -> Mask:
        """Tell on which nodes any zone names any resource of *request*."""
        uses = np.zeros(len(self._columns), dtype=np.bool_)
        for name in request.quantities:
            uses |= self._columns.reports(name).any(axis=0)
        return uses

    def find(self, request: PluginRequest, positions: Rows) -> _Found:
        """Return the zones that *request* needs on the nodes at *positions*."""
        found = _Found(self._count, len(self._columns))
        free = {name: _at(self._of(name), positions) for name in request.quantities}
        left = self._search(1, request, free, positions, found)
        positions = positions[left]
        free = {name: amounts[:, left] for name, amounts in free.items()}
        fewest = _fewest(request, free, len(positions))
        for size in range(2, 1 + largest_size(self._count)):
            tried = np.flatnonzero(fewest == size)
            if len(tried):
                some = {name: amounts[:, tried] for name, amounts in free.items()}
                left = self._search(size, request, some, positions[tried], found)
                fewest[tried[left]] = size + 1
        return found

    def take(self, request: PluginRequest, members: Mask, later: set[str]) -> None:
        """Take *request* from its zones, lowest first; only of what is asked for *later* too."""
        for name in request.wanted.keys() & later:
            free = self._free[name] = self._of(name).copy()
            missing = np.full(len(self._columns), request.amounts[name], dtype=np.int64)
            for zone in range(self._count):
                taken = np.where(members[zone], np.minimum(missing, free[zone]), 0)
                free[zone] -= taken
                missing -= taken

    def _of(self, name: str) -> IntArray:
        free = self._free.get(name)
        if free is None:
            available = self._columns.available(name)[: self._count]
            named = self._columns.reports(name)[: self._count]
            free = self._free[name] = np.where(named, available, _NOT_NAMED)
        return free

    def _search(
        self, size: int, request: PluginRequest, free: Free, positions: Rows, found: _Found
    ) -> Rows:
        """Note which combinations of *size* zones suffice; return the nodes where none does."""
        combinations = combinations_of(self._shape, size)
        if not len(combinations.members):
            return np.arange(len(positions))
        first = _first_fit(combinations, request, free, len(positions))
        hit = np.flatnonzero(first >= 0)
        at, nodes = first[hit], positions[hit]
        found.count[nodes] = size
        found.closest[nodes] = combinations.closest[at]
        found.members[:, nodes] = combinations.members[at].T
        return np.flatnonzero(first < 0)


def _at(amounts: IntArray, positions: Rows) -> IntArray:
    return amounts if len(positions) == amounts.shape[1] else amounts[:, positions]


def _fewest(request: PluginRequest, free: Free, nodes: int) -> IntArray:
    """Return how many zones each node needs at least, by its largest ones; too many if it lacks."""
    fewest = np.full(nodes, 2, dtype=np.int64)
    for name, amounts in free.items():
        sums = -np.sort(-amounts, axis=0)
        np.cumsum(sums, axis=0, out=sums)
        first = _first_of(sums >= request.amounts[name])
        fewest = np.maximum(fewest, np.where(first < 0, len(amounts), first) + 1)
    return fewest


def _first_fit(
    combinations: Combinations, request: PluginRequest, free: Free, nodes: int
) -> npt.NDArray[np.intp]:
    """Return the first combination that suffices on each node, -1 if none does."""
    first = np.full(nodes, -1, dtype=np.intp)
    step = max(1, _CELLS_AT_ONCE // len(combinations.members))
    for start in range(0, nodes, step):
        block = slice(start, start + step)
        good = np.ones((), dtype=np.bool_)
        for name, amounts in free.items():
            good = good & (combinations.sums(amounts[:, block]) >= request.amounts[name])
        first[block] = _first_of(good)
    return first


def _first_of(good: Mask) -> npt.NDArray[np.intp]:
    """Return in each column the position of the first that holds, -1 if none does."""
    count = len(good)
    # The largest of descending weights is the first that holds; much faster than argmax.
    weights = np.arange(count, 0, -1, dtype=np.uint8 if count < 256 else np.uint32)
    best = np.multiply(good.view(np.uint8), weights[:, np.newaxis]).max(axis=0)
    return np.where(best > 0, count - best.astype(np.intp), -1)


@dataclass(frozen=True, slots=True)
class Combinations:
    """All combinations of one size, best first: the first that fits is the one to take.

    Attributes:
        members: ``(combinations, zones)``, whether a zone belongs to it.
        closest: whether no combination of this size is closer.
        is_plain: whether these are just the zones one by one.
    """

    members: Mask
    closest: Mask
    is_plain: bool

    def sums(self, amounts: IntArray) -> IntArray | npt.NDArray[np.float64]:
        """Return what the zones of each combination have together, on each node.

        Floating point, because its product of matrices is the fastest sum there is.
        """
        return amounts if self.is_plain else self.members.astype(np.float64) @ amounts


@lru_cache(maxsize=64)
def largest_size(zones: int) -> int:
    """Return up to which size combinations of so many zones are tried."""
    sizes = range(1, zones + 1)
    return next((size - 1 for size in sizes if comb(zones, size) > MOST_COMBINATIONS), zones)


@lru_cache(maxsize=4096)
def combinations_of(shape: ZoneShape, size: int) -> Combinations:
    """Return the combinations of *size* zones."""
    zones = len(shape.ids)
    every = list(combinations(range(zones), size))
    distances = [sum(shape.distances[a][b] for a in one for b in one) for one in every]
    closest = min(UNKNOWN_DISTANCE * size**2, *distances)
    # Python's sort keeps the order of combinations that are equally far apart.
    order = sorted(range(len(every)), key=distances.__getitem__)
    order = [at for at in order if distances[at] < (UNKNOWN_DISTANCE + 1) * size**2]
    members = np.zeros((len(order), zones), dtype=np.bool_)
    for row, at in enumerate(order):
        members[row, list(every[at])] = True
    closest_ones = np.array([distances[at] == closest for at in order], dtype=np.bool_)
    is_plain = size == 1 and order == list(range(zones))
    return Combinations(members, closest_ones, is_plain)
