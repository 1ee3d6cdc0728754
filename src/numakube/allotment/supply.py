"""What each NUMA node can give one holder, resource by resource, and on which sets it is enough.

CPUs of one's own are counted in whole CPUs, or in whole cores where whole cores are a must, and
only as far as the NUMA node's CPU time is not taken by pods in the shared pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from numakube.allotment.cpus.required import usable
from numakube.allotment.ground import CPU_MILLI, amplified
from numakube.allotment.scoring import FULL_SCORE, SCORED, LazySums, Places
from numakube.allotment.words import BindPolicy
from numakube.values.numamask import NumaMask, masks_of_size, nodes_of
from numakube.values.resources import CPU, hugepage_bytes, is_hugepages, is_whole_hugepages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.allotment.needs import Need
    from numakube.allotment.room import Room


@dataclass(frozen=True)
class Supply:
    """What NUMA nodes can give for a need."""

    room: Room
    need: Need

    @cached_property
    def cpus(self) -> int:
        """CPUs that can be bound, as the policy that must be met allows."""
        layout = self.room.ledger.facts.cpus
        if layout is None:
            return 0
        required = self.need.required
        lent = usable(layout, self.room.lent, required)
        if not lent or required is not BindPolicy.SPREAD_BY_PCPUS:
            return usable(layout, self.room.cpus, required)
        busy = sum(core.cpus for core in layout.cores if core.cpus & lent)
        return lent | usable(layout, self.room.cpus & ~busy, required)

    def unit(self, resource: str) -> int:
        """Return what *resource* is given out in: whole CPUs or cores, whole pages, else units."""
        if resource == CPU:
            return self._cpu_unit
        amount = self.need.amounts[resource]
        if is_hugepages(resource) and is_whole_hugepages(resource, amount):
            return hugepage_bytes(resource)
        return 1

    @cached_property
    def _cpu_unit(self) -> int:
        layout = self.room.ledger.facts.cpus
        if not self.need.cpus or layout is None:
            return 1
        full = self.need.required is BindPolicy.FULL_PCPUS
        return CPU_MILLI * (layout.cpus_per_core if full else 1)

    @cached_property
    def available(self) -> Mapping[str, Mapping[int, int]]:
        """How much of each needed resource each NUMA node can give, in whole units."""
        return {name: self._available(name, self.unit(name)) for name in self.need.amounts}

    def _available(self, resource: str, unit: int) -> Mapping[int, int]:
        zones = self.room.zones
        if resource == CPU and self.need.cpus:
            return {zone: self._bindable(zone) // unit * unit for zone in zones}
        return {zone: free.get(resource, 0) // unit * unit for zone, free in zones.items()}

    def fewest_nodes(self, resource: str) -> int:
        """Return how many NUMA nodes it takes to have enough of *resource*; 0 if all are too few.

        No smaller set needs to be looked at.
        """
        missing = self.need.amounts[resource]
        for count, most in enumerate(sorted(self.available[resource].values(), reverse=True), 1):
            missing -= most
            if missing <= 0:
                return count
        return 0

    def short_of(self) -> str | None:
        """Return a resource that all NUMA nodes together have too little of, if there is one."""
        return next((name for name in self.need.amounts if not self.fewest_nodes(name)), None)

    def masks(self, resource: str, size: int) -> list[NumaMask]:
        """Return the sets of *size* NUMA nodes on which there is enough of *resource*.

        Sets with a node that has nothing of it are no place for it.
        """
        if size < self.fewest_nodes(resource):
            return []
        available, amount = self.available[resource], self.need.amounts[resource]
        if size == 1:
            return [1 << zone for zone, left in available.items() if left >= amount]
        having = tuple(zone for zone, left in available.items() if left > 0)
        sums = self._sums[resource]
        return [mask for mask in masks_of_size(having, size) if sums[mask] >= amount]

    def score(self, mask: NumaMask) -> int:
        """Return how good a place *mask* is: CPUs to be used again, then the strategy."""
        return self._places.score(mask) + self._reuse(mask)

    @cached_property
    def _places(self) -> Places:
        return Places(
            strategy=self.need.strategy,
            totals=self.room.ledger.ground.totals,
            free=self.room.zones,
            more={name: self._cost(name) for name in SCORED},
        )

    def _reuse(self, mask: NumaMask) -> int:
        """Return what counts for CPUs that an init container of the pod has had: more than all."""
        lent = self.cpus & self.room.lent if self.need.cpus else 0
        if not lent:
            return 0
        of_zone = self.room.ledger.ground.cpus_of_zone
        count = sum((lent & of_zone[zone]).bit_count() for zone in nodes_of(mask))
        return (FULL_SCORE + 1) * min(count, self.need.cpus) // self.need.cpus

    @cached_property
    def _sums(self) -> Mapping[str, Mapping[NumaMask, int]]:
        return {
            name: LazySums({1 << zone: left for zone, left in available.items()})
            for name, available in self.available.items()
        }

    def _cost(self, resource: str) -> int:
        amount = self.need.amounts.get(resource, 0)
        if resource == CPU and self.need.cpus:
            return amplified(amount, self.room.ledger.ground.ratio(CPU))
        return amount

    def _bindable(self, zone: int) -> int:
        """Return how many thousandths of CPUs *zone* can bind."""
        cpus = self.cpus & self.room.ledger.ground.cpus_of_zone[zone]
        lent = (cpus & self.room.lent).bit_count()
        others = min(cpus.bit_count() - lent, self.new_cpus(zone))
        return (lent + others) * CPU_MILLI

    def new_cpus(self, zone: int) -> int:
        """Return how many CPUs besides those lent the CPU time of *zone* is enough for."""
        ground = self.room.ledger.ground
        if CPU not in ground.totals[zone]:
            return ground.cpus_of_zone[zone].bit_count()
        return self.room.zones[zone][CPU] // amplified(CPU_MILLI, ground.ratio(CPU))
