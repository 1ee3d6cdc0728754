"""What pods were given on nodes whose kubelet gives nothing, as if the node had reported it.

A kubelet without managers knows of no pod that has CPUs for itself, so the report of its node shows
them as sharing. What their annotations say, or a driver in the status of their claims, is put in,
and everything that draws or sums up reports shows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.dra.device_ids import DeviceId
from numakube.dra.pod_claims import named_claims
from numakube.errors import InvalidValue
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.topology.allotments import allotment_of, room_on
from numakube.topology.exact_report import Holding, uid_hash
from numakube.values.cpuset import CpuSet
from numakube.values.resources import amount_of, is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.topology.allotments import Share
    from numakube.topology.exact_report import ExactReport, UidHash
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.cpuset import CpuMask


def allotted_holding(pod: Pod) -> Holding | None:
    """Return what a scheduler gave *pod*; ``None`` if nothing, or nothing that is exclusive."""
    allotment = allotment_of(pod)
    holding = holding_of(allotment.total) if allotment is not None else Holding()
    return None if holding.empty else holding


def given_holding(facts: ClusterFacts, pod: Pod) -> Holding | None:
    """Return what a scheduler gave *pod*, or its claims; ``None`` if nothing that is exclusive."""
    return allotted_holding(pod) or claimed_holding(facts, pod)


def claimed_holding(facts: ClusterFacts, pod: Pod) -> Holding | None:
    """Return the CPUs and memory that *pod* has by claims that are its own.

    Drivers say in a claim's status which CPUs it has (``devices[].data.cpus``). What several pods
    share belongs to none of them alone.
    """
    parts = {
        device.id: device
        for device in (facts.dra_devices(pod.spec.node_name) if pod.spec.resource_claims else ())
        if device.part_of
    }
    cpus = CpuSet().mask
    memory: list[MemoryBlock] = []
    for _, name in named_claims(pod):
        claim = facts.objects.resource_claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is None or [user.uid for user in claim.status.reserved_for] != [pod.metadata.uid]:
            continue
        for told in claim.status.devices:
            cpus |= _told_cpus(told.data)
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            part = parts.get(DeviceId(result.driver, result.pool, result.device))
            if part is not None and is_memory(part.part_of) and part.zones:
                amounts = result.consumed_capacity.values()
                total = sum(amount_of(part.part_of, str(amount)) for amount in amounts)
                memory.append(MemoryBlock(part.zones, part.part_of, total))
    holding = Holding(cpus=CpuSet(cpus), memory=tuple(memory))
    return None if holding.empty else holding


def _told_cpus(data: object) -> CpuMask:
    """Return the CPUs in what a driver says of a device; none if it says nothing of them."""
    text = data.get("cpus") if isinstance(data, dict) else None
    try:
        return CpuSet.parse(text).mask if isinstance(text, str) else CpuSet().mask
    except InvalidValue:
        return CpuSet().mask


def holding_of(share: Share) -> Holding:
    """Return *share* as reports have it, without devices, which they know by other names."""
    return Holding(
        cpus=CpuSet(share.cpus),
        memory=tuple(
            MemoryBlock((zone,), name, amount)
            for zone, amounts in sorted(share.zones.items())
            for name, amount in sorted(amounts.items())
            if is_memory(name)
        ),
    )


def with_allotments(
    report: ExactReport,
    pods: Iterable[Pod],
    *,
    key: Callable[[str], UidHash] = uid_hash,
    given: Callable[[Pod], Holding | None] = allotted_holding,
) -> ExactReport:
    """Return *report* with what a scheduler gave those of *pods* that got nothing else.

    Args:
        report: the state of a node.
        pods: that are on it.
        key: what the report knows a pod by, given its uid.
        given: tells what a pod was given, if not by a scheduler's annotation alone.
    """
    held = dict(report.pods)
    for pod in pods:
        known = held.get(key(pod.metadata.uid))
        holding = given(pod) if known is None or known.empty else None
        if holding is not None:
            held[key(pod.metadata.uid)] = holding
    return replace(report, pods=held)


def allotted_view(facts: ClusterFacts, view: NodeTopology) -> NodeTopology:
    """Return *view* with what the scheduler can give of each zone, if it is for it to give."""
    node = facts.nodes.get(view.node)
    if node is None or not facts.allots:
        return view
    return with_free_zones(view, node, facts.topologies.get(view.node), facts.pods_on(view.node))


def with_free_zones(
    view: NodeTopology, node: Node, report: NodeResourceTopology | None, pods: Iterable[Pod]
) -> NodeTopology:
    """Return *view* with what a scheduler has left to give of each zone of *node*.

    Args:
        view: what the report says; where the kubelet aligns pods it stays as it is.
        node: the node, where a scheduler gives out NUMA nodes.
        report: its report as an object.
        pods: those on the node that have not ended.
    """
    if view.policy.aligns:
        return view
    given = ((pod.metadata.uid, allotment_of(pod)) for pod in pods)
    held = {uid: allotment for uid, allotment in given if allotment is not None}
    rooms = room_on(node, report, view, held)
    zones = (
        replace(zone, allocatable=room.total, available=room.free)
        if (room := rooms.get(zone.id)) is not None
        else zone
        for zone in view.zones
    )
    return replace(view, zones=tuple(zones))
