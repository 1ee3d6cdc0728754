"""What a scheduler gave pods on nodes whose kubelet gives nothing, as if the node had reported it.

A kubelet without managers knows of no pod that has CPUs for itself, so the report of its node shows
them as sharing. What their annotations say is put in, and everything that draws or sums up reports
shows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.koordinator.ledger.allotment_annotations import allotment_of
from numakube.koordinator.ledger.node_ledger import Ledger
from numakube.koordinator.node.read_node import facts_of
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.topology.exact_report import Holding, uid_hash
from numakube.values.cpuset import CpuSet
from numakube.values.resources import is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.koordinator.ledger.holdings import Share
    from numakube.topology.exact_report import ExactReport, UidHash
    from numakube.topology.topology_view import NodeTopology


def allotted_holding(pod: Pod) -> Holding | None:
    """Return what a scheduler gave *pod*; ``None`` if nothing, or nothing that is exclusive."""
    allotment = allotment_of(pod, [])
    holding = holding_of(allotment.total) if allotment is not None else Holding()
    return None if holding.empty else holding


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
    report: ExactReport, pods: Iterable[Pod], *, key: Callable[[str], UidHash] = uid_hash
) -> ExactReport:
    """Return *report* with what a scheduler gave those of *pods* that got nothing else.

    Args:
        report: the state of a node.
        pods: that are on it.
        key: what the report knows a pod by, given its uid.
    """
    held = dict(report.pods)
    for pod in pods:
        known = held.get(key(pod.metadata.uid))
        given = allotted_holding(pod) if known is None or known.empty else None
        if given is not None:
            held[key(pod.metadata.uid)] = given
    return replace(report, pods=held)


def allotted_view(facts: ClusterFacts, view: NodeTopology) -> NodeTopology:
    """Return *view* with what the scheduler can give of each zone, if it is for it to give."""
    node = facts.nodes.get(view.node)
    if node is None or view.policy.aligns or not facts.allots:
        return view
    of_node = facts_of(node, facts.topologies.get(view.node), view, None)
    pods = ((pod.metadata.uid, allotment_of(pod, [])) for pod in facts.pods_on(view.node))
    ledger = Ledger.of(of_node, {uid: given for uid, given in pods if given is not None})
    zones = (
        replace(zone, allocatable=ledger.capacity.totals[zone.id], available=free)
        if (free := ledger.free_zones.get(zone.id)) is not None
        else zone
        for zone in view.zones
    )
    return replace(view, zones=tuple(zones))
