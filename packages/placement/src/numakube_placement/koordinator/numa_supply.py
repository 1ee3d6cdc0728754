"""What one holder, a pod or a container, must be given, and what each NUMA node can give it.

CPUs of one's own are counted in whole CPUs, or in whole cores where whole cores are a must, and
only as far as the NUMA node's CPU time is not taken by pods in the shared pool.

Containers are placed one after the other (`Remaining`). A plain init container ends before the next
container starts, so what it used is there again. As under the kubelet its CPUs stay with the pod:
later containers get those first, and what none of them uses the pod keeps. Sidecars and app
containers keep what they get. What the pod holds in the end is the most that it held at any time.

A pod across several nodes slows down a pod that expects one of them for itself (`Neighbours`). With
``Required`` a pod therefore takes neither a single node that a pod across several uses, nor a set
of nodes of which another pod uses one alone. With ``Preferred`` such places come last among those
of their size. Pods that run in shared pools count like those with CPUs of their own.

How good a place is follows Koordinator's formulas: the share of CPU and memory that would be free
(``LeastAllocated``) or taken (``MostAllocated``) with the pod there, in percent, each rounded down,
and the mean of both. ``DistributeEvenly`` wants emptier places as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import comb
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.topology.allotments import CpuExclusive, Share
from numakube.values.cpuset import NO_CPUS, CpuMask, union
from numakube.values.numamask import NumaMask, mask_of, masks_of_size, nodes_of
from numakube.values.resources import (
    CPU,
    MEMORY,
    MILLI_PER_CPU,
    hugepage_bytes,
    is_hugepages,
    is_whole_hugepages,
    largest_amounts,
)
from numakube_placement.koordinator.allotments import added_devices, largest_devices
from numakube_placement.koordinator.annotation_values import BindPolicy, Exclusive, Strategy
from numakube_placement.koordinator.cpu_pick import usable
from numakube_placement.koordinator.node_facts import amplified
from numakube_placement.koordinator.node_ledger import NumaStatus, add_zones, bound_of, unbound_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.topology.allotments import HeldDevice
    from numakube.values.resources import Amounts
    from numakube.values.topology_policy import TopologyPolicy
    from numakube_placement.koordinator.node_facts import NodeCapacity
    from numakube_placement.koordinator.node_ledger import NodeLedger
    from numakube_placement.koordinator.placement_rule import PlacementRule
    from numakube_placement.koordinator.pod_wish import ContainerWish, DeviceWish, PodWish


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who is on which NUMA nodes already: holders of one node, and holders of several."""

    single: NumaMask = 0
    shared: NumaMask = 0

    @classmethod
    def of(cls, status: Mapping[int, NumaStatus]) -> Neighbours:
        """Return the neighbours that a node's status tells of."""
        return cls(_mask(status, NumaStatus.SINGLE), _mask(status, NumaStatus.SHARED))

    def are_disturbed(self, mask: NumaMask) -> bool:
        """Tell whether a pod on *mask* and those that are there would disturb each other."""
        return bool(mask & (self.shared if mask.bit_count() == 1 else self.single))

    def allow(self, mask: NumaMask, exclusive: Exclusive) -> bool:
        """Tell whether *mask* is a place for a pod that is *exclusive*."""
        return exclusive is not Exclusive.REQUIRED or not self.are_disturbed(mask)

    def spoil(self, mask: NumaMask, exclusive: Exclusive) -> bool:
        """Tell whether *mask* comes last for a pod that would rather be *exclusive*."""
        return exclusive is Exclusive.PREFERRED and self.are_disturbed(mask)


NOBODY: Final = Neighbours()
"""On an idle node."""


def _mask(status: Mapping[int, NumaStatus], wanted: NumaStatus) -> NumaMask:
    return sum(1 << zone for zone, is_now in status.items() if is_now is wanted)


FULL_SCORE: Final = 100
SCORED: Final = (CPU, MEMORY)
"""Resources that count, all alike."""


@dataclass(frozen=True, kw_only=True)
class NumaSets:
    """Sets of NUMA nodes to be compared for one holder.

    Attributes:
        totals: what each NUMA node has.
        free: what is left of it.
        more: what the holder takes.
    """

    strategy: Strategy
    totals: Mapping[int, Amounts]
    free: Mapping[int, Amounts]
    more: Amounts

    def score(self, mask: NumaMask) -> int:
        """Return how good a place *mask* is, 0 to 100."""
        scores = [
            _score(self.strategy, total[mask], total[mask] - free[mask] + more)
            for total, free, more in self._sums
            if total[mask] > 0
        ]
        return sum(scores) // len(scores) if scores else 0

    @cached_property
    def _sums(self) -> list[tuple[Mapping[NumaMask, int], Mapping[NumaMask, int], int]]:
        return [
            (_sums(self.totals, name), _sums(self.free, name), self.more.get(name, 0))
            for name in SCORED
        ]


