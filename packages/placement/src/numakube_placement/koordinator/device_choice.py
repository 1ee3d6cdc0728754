"""Which devices a pod gets on given NUMA nodes.

Types that a pod wants placed together get devices that are as close to each other as can be
(`joint_devices`); a pod may insist on the same PCIe switch. Others are chosen by the tree of
devices (`device_groups`).

A node that publishes no Device resource has devices that only its kubelet knows; nothing is given
away there, and nothing is refused. Templates of shared GPUs are not read: a pod that wants one is
placed as one that does not.

Where virtual machines share the switches between GPUs (NVIDIA Fabric Manager), only certain sets of
GPUs can be linked. Koordinator's Device lists them, each with a score: how good the rest of the
node is once the set is gone (proposal 20241008-gpu-partition-api). Sets of the highest score come
first, and of equal ones the one that leaves the most sets whole, the larger ones first. A table
counts for whole GPUs. A node with the policy ``Honor`` and a pod that asks for a partition get
nothing else; otherwise sets of the table are preferred.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator.devices import GPU, GPU_MEMORY_RATIO, WHOLE_DEVICE
from numakube.kubelet.device_pairs import WITHIN
from numakube.kubelet.machine import Closeness
from numakube_placement.koordinator.device_groups import (
    Left,
    Want,
    in_scope,
    pcie_of,
    selections,
    wants_of,
)
from numakube_placement.koordinator.joint_devices import closeness_of, together
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.topology.allotments import HeldDevice
    from numakube.values.numamask import NumaMask
    from numakube_placement.koordinator.node_facts import DevicePlace, GpuPartition, NodeFacts
    from numakube_placement.koordinator.node_ledger import NodeLedger
    from numakube_placement.koordinator.pod_wish import DeviceWish


def ways_to_take(
    want: Want,
    offers: Sequence[Left],
    near: Sequence[Left],
    left: Sequence[Left],
    facts: NodeFacts,
    wish: DeviceWish,
) -> Iterator[list[Left]]:
    """Yield ways to take what is wanted from *offers*, the best first.

    Args:
        want: what is wanted.
        offers: devices that have what is wanted of one.
        near: every device on the NUMA nodes in question.
        left: every device of the node.
        facts: the partitions of the node.
        wish: what the pod asks of partitions.
    """
    if takes_whole_gpus(want):
        yield from _partitions(want, offers, left, facts, wish)
    if not (takes_whole_gpus(want) and must_be_partition(facts, wish)):
        yield from selections(want, offers, near)


def takes_whole_gpus(want: Want) -> bool:
    """Tell whether partitions matter for *want*."""
    return want.type == GPU and want.each.get(GPU_MEMORY_RATIO) == WHOLE_DEVICE


def must_be_partition(facts: NodeFacts, wish: DeviceWish) -> bool:
    """Tell whether whole GPUs are given as a partition or not at all."""
    return facts.honors_partitions or wish.partition is not None


def partition_refusal(want: Want, facts: NodeFacts, container: str) -> PlacementRefusal:
    """Return why no partition will do, which must."""
    sizes = {len(partition.minors) for partition in facts.gpu_partitions}
    why, detail = Why.PARTITIONS, f"no partition of {want.count} is free and good enough"
    if not sizes:
        why, detail = Why.NO_PARTITIONS, "its Device lists no partitions"
    elif want.count not in sizes:
        listed = ", ".join(map(str, sorted(sizes)))
        why, detail = Why.PARTITION_SIZE, f"{want.count} wanted; partitions have {listed}"
    return PlacementRefusal(why=why, container=container, resource=GPU, detail=detail)


def _partitions(
    want: Want, offers: Sequence[Left], left: Sequence[Left], facts: NodeFacts, wish: DeviceWish
) -> Iterator[list[Left]]:
    """Yield the GPUs of partitions that are free, the best partition first."""
    free = {offer.place.minor: offer for offer in offers if not offer.in_use}
    used = frozenset(one.place.minor for one in left if one.place.type == GPU and one.in_use)
    sized = [partition for partition in facts.gpu_partitions if len(partition.minors) == want.count]
    asked = wish.partition
    if asked is not None and asked.restricted:
        best = max((partition.score for partition in sized), default=0)
        sized = [partition for partition in sized if partition.score == best]
    bandwidth = asked.bandwidth if asked is not None else 0
    fitting = [
        partition
        for partition in sized
        if partition.minors <= free.keys() and partition.bandwidth >= bandwidth
    ]
    larger = [
        partition for partition in facts.gpu_partitions if len(partition.minors) >= want.count
    ]
    fitting.sort(key=lambda one: (-one.score, _spoiled(one.minors | used, larger)))
    for partition in fitting:
        chosen = [free[minor] for minor in sorted(partition.minors)]
        if in_scope(want, chosen):
            yield chosen


def _spoiled(taken: frozenset[int], partitions: Sequence[GpuPartition]) -> tuple[int, ...]:
    """Return how many *partitions* could not be given any more, the largest ones first."""
    sizes = sorted({len(partition.minors) for partition in partitions}, reverse=True)
    return tuple(
        sum(
            len(partition.minors) == size and not taken.isdisjoint(partition.minors)
            for partition in partitions
        )
        for size in sizes
    )


_PAIR: Final = 2


def allot_devices(
    ledger: NodeLedger,
    wish: DeviceWish,
    *,
    mask: NumaMask | None,
    container: str = "",
    taken: Sequence[HeldDevice] = (),
) -> tuple[HeldDevice, ...] | PlacementRefusal:
    """Return the devices that *wish* gets, or why it gets none.

    Args:
        ledger: what pods hold of the node.
        wish: what is wanted.
        mask: the NUMA nodes whose devices may be taken; ``None`` for all. Devices that are close to
            no NUMA node in particular may always be.
        container: whose part of the wish; empty for the pod as a whole.
        taken: what containers before it have been given in the same trial.
    """
    if not ledger.facts.devices and wish.closeness is None:
        return ()
    wants = _wants(ledger, wish, container)
    if isinstance(wants, PlacementRefusal):
        return wants
    given = _allot(wants, wish, _left(ledger, taken), ledger.facts, mask, container)
    if isinstance(given, PlacementRefusal):
        return given
    return _too_far(ledger, wish, given, taken, container) or given


def _wants(
    ledger: NodeLedger, wish: DeviceWish, container: str
) -> tuple[Want, ...] | PlacementRefusal:
    requests = wish.by_container.get(container, {}) if container else wish.requests
    return wants_of(wish, requests, ledger.facts.devices)


def _left(ledger: NodeLedger, taken: Iterable[HeldDevice]) -> list[Left]:
    left = {
        (free.place.type, free.place.minor): Left(
            place=free.place, amounts=free.left, vfs=free.vfs, in_use=free.in_use
        )
        for free in ledger.free_devices
    }
    for held in taken:
        key = (held.type, held.minor)
        if key in left:
            left[key] = left[key].less(held)
    return list(left.values())


def _allot(
    wants: Sequence[Want],
    wish: DeviceWish,
    left: Sequence[Left],
    facts: NodeFacts,
    mask: NumaMask | None,
    container: str,
) -> tuple[HeldDevice, ...] | PlacementRefusal:
    near = [one for one in left if _is_within(one, mask)]
    offers = {want.type: _offers(want, near) for want in wants}
    for want in wants:
        if len(offers[want.type]) < want.count:
            return _too_few(want, near, offers[want.type], container)
    ways = partial(ways_to_take, near=near, left=left, facts=facts, wish=wish)
    for want in wants if must_be_partition(facts, wish) else ():
        if takes_whole_gpus(want) and next(ways(want, offers[want.type]), None) is None:
            return partition_refusal(want, facts, container)
    joint = [want for want in wants if want.type in wish.joint]
    given: list[HeldDevice] = []
    if len(joint) > 1:
        freely = not (takes_whole_gpus(joint[0]) and must_be_partition(facts, wish))
        chosen = together(joint, offers, ways, strictly=wish.same_pcie, freely=freely)
        if chosen is None:
            return _not_together(joint, container, strictly=wish.same_pcie)
        given += (device.given(want) for want, devices in chosen for device in devices)
        wants = [want for want in wants if want not in joint]
    for want in wants:
        alone = next(ways(want, offers[want.type]), None)
        if alone is None:
            return _not_in_scope(want, container)
        given += (one.given(want) for one in alone)
    return tuple(given)


def _is_within(one: Left, mask: NumaMask | None) -> bool:
    numa = one.place.numa
    return mask is None or numa is None or bool(mask >> numa & 1)


def _offers(want: Want, left: Sequence[Left]) -> list[Left]:
    offers = [one for one in left if one.offers(want)]
    if not want.alone_on_pcie:
        return offers
    used = {pcie_of(one.place) for one in left if one.in_use and one.place.type == want.type}
    return [offer for offer in offers if pcie_of(offer.place) not in used]


def _too_few(
    want: Want, near: Sequence[Left], offers: Sequence[Left], container: str
) -> PlacementRefusal:
    there = [one for one in near if one.place.type == want.type]
    ill = sum(not one.place.healthy for one in there)
    detail = f"{want.count} wanted, {len(offers)} of {len(there)} available"
    detail += f"; {ill} not healthy" if ill else ""
    return PlacementRefusal(why=Why.DEVICES, container=container, resource=want.type, detail=detail)


def _not_in_scope(want: Want, container: str) -> PlacementRefusal:
    detail = f"no {want.scope} has {want.count} of them to give"
    return PlacementRefusal(why=Why.DEVICES, container=container, resource=want.type, detail=detail)


def _too_far(
    ledger: NodeLedger,
    wish: DeviceWish,
    given: Sequence[HeldDevice],
    taken: Sequence[HeldDevice],
    container: str,
) -> PlacementRefusal | None:
    """Refuse devices that are farther apart than the pod allows.

    Where each container has devices of one type, those of all containers are paired.
    """
    if wish.closeness is None:
        return None
    alone = container and all(len(types) < _PAIR for types in wish.by_container.values())
    groups = _by_type(ledger, (*given, *taken) if alone else given)
    level = closeness_of(list(groups.values())) if len(groups) >= _PAIR else Closeness.SELF
    if level is not None and level <= WITHIN[wish.closeness]:
        return None
    kinds = " and ".join(groups)
    told = (
        f"not known how {kinds} are connected"
        if level is None
        else f"{kinds} would be {level.name}"
    )
    return PlacementRefusal(
        why=Why.CLOSENESS, container=container, detail=f"{wish.closeness}: {told}"
    )


def _by_type(ledger: NodeLedger, given: Iterable[HeldDevice]) -> dict[str, list[DevicePlace]]:
    places = {(place.type, place.minor): place for place in ledger.facts.devices}
    groups: dict[str, list[DevicePlace]] = {}
    for held in given:
        groups.setdefault(held.type, []).append(places[held.type, held.minor])
    return groups


def _not_together(wants: Sequence[Want], container: str, *, strictly: bool) -> PlacementRefusal:
    kinds = " and ".join(want.type for want in wants)
    where = "behind one PCIe switch" if strictly else "as the pod wants them"
    detail = f"{kinds} are not available together {where}"
    return PlacementRefusal(
        why=Why.JOINT_DEVICES, container=container, resource=wants[0].type, detail=detail
    )
