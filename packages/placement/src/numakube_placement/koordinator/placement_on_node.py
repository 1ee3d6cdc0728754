"""Whether a node can take a pod whose placement we decide, and what the pod is given there.

With scope ``pod`` the pod is one holder with the sum of its requests. With scope ``container``
each container is one, in order of start, and a pod never is in its own way: neither for exclusive
placement nor for CPUs that an init container is done with. Containers that are ignored, or ask for
nothing that is placed, are given nothing and run in the shared pool.

A `Grant` turns NUMA nodes into what is given there: amounts, exact CPUs and devices. CPUs that an
init container of the same pod has had come first. The pick meets the policy that must be met, and
takes no more of a NUMA node than its CPU time is enough for: pods in its shared pool have been
promised the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import Allotment, CpuExclusive, Share
from numakube.values.cpuset import NO_CPUS, CpuMask, union
from numakube.values.numamask import mask_of, masks_of_size, nodes_of
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import BindPolicy
from numakube_placement.koordinator.cpu_pick import even_parts, meets, pick, usable
from numakube_placement.koordinator.numa_search import DeviceOffer, Search, too_little
from numakube_placement.koordinator.numa_supply import (
    FULL_SCORE,
    HolderDemand,
    Neighbours,
    NumaSets,
    Remaining,
    Supply,
    demand_of_container,
    demand_of_pod,
    total_of,
)
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.values.numamask import NumaMask
    from numakube.values.resources import Amounts
    from numakube_placement.koordinator.node_facts import CpuLayout


@dataclass(frozen=True)
class Grant:
    """What one holder is given."""

    supply: Supply
    devices: DeviceOffer

    def on(self, mask: NumaMask) -> Share | PlacementRefusal:
        """Return what is given on the NUMA nodes *mask*."""
        everywhere = mask == self.supply.capacity.all_zones
        given = self.devices.on(None if everywhere else mask)
        if isinstance(given, PlacementRefusal):
            return given
        zones = self._split(mask)
        if isinstance(zones, PlacementRefusal):
            return zones
        counts = {zone: part[CPU] // MILLI_PER_CPU for zone, part in zones.items() if CPU in part}
        cpus = self._cpus_by_zone(counts) if self.supply.demand.cpus else NO_CPUS
        if cpus is None:
            return self._too_few()
        return Share(cpus=cpus, zones=zones, mask=mask, devices=given)

    def anywhere(self) -> Share | PlacementRefusal:
        """Return what is given if no NUMA nodes are asked for: CPUs and devices."""
        given = self.devices.best
        if isinstance(given, PlacementRefusal):
            return given
        cpus = bind_cpus(self.supply, within_time(self.supply), self.supply.demand.cpus)
        return self._too_few() if cpus is None else Share(cpus=cpus, devices=given)

    def agreed(self, agrees: Callable[[NumaMask], bool]) -> Share | PlacementRefusal:
        """Return what is given if no NUMA nodes are asked for, but devices of claims are wanted.

        CPUs come from one or two NUMA nodes that have the devices, if there are such, or else from
        anywhere.
        """
        given = self.devices.best
        supply, capacity = self.supply, self.supply.capacity
        if isinstance(given, PlacementRefusal) or not supply.demand.cpus:
            return self.anywhere()
        free = within_time(supply)
        zones = capacity.zone_ids
        for mask in (*masks_of_size(zones, 1), *masks_of_size(zones, 2)):
            there = union(capacity.cpus_of_zone[zone] for zone in nodes_of(mask))
            cpus = bind_cpus(supply, free & there, supply.demand.cpus) if agrees(mask) else None
            if cpus is not None:
                return Share(cpus=cpus, devices=given)
        return self.anywhere()

    def _split(self, mask: NumaMask) -> dict[int, Amounts] | PlacementRefusal:
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

    def _too_few(self) -> PlacementRefusal:
        demand = self.supply.demand
        detail = f"{demand.cpus} wanted, {self.supply.cpus.bit_count()} can be bound"
        detail += f" as {demand.required}" if demand.required else ""
        return PlacementRefusal(
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


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.values.numamask import NumaMask
    from numakube_placement.koordinator.node_facts import NodeCapacity
    from numakube_placement.koordinator.node_ledger import NodeLedger
    from numakube_placement.koordinator.placement_rule import PlacementRule
    from numakube_placement.koordinator.pod_wish import PodWish

    Agrees = Callable[[Mapping[str, NumaMask]], bool]


_NOBODY: Final = ""
"""No pod has this UID, so the one that is rated adds to all others."""
_NOTHING: Final = Share()


def admit(
    ledger: NodeLedger, wish: PodWish, rule: PlacementRule, agrees: Agrees | None = None
) -> Allotment | PlacementRefusal:
    """Return what the pod is given, or why the node cannot take it.

    Args:
        ledger: what other pods hold; the pod itself is not in it.
        wish: what the pod wishes.
        rule: what holds for it on the node.
        agrees: whether claims have devices on the NUMA nodes of containers, as far as those are
            placed; an empty name stands for the pod.
    """
    if rule.scope is TopologyScope.CONTAINER:
        return _admit_containers(ledger, wish, rule, agrees)
    demand = demand_of_pod(wish, rule, ledger.capacity)
    share = _admit_one(Remaining(ledger=ledger), demand, _agrees(agrees, {}, ""))
    if isinstance(share, PlacementRefusal):
        return share
    return Allotment(total=share, cpu_exclusive=_exclusive(wish, share))


def rate(ledger: NodeLedger, allotment: Allotment, rule: PlacementRule) -> int:
    """Return how good a place the node is for a pod with *allotment*, 0 to 100.

    Args:
        ledger: what other pods hold, as for `admit`.
        allotment: what the pod would be given.
        rule: what holds for it on the node.
    """
    with_pod = ledger.with_pod(_NOBODY, allotment)
    holders = allotment.containers.values() if allotment.containers else (allotment.total,)
    scores = [_rate_one(with_pod, share, rule) for share in holders]
    return sum(scores) // len(scores)


def _rate_one(with_pod: NodeLedger, share: Share, rule: PlacementRule) -> int:
    """Return how full the NUMA nodes of *share* are, and less the more of them there are.

    Policies that allow several nodes would rather have one: any node that places the pod on one
    comes before any that needs two.
    """
    capacity = with_pod.capacity
    places = NumaSets(
        strategy=rule.strategy, totals=capacity.totals, free=with_pod.free_zones, more={}
    )
    score = places.score(share.mask & capacity.all_zones or capacity.all_zones)
    if rule.policy in (TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED) and share.mask:
        return (FULL_SCORE + score) // (2 * share.mask.bit_count())
    return score


def places_of(allotment: Allotment, capacity: NodeCapacity) -> dict[str, NumaMask]:
    """Return the NUMA nodes of each container that is placed; an empty name stands for the pod."""
    shares = allotment.containers or {"": allotment.total}
    return {name: place for name, one in shares.items() if (place := _place(one, capacity))}


def _place(share: Share, capacity: NodeCapacity) -> NumaMask:
    """Return the NUMA nodes that have what *share* is of: CPUs, or else amounts."""
    of_cpus = mask_of(zone for zone, cpus in capacity.cpus_of_zone.items() if cpus & share.cpus)
    return of_cpus | mask_of(share.zones) or share.mask


def _agrees(
    agrees: Agrees | None, placed: Mapping[str, NumaMask], name: str
) -> Callable[[NumaMask], bool] | None:
    return None if agrees is None else lambda mask: agrees({**placed, name: mask})


def _admit_containers(
    ledger: NodeLedger, wish: PodWish, rule: PlacementRule, agrees: Agrees | None
) -> Allotment | PlacementRefusal:
    remaining = Remaining(ledger=ledger)
    shares: dict[str, Share] = {}
    placed: dict[str, NumaMask] = {}
    for container in wish.containers:
        if container.ignored_under(rule.scope):
            continue
        demand = demand_of_container(container, wish, rule, ledger.capacity)
        share = _admit_one(remaining, demand, _agrees(agrees, placed, container.name))
        if isinstance(share, PlacementRefusal):
            return share
        if share != _NOTHING:
            shares[container.name] = share
            placed[container.name] = _place(share, ledger.capacity)
            remaining = remaining.after(share, stays=container.role is not ContainerRole.INIT)
    total = total_of(remaining, shares.values())
    return Allotment(total=total, containers=shares, cpu_exclusive=_exclusive(wish, total))


def _admit_one(
    remaining: Remaining,
    demand: HolderDemand,
    agrees: Callable[[NumaMask], bool] | None,
) -> Share | PlacementRefusal:
    ledger = remaining.ledger
    if refusal := _impossible(ledger, demand):
        return refusal
    if demand.empty:
        return _NOTHING
    supply = Supply(ledger.capacity, remaining, demand)
    devices = DeviceOffer(ledger, demand, remaining.devices)
    grant = Grant(supply, devices)
    if demand.policy is TopologyPolicy.NONE or not (demand.amounts or devices.types):
        return grant.anywhere() if agrees is None else grant.agreed(agrees)
    mask = Search(supply, devices, Neighbours.of(ledger.numa_status), agrees).run()
    return mask if isinstance(mask, PlacementRefusal) else grant.on(mask)


def _impossible(ledger: NodeLedger, demand: HolderDemand) -> PlacementRefusal | None:
    """Return what no pod could change."""
    if demand.policy.aligns and demand.asks and not ledger.capacity.zone_ids:
        return PlacementRefusal(why=Why.NO_ZONES, container=demand.container)
    if demand.bind is BindPolicy.NONE:
        return None
    layout = ledger.capacity.layout
    if layout is None or not layout.places:
        return PlacementRefusal(why=Why.NO_CPU_LAYOUT, container=demand.container)
    if demand.amounts[CPU] % MILLI_PER_CPU:
        return PlacementRefusal(why=Why.NOT_WHOLE_CPUS, container=demand.container, resource=CPU)
    return None


def _exclusive(wish: PodWish, total: Share) -> CpuExclusive:
    return wish.cpus.exclusive if total.cpus else CpuExclusive.NONE
