"""Which nodes are alike: what one takes, the other takes too.

Nodes are compared by what changes when pods come: what is requested and what can be given out, how
many pods there are, what is known of the NUMA zones and who holds what in them. Their names do not
matter, nor do labels and taints: those a filter has looked at before. Where something is told that
is not compared here, a node is like no other; that costs time, never the right answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.api.koordinator.keys import NODE_DECIDING, POD_HOLDING
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.model_belief import ExactBelief

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.snapshot.belief import NumaBelief
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.view import NodeTopology


def alike(engine: Engine, nodes: Iterable[NodeInfo]) -> Iterator[list[NodeInfo]]:
    """Yield *nodes* in groups of equals."""
    buckets: dict[object, list[tuple[object, list[NodeInfo]]]] = {}
    for node in nodes:
        known = buckets.setdefault(_amounts(node), [])
        own = _zones(node.numa) if _is_plain(engine, node) else object()
        group = next((members for zones, members in known if zones == own), None)
        if group is None:
            known.append((own, [node]))
        else:
            group.append(node)
    yield from (members for known in buckets.values() for _, members in known)


def _is_plain(engine: Engine, node: NodeInfo) -> bool:
    """Tell whether nothing is known of *node* but its amounts and its kubelet's report."""
    special = any(key in node.node.metadata.annotations for key in NODE_DECIDING)
    holding = any(
        key in pod.pod.metadata.annotations for pod in node.pods.values() for key in POD_HOLDING
    )
    kept = node.name in engine.nominations.nodes()
    return not (special or holding or kept or node.name in engine.cluster.objects.devices)


def _amounts(node: NodeInfo) -> object:
    requested = (item for item in node.requested.items() if item[1])
    free = node.numa.available if node.numa is not None else ()
    return (
        tuple(sorted(node.allocatable.items())),
        tuple(sorted(requested)),
        len(node.pods),
        tuple(tuple(sorted(zone.items())) for zone in free),
    )


def _zones(belief: NumaBelief | None) -> object:
    """Return what is known of the zones besides their amounts, to be compared."""
    if belief is None:
        return None
    if isinstance(belief, ExactBelief) and not belief.basis.differs_from_report:
        return _anonymous(belief.topology), _state(belief.basis.exact), belief.blocked
    if isinstance(belief, CountsBelief):
        return _anonymous(belief.topology), None, belief.blocked
    return object()


def _anonymous(topology: NodeTopology) -> NodeTopology:
    """Return *topology* without what tells one node from another."""
    return replace(
        topology, node="", report=None, fingerprint=None, resource_version="", generation=0
    )


def _state(report: ExactReport) -> tuple[ExactReport, list[str]]:
    """Return *report* with what pods hold, but not which pods."""
    return replace(report, pods={}), sorted(map(repr, report.pods.values()))
