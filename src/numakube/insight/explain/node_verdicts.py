"""What every plugin says of a pod on every node, and who holds the zones there.

A cycle stops at the first node that stands up to the final check. An explanation asks all of them,
up to a limit, so that it can say who else would do and who only looks as if.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.insight.explain.explanation_document import Holder
from numakube.insight.planned_pods import texts_of
from numakube.scheduling.cycle import Attempt
from numakube.scheduling.framework.status import Code, Status
from numakube.scheduling.numa.alignment_refusal import (
    AlignmentRefusal,
    AlignmentRefusalGroup,
    closeness,
)
from numakube.scheduling.numa.caches.counts_belief import holdings_of, use_in_report
from numakube.scheduling.numa.caches.known_pods import KnownPods
from numakube.scheduling.numa.caches.latest_reports import LatestReports
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.topology_match import NodeResourceTopologyMatch
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.snapshot.zone_belief import KubeletRejection
from numakube.topology.exact_report import uid_hash
from numakube.topology.topology_view import NodeTopology
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.framework.status import Diagnosis
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts


MOST_CONFIRMED: Final = 256
"""Nodes whose kubelet models are asked, once one has said yes."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """Nodes that gave the same refusal, the closest to fitting first.

    Attributes:
        own: the refusal of single nodes with their own numbers, where those are known.
    """

    status: Status
    nodes: tuple[str, ...]
    own: Mapping[str, str] = field(default_factory=dict)

    @property
    def refusal(self) -> AlignmentRefusal | None:
        """What the NUMA plugin said of the closest node, if it was the one that refused."""
        return alignment_refusal_in(self.status)

    @property
    def eviction_helps(self) -> bool:
        """Whether evicting pods may make room there."""
        return self.status.code is Code.UNSCHEDULABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the scheduler says of one pod.

    Attributes:
        held: why the pod is not tried at all.
        fitting: nodes that stood up to all checks, best first.
        unchecked: nodes that passed the filters, and were not asked for the final word.
        refusals: the others, group by group; the largest group first.
        nomination: where room would be made, and by evicting whom.
    """

    pod: PodInfo
    total: int
    held: Status | None = None
    fitting: tuple[str, ...] = ()
    unchecked: int = 0
    refusals: tuple[Refusals, ...] = ()
    nomination: Nomination | None = None
    scores: dict[str, int] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Whether the pod would be placed."""
        return bool(self.fitting)

    def refusal_of(self, node: str) -> Status | None:
        """Return why *node* refused; ``None`` if it did not."""
        return next((refusal.status for refusal in self.refusals if node in refusal.nodes), None)


def judge(
    engine: Engine, runtime: Runtime, pod: PodInfo, *, most: int = MOST_CONFIRMED
) -> Judgement:
    """Return what the scheduler would decide about *pod*, and what of each node.

    Once a kubelet model has said yes, at most *most* are asked.
    """
    total = len(engine.cluster.row_of)
    held = runtime.pre_enqueue(pod)
    if not held.ok:
        return Judgement(pod=pod, total=total, held=held)
    attempt = Attempt(runtime, pod, engine.cluster.snapshot(), engine.nominations)
    rows = attempt.feasible_rows()
    ranked, scores = _ranked(attempt, rows)
    fitting, unchecked = _confirmed(attempt, ranked, most)
    nomination = None if fitting else attempt.refuse().nomination
    names = [node.name if node else "" for node in attempt.snapshot.by_row]
    return Judgement(
        pod=pod,
        total=total,
        fitting=tuple(names[row] for row in fitting),
        unchecked=unchecked,
        refusals=_grouped(engine, runtime, attempt.diagnosis, names, pod),
        nomination=nomination,
        scores={names[row]: scores[row] for row in fitting},
    )


def _ranked(attempt: Attempt, rows: Rows) -> tuple[list[int], dict[int, int]]:
    """Return the feasible *rows* from the best downwards, the first of equals first."""
    if len(rows) < 2:
        return [int(row) for row in rows], {int(row): 0 for row in rows}
    scores = attempt.runtime.score(attempt.state, attempt.pod, attempt.snapshot, rows)
    if isinstance(scores, Status):
        return [int(row) for row in rows], dict.fromkeys(map(int, rows), 0)
    order = np.argsort(-scores.total, kind="stable")
    by_row = {int(rows[at]): int(scores.total[at]) for at in order}
    return list(by_row), by_row


def _confirmed(attempt: Attempt, ranked: list[int], most: int) -> tuple[list[int], int]:
    found: list[int] = []
    for position, row in enumerate(ranked):
        if found and position >= most:
            return found, len(ranked) - position
        if attempt.confirms(np.array([row], dtype=np.intp)):
            found.append(row)
    return found, 0


def _grouped(
    engine: Engine, runtime: Runtime, diagnosis: Diagnosis, names: list[str], pod: PodInfo
) -> tuple[Refusals, ...]:
    groups: dict[object, tuple[Status, list[str]]] = {}
    if diagnosis.pre_filter is not None:
        every = [name for name in names if name]
        return (Refusals(diagnosis.pre_filter, tuple(every)),)
    for rows, status in diagnosis.groups():
        refusal = alignment_refusal_in(status)
        key = refusal.key if refusal is not None else (status.plugin, status.reasons)
        known = groups.setdefault(key, (status, []))
        known[1].extend(names[row] for row in rows)
    found = [_nearest_first(engine, runtime, *group, pod) for group in groups.values()]
    return tuple(sorted(found, key=lambda one: -len(one.nodes)))


def _nearest_first(
    engine: Engine, runtime: Runtime, status: Status, nodes: list[str], pod: PodInfo
) -> Refusals:
    if alignment_refusal_in(status) is None and status.plugin != NodeResourcesFit.name:
        return Refusals(status, tuple(sorted(nodes)))
    lacking: dict[str, float] = {}
    own: dict[str, str] = {}
    for name in nodes:
        node = engine.cluster.node(name)
        if node is None:
            continue
        counted = counted_refusal(runtime, pod, node)
        lacking[name] = _lack(pod, node, counted)
        if counted is not None and alignment_refusal_in(status) is not None:
            own[name] = counted.message
    ordered = sorted(lacking, key=lambda name: (lacking[name], name))
    return Refusals(status, tuple(ordered), own)


def _lack(pod: PodInfo, node: NodeInfo, counted: AlignmentRefusal | None) -> float:
    """Return which part of what the pod wants *node* lacks, at least."""
    short = 0.0 if counted is None else closeness(counted)
    for resource, wanted in pod.requests.items():
        free = node.allocatable.get(resource, 0) - node.requested.get(resource, 0)
        short += max(0, wanted - free) / wanted if wanted else 0.0
    return short


def counted_refusal(runtime: Runtime, pod: PodInfo, node: NodeInfo) -> AlignmentRefusal | None:
    """Return why counts refuse *pod* on *node*; ``None`` if they do not, or in upstream mode."""
    engine = numa_engine(runtime)
    if engine is None:
        return None
    verdict = engine.judge(pod, node)
    return verdict if isinstance(verdict, AlignmentRefusal) else None


def numa_engine(runtime: Runtime) -> NativeEngine | None:
    """Return the engine of native mode, if the profile has it."""
    plugin = runtime.profile.plugins().get(NodeResourceTopologyMatch.name)
    if isinstance(plugin, NodeResourceTopologyMatch) and isinstance(plugin.engine, NativeEngine):
        return plugin.engine
    return None


def alignment_refusal_in(status: Status) -> AlignmentRefusal | None:
    """Return the refusal of the NUMA plugin that *status* carries."""
    detail = status.detail
    return detail.closest if isinstance(detail, AlignmentRefusalGroup) else None


# Who holds what in which zones of a node: from the exact report, or from upstream's vectors.


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
        if pod.uid != but and use is not None and not isinstance(use, KubeletRejection):
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
    report = LatestReports().take(nrt).report
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
