"""GPU partitions: the sets of GPUs that may be given to one pod.

Where virtual machines share the switches between GPUs (NVIDIA Fabric Manager), only certain sets of
GPUs can be linked. Koordinator's Device lists them, each with a score: how good the rest of the
node is once the set is gone (proposal 20241008-gpu-partition-api). Sets of the highest score come
first, and of equal ones the one that leaves the most sets whole, the larger ones first.

A table counts for whole GPUs. A node with the policy ``Honor`` and a pod that asks for a partition
get nothing else; otherwise sets of the table are preferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.koordinator.devices import GPU, GPU_MEMORY_RATIO
from numakube.koordinator.device_resources import WHOLE_DEVICE
from numakube.koordinator.devices.device_groups import in_scope, selections
from numakube.koordinator.placement_refusals import Refusal, Why

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.koordinator.devices.device_groups import Left
    from numakube.koordinator.devices.wanted_devices import Want
    from numakube.koordinator.node.node_facts import GpuPartition, NodeFacts
    from numakube.koordinator.wish.pod_wish import DeviceWish


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


def partition_refusal(want: Want, facts: NodeFacts, container: str) -> Refusal:
    """Return why no partition will do, which must."""
    sizes = {len(one.minors) for one in facts.gpu_partitions}
    why, detail = Why.PARTITIONS, f"no partition of {want.count} is free and good enough"
    if not sizes:
        why, detail = Why.NO_PARTITIONS, "its Device lists no partitions"
    elif want.count not in sizes:
        listed = ", ".join(map(str, sorted(sizes)))
        why, detail = Why.PARTITION_SIZE, f"{want.count} wanted; partitions have {listed}"
    return Refusal(why=why, container=container, resource=GPU, detail=detail)


def _partitions(
    want: Want, offers: Sequence[Left], left: Sequence[Left], facts: NodeFacts, wish: DeviceWish
) -> Iterator[list[Left]]:
    """Yield the GPUs of partitions that are free, the best partition first."""
    free = {one.place.minor: one for one in offers if not one.in_use}
    used = frozenset(one.place.minor for one in left if one.place.type == GPU and one.in_use)
    sized = [one for one in facts.gpu_partitions if len(one.minors) == want.count]
    asked = wish.partition
    if asked is not None and asked.restricted:
        best = max((one.score for one in sized), default=0)
        sized = [one for one in sized if one.score == best]
    bandwidth = asked.bandwidth if asked is not None else 0
    fitting = [one for one in sized if one.minors <= free.keys() and one.bandwidth >= bandwidth]
    larger = [one for one in facts.gpu_partitions if len(one.minors) >= want.count]
    fitting.sort(key=lambda one: (-one.score, _spoiled(one.minors | used, larger)))
    for partition in fitting:
        chosen = [free[minor] for minor in sorted(partition.minors)]
        if in_scope(want, chosen):
            yield chosen


def _spoiled(taken: frozenset[int], partitions: Sequence[GpuPartition]) -> tuple[int, ...]:
    """Return how many *partitions* could not be given any more, the largest ones first."""
    sizes = sorted({len(one.minors) for one in partitions}, reverse=True)
    return tuple(
        sum(len(one.minors) == size and not taken.isdisjoint(one.minors) for one in partitions)
        for size in sizes
    )
