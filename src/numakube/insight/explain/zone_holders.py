"""Who holds what in which zones of a node: from the exact report, or from upstream's vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.insight.explain.container_amounts import texts_of
from numakube.insight.explain.explanation_document import Holder
from numakube.scheduling.numa.caches.known_pods import KnownPods
from numakube.scheduling.numa.caches.latest_reports import Reports
from numakube.scheduling.numa.caches.mispredictions import Refusal
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.reported_placements import holdings_of
from numakube.scheduling.numa.caches.zone_use import use_in_report
from numakube.topology.exact_report import uid_hash
from numakube.topology.topology_view import NodeTopology
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts


def holders_on(facts: ClusterFacts, node: NodeInfo, *, but: str = "") -> tuple[Holder, ...]:
    """Return who holds what on *node*, the largest part first; empty if unknown.

    The pod with the uid *but* is left out.
    """
    exact = isinstance(node.numa, ExactBelief)
    found = list(_exact(node, but) if exact else _placed(facts, node))
    return tuple(sorted(found, key=lambda one: (one.zones, -_size(one), one.pod)))


def _exact(node: NodeInfo, but: str) -> Iterator[Holder]:
    belief = node.numa
    if not isinstance(belief, ExactBelief):
        return
    hidden = uid_hash(but)
    by_hash = {uid_hash(uid): pod for uid, pod in node.pods.items()}
    report = belief.basis.exact
    for hashed, holding in report.pods.items():
        pod = by_hash.get(hashed)
        if hashed != hidden and (pod is not None or hashed in belief.basis.holders()):
            yield from _parts(pod, use_in_report(report, holding), coming=False)
    for pod in belief.basis.incoming:
        use = belief.foreseen.get(pod.uid)
        if pod.uid != but and use is not None and not isinstance(use, Refusal):
            yield from _parts(pod, use, coming=True)


def _parts(
    pod: PodInfo | None, use: Mapping[tuple[int, ...], Mapping[str, int]], *, coming: bool
) -> Iterator[Holder]:
    for zones, amounts in use.items():
        yield Holder(
            pod=pod.key if pod is not None else "a pod that the API server does not know",
            priority=pod.priority if pod is not None else 0,
            zones=zones,
            amounts=texts_of(amounts),
            coming=coming,
        )


def _placed(facts: ClusterFacts, node: NodeInfo) -> Iterator[Holder]:
    """Yield what upstream's vectors tell, which only go with the policy single-numa-node."""
    topology, nrt = facts.view(node.name), facts.topologies.get(node.name)
    if not isinstance(topology, NodeTopology) or nrt is None:
        return
    report = Reports().take(nrt).report
    if report is None:
        return
    ledger = KnownPods()
    for pod in node.pods.values():
        ledger.see(pod)
    for uid, zones in holdings_of(report, ledger.on(node.name)).items():
        pairs = zip(topology.zones, zones, strict=True)
        use: dict[tuple[int, ...], Amounts] = {(zone.id,): held for zone, held in pairs if held}
        yield from _parts(node.pods[uid], use, coming=False)


def _size(holder: Holder) -> float:
    text = holder.amounts.get(CPU, "0")
    return float(text[:-1]) / MILLI_PER_CPU if text.endswith("m") else float(text)