def _sums(zones: Mapping[int, Amounts], name: str) -> Mapping[NumaMask, int]:
    return LazySums({1 << zone: amounts.get(name, 0) for zone, amounts in zones.items()})


class LazySums(dict[NumaMask, int]):
    """Sums over sets of NUMA nodes, from those over single ones, as far as they are asked for."""

    def __missing__(self, mask: NumaMask) -> int:
        """Return the sum over *mask*, which is one node and a smaller set."""
        low = mask & -mask
        self[mask] = total = self.get(low, 0) + (self[mask ^ low] if mask ^ low else 0)
        return total


def _score(strategy: Strategy, total: int, taken: int) -> int:
    if strategy is Strategy.MOST_ALLOCATED:
        return min(taken, total) * FULL_SCORE // total
    return max(0, total - taken) * FULL_SCORE // total


@dataclass(frozen=True, kw_only=True)
class HolderDemand:
    """What one holder must be given.

    Attributes:
        container: empty for a pod as a whole.
        amounts: of resources that NUMA nodes have figures for.
        asks: whether it asks for anything at all.
        bind: how its CPUs are picked; `BindPolicy.NONE` if it runs in a shared pool.
        required: the policy that the pick must meet, if any.
        devices: what the pod wants of devices, if the holder wants any of them.
    """

    container: str = ""
    amounts: Amounts
    asks: bool = True
    policy: TopologyPolicy
    exclusive: Exclusive
    strategy: Strategy
    bind: BindPolicy = BindPolicy.NONE
    required: BindPolicy = BindPolicy.NONE
    cpu_exclusive: CpuExclusive = CpuExclusive.NONE
    devices: DeviceWish | None = None

    @cached_property
    def cpus(self) -> int:
        """How many CPUs it gets for itself."""
        return self.amounts.get(CPU, 0) // MILLI_PER_CPU if self.bind is not BindPolicy.NONE else 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to give: no policy or nothing to place, and no CPUs to bind."""
        return not (self.cpus or self.devices or (self.policy.aligns and self.amounts))


def demand_of_pod(wish: PodWish, rule: PlacementRule, capacity: NodeCapacity) -> HolderDemand:
    """Return what a pod needs as a whole."""
    bind = rule.bind if wish.requests.get(CPU, 0) else BindPolicy.NONE
    return HolderDemand(
        amounts=_placed(wish.requests, wish, capacity, bind),
        asks=any(wish.requests.values()),
        policy=rule.policy,
        exclusive=rule.exclusive,
        strategy=rule.strategy,
        bind=bind,
        required=bind if rule.bind_required else BindPolicy.NONE,
        cpu_exclusive=wish.cpus.exclusive,
        devices=wish.devices,
    )


def demand_of_container(
    container: ContainerWish, wish: PodWish, rule: PlacementRule, capacity: NodeCapacity
) -> HolderDemand:
    """Return what one container of a pod needs; its own rule comes before the pod's."""
    bind, required = _binding(container, rule, capacity)
    wanted = wish.devices
    return HolderDemand(
        container=container.name,
        amounts=_placed(container.requests, wish, capacity, bind),
        asks=any(container.requests.values()),
        policy=rule.policy if container.policy is None else container.policy,
        exclusive=_exclusive(container, wish, rule),
        strategy=rule.strategy,
        bind=bind,
        required=required,
        cpu_exclusive=container.cpus.exclusive,
        devices=wanted if wanted and wanted.by_container.get(container.name) else None,
    )


def _placed(requests: Amounts, wish: PodWish, capacity: NodeCapacity, bind: BindPolicy) -> Amounts:
    placed = {
        name: amount
        for name, amount in requests.items()
        if amount > 0 and name in capacity.resources and name not in wish.ignored_resources
    }
    if bind is not BindPolicy.NONE:
        placed[CPU] = requests[CPU]
    return placed


def _binding(
    container: ContainerWish, rule: PlacementRule, capacity: NodeCapacity
) -> tuple[BindPolicy, BindPolicy]:
    """Return how the CPUs of *container* are picked, and which policy the pick must meet."""
    none = BindPolicy.NONE
    wish, facts = container.cpus, capacity.facts
    asked = container.requests.get(CPU, 0)
    may_bind = rule.bind is not none and (wish.bound or facts.binds_all)
    if not may_bind or not asked or asked % MILLI_PER_CPU:
        return none, none
    required = wish.required or facts.bind_policy
    return required or wish.preferred or rule.bind, required


