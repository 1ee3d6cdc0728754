"""From NUMA nodes to what is given there: amounts, exact CPUs and devices.

CPUs that an init container of the same pod has had come first. The pick meets the policy that must
be met, and takes no more of a NUMA node than its CPU time is enough for: pods in its shared pool
have been promised the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.koordinator.annotation_values import BindPolicy
from numakube.koordinator.cpus.bind_policy import meets, usable
from numakube.koordinator.cpus.cpu_pick import even_parts, pick
from numakube.koordinator.ledger.holdings import Share
from numakube.koordinator.placement_refusals import Refusal, Why
from numakube.koordinator.search.numa_search import too_little
from numakube.values.cpuset import NO_CPUS, CpuMask, union
from numakube.values.numamask import masks_of_size, nodes_of
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.koordinator.node.node_facts import CpuLayout
    from numakube.koordinator.search.device_offer import DeviceOffer
    from numakube.koordinator.search.numa_supply import Supply
    from numakube.values.numamask import NumaMask
    from numakube.values.resources import Amounts


@dataclass(frozen=True)
class Grant:
    """What one holder is given."""

    supply: Supply
    devices: DeviceOffer

    def on(self, mask: NumaMask) -> Share | Refusal:
        """Return what is given on the NUMA nodes *mask*."""
        everywhere = mask == self.supply.capacity.all_zones
        given = self.devices.on(None if everywhere else mask)
        if isinstance(given, Refusal):
            return given
        zones = self._split(mask)
        if isinstance(zones, Refusal):
            return zones
        counts = {zone: part[CPU] // MILLI_PER_CPU for zone, part in zones.items() if CPU in part}
        cpus = self._cpus_by_zone(counts) if self.supply.demand.cpus else NO_CPUS
        if cpus is None:
            return self._too_few()
        return Share(cpus=cpus, zones=zones, mask=mask, devices=given)

    def anywhere(self) -> Share | Refusal:
        """Return what is given if no NUMA nodes are asked for: CPUs and devices."""
        given = self.devices.best
        if isinstance(given, Refusal):
            return given
        cpus = bind_cpus(self.supply, within_time(self.supply), self.supply.demand.cpus)
        return self._too_few() if cpus is None else Share(cpus=cpus, devices=given)

    def agreed(self, agrees: Callable[[NumaMask], bool]) -> Share | Refusal:
        """Return what is given if no NUMA nodes are asked for, but devices of claims are wanted.

        CPUs come from one or two NUMA nodes that have the devices, if there are such, or else from
        anywhere.
        """
        given = self.devices.best
        supply, capacity = self.supply, self.supply.capacity
        if isinstance(given, Refusal) or not supply.demand.cpus:
            return self.anywhere()
        free = within_time(supply)
        zones = capacity.zone_ids
        for mask in (*masks_of_size(zones, 1), *masks_of_size(zones, 2)):
            there = union(capacity.cpus_of_zone[zone] for zone in nodes_of(mask))
            cpus = bind_cpus(supply, free & there, supply.demand.cpus) if agrees(mask) else None
            if cpus is not None:
                return Share(cpus=cpus, devices=given)
        return self.anywhere()

    def _split(self, mask: NumaMask) -> dict[int, Amounts] | Refusal:
        zones: dict[int, dict[str, int]] = {}
        supply = self.supply
        for name, amount in supply.demand.amounts.items():
            available = supply.available[name]
            there = {zone: available[zone] for zone in nodes_of(mask)}
            parts = even_parts(there, amount, unit=supply.unit(name))
            if parts is None:
                return too_little(supply, name)
            for zone, part in parts.items():
                zones.setdefault(zone, {})[name] = part
        return {zone: zones[zone] for zone in sorted(zones)}

    def _cpus_by_zone(self, counts: dict[int, int]) -> CpuMask | None:
        of_zone = self.supply.capacity.cpus_of_zone
        cpus = NO_CPUS
        for zone, count in counts.items():
            part = bind_cpus(self.supply, self.supply.cpus & of_zone[zone], count)
            if part is None:
                return None
            cpus |= part
        return cpus

    def _too_few(self) -> Refusal:
        demand = self.supply.demand
        detail = f"{demand.cpus} wanted, {self.supply.cpus.bit_count()} can be bound"
        detail += f" as {demand.required}" if demand.required else ""
        return Refusal(
            why=Why.TOO_FEW_CPUS, container=demand.container, resource=CPU, detail=detail
        )


def bind_cpus(supply: Supply, free: CpuMask, count: int) -> CpuMask | None:
    """Return *count* of the *free* CPUs, or ``None`` if there are none that will do.

    CPUs that an init container of the same pod has had come first.
    """
    layout = supply.capacity.layout
    if not count or layout is None:
        return None if count else NO_CPUS
    taken = NO_CPUS
    for pool in _pools(supply, layout, free):
        missing = min(count - taken.bit_count(), pool.bit_count())
        taken |= _picked(supply, layout, pool, missing)
    return taken if taken.bit_count() == count and _is_sound(supply, layout, taken) else None


def within_time(supply: Supply) -> CpuMask:
    """Return CPUs that can be bound, of each NUMA node no more than it has CPU time left.

    Pods that run in its shared pool have been promised the rest.
    """
    layout, capacity = supply.capacity.layout, supply.capacity
    cpus = supply.cpus
    if layout is None:
        return NO_CPUS
    for zone, of_zone in capacity.cpus_of_zone.items():
        others = cpus & of_zone & ~supply.remaining.lent
        if (limit := supply.new_cpus(zone)) < others.bit_count():
            cpus &= ~others | _picked(supply, layout, others, limit)
    return cpus


def _picked(supply: Supply, layout: CpuLayout, free: CpuMask, count: int) -> CpuMask:
    demand = supply.demand
    grain = layout.cpus_per_core if demand.required is BindPolicy.FULL_PCPUS else 1
    cpus = pick(
        layout,
        free=free,
        count=count // grain * grain,
        bind=demand.bind,
        strategy=demand.strategy,
        exclusive=demand.cpu_exclusive,
        held=supply.remaining.exclusive_cpus,
    )
    return cpus or NO_CPUS


def _pools(supply: Supply, layout: CpuLayout, free: CpuMask) -> tuple[CpuMask, ...]:
    """Return *free* in parts: CPUs that are lent, those that complete their cores, the rest."""
    lent = supply.remaining.lent & free
    if not lent:
        return (free,)
    first = usable(layout, lent, supply.demand.required)
    broken = union(core.cpus for core in layout.cores if core.cpus & lent) & free & ~first
    return first, broken, free & ~first & ~broken


def _is_sound(supply: Supply, layout: CpuLayout, cpus: CpuMask) -> bool:
    """Tell whether *cpus* are as they must be, and within what NUMA nodes have left."""
    new = cpus & ~supply.remaining.lent
    of_zone = supply.capacity.cpus_of_zone
    return meets(layout, cpus, supply.demand.required) and all(
        (new & of_zone[zone]).bit_count() <= supply.new_cpus(zone) for zone in of_zone
    )
