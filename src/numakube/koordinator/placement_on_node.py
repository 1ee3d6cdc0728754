"""Whether a node can take a pod whose placement we decide, and what the pod is given there.

With scope ``pod`` the pod is one holder with the sum of its requests. With scope ``container``
each container is one, in order of start, and a pod never is in its own way: neither for exclusive
placement nor for CPUs that an init container is done with. Containers that are ignored, or ask for
nothing that is placed, are given nothing and run in the shared pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_values import BindPolicy, CpuExclusive
from numakube.koordinator.ledger.holdings import Allotment, Share
from numakube.koordinator.placement_refusals import Refusal, Why
from numakube.koordinator.search.device_offer import DeviceOffer
from numakube.koordinator.search.grant import Grant
from numakube.koordinator.search.holder_demand import (
    HolderDemand,
    demand_of_container,
    demand_of_pod,
)
from numakube.koordinator.search.neighbours import Neighbours
from numakube.koordinator.search.numa_scoring import FULL_SCORE, Places
from numakube.koordinator.search.numa_search import Search
from numakube.koordinator.search.numa_supply import Supply
from numakube.koordinator.search.remaining import Remaining, total_of
from numakube.kubelet.pod_demand import Role
from numakube.values.numamask import mask_of
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.koordinator.ledger.node_ledger import Ledger
    from numakube.koordinator.node.node_capacity import NodeCapacity
    from numakube.koordinator.placement_rule import Rule
    from numakube.koordinator.wish.pod_wish import PodWish
    from numakube.values.numamask import NumaMask

    Agrees = Callable[[Mapping[str, NumaMask]], bool]


_NOBODY: Final = ""
"""No pod has this UID, so the one that is rated adds to all others."""
_NOTHING: Final = Share()


def admit(
    ledger: Ledger, wish: PodWish, rule: Rule, agrees: Agrees | None = None
) -> Allotment | Refusal:
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
    if isinstance(share, Refusal):
        return share
    return Allotment(total=share, cpu_exclusive=_exclusive(wish, share))


def rate(ledger: Ledger, allotment: Allotment, rule: Rule) -> int:
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


def _rate_one(with_pod: Ledger, share: Share, rule: Rule) -> int:
    """Return how full the NUMA nodes of *share* are, and less the more of them there are.

    Policies that allow several nodes would rather have one: any node that places the pod on one
    comes before any that needs two.
    """
    capacity = with_pod.capacity
    places = Places(
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
    ledger: Ledger, wish: PodWish, rule: Rule, agrees: Agrees | None
) -> Allotment | Refusal:
    remaining = Remaining(ledger=ledger)
    shares: dict[str, Share] = {}
    placed: dict[str, NumaMask] = {}
    for container in wish.containers:
        if container.ignored_under(rule.scope):
            continue
        demand = demand_of_container(container, wish, rule, ledger.capacity)
        share = _admit_one(remaining, demand, _agrees(agrees, placed, container.name))
        if isinstance(share, Refusal):
            return share
        if share != _NOTHING:
            shares[container.name] = share
            placed[container.name] = _place(share, ledger.capacity)
            remaining = remaining.after(share, stays=container.role is not Role.INIT)
    total = total_of(remaining, shares.values())
    return Allotment(total=total, containers=shares, cpu_exclusive=_exclusive(wish, total))


def _admit_one(
    remaining: Remaining,
    demand: HolderDemand,
    agrees: Callable[[NumaMask], bool] | None,
) -> Share | Refusal:
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
    return mask if isinstance(mask, Refusal) else grant.on(mask)


def _impossible(ledger: Ledger, demand: HolderDemand) -> Refusal | None:
    """Return what no pod could change."""
    if demand.policy.aligns and demand.asks and not ledger.capacity.zone_ids:
        return Refusal(why=Why.NO_ZONES, container=demand.container)
    if demand.bind is BindPolicy.NONE:
        return None
    layout = ledger.capacity.layout
    if layout is None or not layout.places:
        return Refusal(why=Why.NO_CPU_LAYOUT, container=demand.container)
    if demand.amounts[CPU] % MILLI_PER_CPU:
        return Refusal(why=Why.NOT_WHOLE_CPUS, container=demand.container, resource=CPU)
    return None


def _exclusive(wish: PodWish, total: Share) -> CpuExclusive:
    return wish.cpus.exclusive if total.cpus else CpuExclusive.NONE