def _exclusive(container: ContainerWish, wish: PodWish, rule: PlacementRule) -> Exclusive:
    if container.exclusive is not None:
        return container.exclusive
    if container.aligns_itself and wish.exclusive is None:
        return Exclusive.REQUIRED
    return rule.exclusive


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What is left at a container's turn.

    Attributes:
        own: CPUs that containers of the pod have had so far.
        lent: those of them that are there to be used again.
        kept: what sidecars and app containers took of each NUMA node besides CPUs of their own.
        devices: what they took of devices.
        peak: the most that the pod took of each NUMA node at any time, amplified.
        device_peak: the most that it held of devices at any time.
    """

    ledger: NodeLedger
    own: CpuMask = NO_CPUS
    lent: CpuMask = NO_CPUS
    kept: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    devices: tuple[HeldDevice, ...] = ()
    peak: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    device_peak: tuple[HeldDevice, ...] = ()

    @cached_property
    def cpus(self) -> CpuMask:
        """CPUs that may be bound: free ones, and those lent."""
        return self.ledger.free_cpus & ~self.own | self.lent

    @property
    def exclusive_cpus(self) -> Mapping[CpuExclusive, CpuMask]:
        """CPUs that other pods hold under each exclusive policy."""
        return self.ledger.exclusive_cpus

    @cached_property
    def zones(self) -> Mapping[int, Amounts]:
        """What is left of each NUMA node, amplified; CPUs that are lent are not in it."""
        taken = self.taken
        return {
            zone: _less(free, taken[zone]) if zone in taken else free
            for zone, free in self.ledger.free_zones.items()
        }

    @cached_property
    def taken(self) -> Mapping[int, Amounts]:
        """What the pod has taken of each NUMA node so far, amplified."""
        capacity = self.ledger.capacity
        bound = {
            zone: {CPU: amplified(count * MILLI_PER_CPU, capacity.ratio(CPU))}
            for zone, count in bound_of(capacity, self.own).items()
        }
        return add_zones(self.kept, bound)

    def after(self, share: Share, *, stays: bool) -> Remaining:
        """Return what is left once a container got *share*, which it keeps if it *stays*."""
        capacity = self.ledger.capacity
        unbound = unbound_of(capacity, share, bound_of(capacity, share.cpus))
        then = replace(
            self,
            own=self.own | share.cpus,
            lent=self.lent & ~share.cpus,
            kept=add_zones(self.kept, unbound),
            devices=added_devices(self.devices, share.devices),
        )
        peak = _largest(self.peak, then.taken)
        then = replace(then, peak=peak, device_peak=largest_devices(self.device_peak, then.devices))
        if stays:
            return then
        lent = self.lent | share.cpus
        return replace(then, lent=lent, kept=self.kept, devices=self.devices)


def total_of(remaining: Remaining, shares: Iterable[Share]) -> Share:
    """Return what a pod holds whose containers got *shares*: the most at any time."""
    mask = 0
    for share in shares:
        mask |= share.mask
    zones = _zones(remaining) if mask else {}
    mask |= mask_of(zones)
    return Share(cpus=remaining.own, zones=zones, mask=mask, devices=remaining.device_peak)


def _zones(remaining: Remaining) -> dict[int, Amounts]:
    capacity = remaining.ledger.capacity
    bound = bound_of(capacity, remaining.own)
    zones: dict[int, Amounts] = {}
    for zone, peak in remaining.peak.items():
        amounts = dict(peak)
        if count := bound.get(zone, 0):
            price = amplified(count * MILLI_PER_CPU, capacity.ratio(CPU))
            amounts[CPU] = count * MILLI_PER_CPU + max(0, amounts.get(CPU, 0) - price)
        zones[zone] = {name: amount for name, amount in amounts.items() if amount}
    return {zone: amounts for zone, amounts in zones.items() if amounts}


def _less(free: Amounts, taken: Amounts) -> Amounts:
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in free.items()}


def _largest(one: Mapping[int, Amounts], other: Mapping[int, Amounts]) -> Mapping[int, Amounts]:
    return {
        zone: largest_amounts(one.get(zone, {}), other.get(zone, {}))
        for zone in sorted(one.keys() | other.keys())
    }


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
    def _places(self) -> NumaSets:
        return NumaSets(
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
