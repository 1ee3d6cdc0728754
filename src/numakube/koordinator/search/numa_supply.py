"""What each NUMA node can give one holder, resource by resource, and on which sets it is enough.

CPUs of one's own are counted in whole CPUs, or in whole cores where whole cores are a must, and
only as far as the NUMA node's CPU time is not taken by pods in the shared pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_values import BindPolicy
from numakube.koordinator.cpus.bind_policy import usable
from numakube.koordinator.node.node_capacity import amplified
from numakube.koordinator.search.numa_scoring import FULL_SCORE, SCORED, LazySums, Places
from numakube.values.cpuset import NO_CPUS, CpuMask, union
from numakube.values.numamask import NumaMask, masks_of_size, nodes_of
from numakube.values.resources import (
    CPU,
    MILLI_PER_CPU,
    hugepage_bytes,
    is_hugepages,
    is_whole_hugepages,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.koordinator.node.node_capacity import NodeCapacity
    from numakube.koordinator.search.holder_demand import HolderDemand
    from numakube.koordinator.search.remaining import Remaining

_MAX_EXAMPLES: Final = 500


@dataclass(frozen=True)
class Supply:
    """What NUMA nodes can give for a demand.

    Attributes:
        capacity: what the node has before any pod is there.
        remaining: what is left at the holder's turn.
    """

    capacity: NodeCapacity
    remaining: Remaining
    demand: HolderDemand

    @cached_property
    def cpus(self) -> CpuMask:
        """CPUs that can be bound, as the policy that must be met allows."""
        layout = self.capacity.layout
        if layout is None:
            return NO_CPUS
        required = self.demand.required
        lent = usable(layout, self.remaining.lent, required)
        if not lent or required is not BindPolicy.SPREAD_BY_PCPUS:
            return usable(layout, self.remaining.cpus, required)
        busy = union(core.cpus for core in layout.cores if core.cpus & lent)
        return lent | usable(layout, self.remaining.cpus & ~busy, required)

    def unit(self, resource: str) -> int:
        """Return what *resource* is given out in: whole CPUs or cores, whole pages, else units."""
        if resource == CPU:
            return self._cpu_unit
        amount = self.demand.amounts[resource]
        if is_hugepages(resource) and is_whole_hugepages(resource, amount):
            return hugepage_bytes(resource)
        return 1

    @cached_property
    def _cpu_unit(self) -> int:
        layout = self.capacity.layout
        if not self.demand.cpus or layout is None:
            return 1
        full = self.demand.required is BindPolicy.FULL_PCPUS
        return MILLI_PER_CPU * (layout.cpus_per_core if full else 1)

    @cached_property
    def available(self) -> Mapping[str, Mapping[int, int]]:
        """How much of each needed resource each NUMA node can give, in whole units."""
        return {name: self._available(name, self.unit(name)) for name in self.demand.amounts}

    def _available(self, resource: str, unit: int) -> Mapping[int, int]:
        zones = self.remaining.zones
        if resource == CPU and self.demand.cpus:
            return {zone: self._bindable(zone) // unit * unit for zone in zones}
        return {zone: free.get(resource, 0) // unit * unit for zone, free in zones.items()}

    @cached_property
    def fewest(self) -> Mapping[str, int]:
        """How many NUMA nodes it takes at least to have enough of each resource; 0 if all do not.

        No smaller set needs to be looked at.
        """
        return {
            name: _fewest(self.available[name].values(), amount)
            for name, amount in self.demand.amounts.items()
        }

    @property
    def short_of(self) -> str | None:
        """A resource that all NUMA nodes together have too little of, if there is one."""
        return next((name for name, count in self.fewest.items() if not count), None)

    @cached_property
    def having_all(self) -> tuple[int, ...]:
        """NUMA nodes that have something of everything; others are no place for the demand."""
        zones = self.capacity.zone_ids
        lists = self.available.values()
        return tuple(zone for zone in zones if all(available[zone] > 0 for available in lists))

    def richest(self, count: int, zones: Iterable[int]) -> tuple[int, ...]:
        """Return *count* of *zones*: those that have most of what they have least of."""
        amounts = self.demand.amounts

        def least(zone: int) -> float:
            return min((self.available[name][zone] / amounts[name] for name in amounts), default=0)

        return tuple(sorted(sorted(zones, key=least, reverse=True)[:count]))

    def masks(self, resource: str, masks: Iterable[NumaMask]) -> list[NumaMask]:
        """Return those of *masks* on which there is enough of *resource*."""
        sums, amount = self._sums[resource], self.demand.amounts[resource]
        return [mask for mask in masks if sums[mask] >= amount]

    def examples(self, resource: str) -> list[NumaMask]:
        """Return the smallest sets on which there is enough of *resource*, for people."""
        available, size = self.available[resource], self.fewest[resource]
        having = tuple(zone for zone, left in available.items() if left > 0)
        if comb(len(having), size) > _MAX_EXAMPLES:
            having = tuple(sorted(sorted(having, key=lambda zone: -available[zone])[:size]))
        return self.masks(resource, masks_of_size(having, size))

    def score(self, mask: NumaMask) -> int:
        """Return how good a place *mask* is: CPUs to be used again, then the strategy."""
        return self._places.score(mask) + self._reuse(mask)

    @cached_property
    def _places(self) -> Places:
        return Places(
            strategy=self.demand.strategy,
            totals=self.capacity.totals,
            free=self.remaining.zones,
            more={name: self._cost(name) for name in SCORED},
        )

    def _reuse(self, mask: NumaMask) -> int:
        """Return what counts for CPUs that an init container of the pod has had: more than all."""
        lent = self.cpus & self.remaining.lent if self.demand.cpus else NO_CPUS
        if not lent:
            return 0
        of_zone = self.capacity.cpus_of_zone
        count = sum((lent & of_zone[zone]).bit_count() for zone in nodes_of(mask))
        return (FULL_SCORE + 1) * min(count, self.demand.cpus) // self.demand.cpus

    @cached_property
    def _sums(self) -> Mapping[str, Mapping[NumaMask, int]]:
        return {
            name: LazySums({1 << zone: left for zone, left in available.items()})
            for name, available in self.available.items()
        }

    def _cost(self, resource: str) -> int:
        amount = self.demand.amounts.get(resource, 0)
        if resource == CPU and self.demand.cpus:
            return amplified(amount, self.capacity.ratio(CPU))
        return amount

    def _bindable(self, zone: int) -> int:
        """Return how many thousandths of CPUs *zone* can bind."""
        cpus = self.cpus & self.capacity.cpus_of_zone[zone]
        lent = (cpus & self.remaining.lent).bit_count()
        others = min(cpus.bit_count() - lent, self.new_cpus(zone))
        return (lent + others) * MILLI_PER_CPU

    def new_cpus(self, zone: int) -> int:
        """Return for how many more CPUs than those lent the CPU time of *zone* suffices."""
        capacity = self.capacity
        if CPU not in capacity.totals[zone]:
            return capacity.cpus_of_zone[zone].bit_count()
        return self.remaining.zones[zone][CPU] // amplified(MILLI_PER_CPU, capacity.ratio(CPU))


def _fewest(available: Iterable[int], amount: int) -> int:
    for count, most in enumerate(sorted(available, reverse=True), 1):
        amount -= most
        if amount <= 0:
            return count
    return 0
