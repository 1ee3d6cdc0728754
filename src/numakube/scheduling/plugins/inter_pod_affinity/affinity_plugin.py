"""The plugin: what it keeps for a cycle, what domains are worth, and when to ask it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Filter,
    NormalizesScores,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status, failure, unresolvable
from numakube.scheduling.plugins.inter_pod_affinity.affinity_filter import (
    FilterState,
    filter_state,
    matches_all,
    pods_of,
    resolved,
)
from numakube.scheduling.plugins.inter_pod_affinity.topology_domains import DomainAmounts
from numakube.scheduling.plugins.plugin_arguments import InterPodAffinityArgs, read_args
from numakube.scheduling.snapshot.pod_counts import PodQuery
from numakube.scheduling.snapshot.pod_equivalence import encoded
from numakube.scheduling.snapshot.pod_terms import NO_LABELS, terms_of
from numakube.scheduling.snapshot.term_counts import TermKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.verdicts import Verdicts
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_counts import Counts
    from numakube.scheduling.snapshot.pods import PodInfo

_FILTER: Final = StateKey[FilterState]("InterPodAffinity.filter")
_SCORE: Final = StateKey[DomainAmounts]("InterPodAffinity.score")


class InterPodAffinity(
    PreFilter, Filter, VectorFilter, PreScore, Score, VectorScore, NormalizesScores
):
    """Places pods near to or far from others."""

    name = "InterPodAffinity"
    wakes_on = (
        EventKind.POD_ADDED
        | EventKind.POD_UPDATED
        | EventKind.POD_DELETED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.NAMESPACE_CHANGED
    )

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        self.args = args or InterPodAffinityArgs()

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> InterPodAffinity:
        """Return the plugin for *args* as they stand in a configuration."""
        return cls(read_args(InterPodAffinityArgs, args))

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Count pods by domain; skip a pod that no required term is of or about."""
        terms = terms_of(pod)
        if terms.problem:
            return PreFilterResult(unresolvable(f"parsing pod: {terms.problem}"))
        if not terms.affinity and not terms.anti_affinity and snapshot.pods.terms.is_empty:
            return PreFilterResult(SKIP)
        known = filter_state(pod, snapshot)
        if known.is_idle:
            return PreFilterResult(SKIP)
        state.write(_FILTER, known)
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count one more."""
        known = state.read(_FILTER)
        if known is not None:
            known.change(pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Count one less."""
        known = state.read(_FILTER)
        if known is not None:
            known.change(pod, removed, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node by the pod's terms, then by those of running pods."""
        known = state.read(_FILTER)
        return known.judge(node) if known is not None else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes by the pod's terms, then by those of running pods."""
        known = state.read(_FILTER)
        return known.judge_all(rows) if known is not None else None

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Sum preferences up by domain; skip a pod for which there are none."""
        problem = terms_of(pod).problem
        if problem:
            return failure(f"failed to parse pod: {problem}")
        worth = _preferences(pod, snapshot, self.args)
        if worth is None:
            return SKIP
        state.write(_SCORE, worth)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Add up what the domains of the node are worth."""
        worth = state.read(_SCORE)
        return sum(worth.at(key, node) for key in worth.keys) if worth is not None else 0

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Add up what the domains of the nodes are worth."""
        worth = state.read(_SCORE)
        total = np.zeros(len(rows), dtype=np.int64)
        if worth is not None:
            for key in worth.keys:
                total += worth.at_all(key, rows)
        return total

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Stretch scores so that the worst gets nothing and the best everything."""
        if not len(scores):
            return scores
        least, largest = int(scores.min()), int(scores.max())
        if least == largest:
            return np.zeros_like(scores)
        share = (scores - least).astype(np.float64) / float(largest - least)
        return (float(MAX_NODE_SCORE) * share).astype(np.int64)

    def likeness(self, pod: PodInfo) -> bytes:
        """Whom it wants near and far; its own labels are not looked at."""
        affinity = pod.pod.spec.affinity
        terms = None if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
        return encoded(pod.namespace, terms)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A pod that comes must be wanted near, one that goes far; a node have a topology key."""
        terms = terms_of(pod)
        if event.pod is not None and event.kind is EventKind.POD_ADDED:
            return matches_all(terms.affinity, event.pod) or _selects_namespaces(pod)
        if event.pod is not None and event.kind is EventKind.POD_DELETED:
            return self._freed_by(pod, event.pod)
        if event.node_info is None or event.kind is not EventKind.NODE_ADDED:
            return True
        labels = event.node_info.labels
        return not terms.affinity or any(term.topology_key in labels for term in terms.affinity)

    def _freed_by(self, pod: PodInfo, gone: PodInfo) -> bool:
        if any(term.matches(gone, NO_LABELS) for term in terms_of(pod).anti_affinity):
            return True
        # Its own anti-affinity may have kept the pod away; its namespace's labels are not at hand.
        return bool(terms_of(gone).anti_affinity) or _selects_namespaces(pod)


def _preferences(
    pod: PodInfo, snapshot: Snapshot, args: InterPodAffinityArgs
) -> DomainAmounts | None:
    """Return what each domain is worth, or ``None`` if no term is about anything there is."""
    own = terms_of(pod).preferences
    if args.ignore_preferred_terms_of_existing_pods and not own:
        return None
    worth, found = DomainAmounts(snapshot), False
    if own:
        for term, weight in resolved(terms_of(pod), snapshot.objects).preferences:
            counts = snapshot.pods.counts.counts(PodQuery((pods_of(term),)))
            if _is_there(counts, term.topology_key, snapshot):
                worth.add_all(term.topology_key, counts * weight)
                found = True
    if not snapshot.pods.terms.is_empty:
        found |= _of_running(pod, snapshot, args, worth)
    return worth if found else None


def _of_running(
    pod: PodInfo, snapshot: Snapshot, args: InterPodAffinityArgs, worth: DomainAmounts
) -> bool:
    """Add what running pods prefer; tell whether there was anything."""
    labels = snapshot.objects.namespace_labels.get(pod.namespace, NO_LABELS)
    view = snapshot.pods.terms.about(pod, labels)
    found = False
    for key, sums in view.of(TermKind.PREFERENCE):
        if _is_there(sums.hits, key, snapshot):
            worth.add_all(key, sums.weight)
            found = True
    if args.hard_pod_affinity_weight > 0:
        for key, sums in view.of(TermKind.AFFINITY):
            if _is_there(sums.hits, key, snapshot):
                worth.add_all(key, sums.hits * args.hard_pod_affinity_weight)
                found = True
    return found


def _is_there(counts: Counts, key: str, snapshot: Snapshot) -> bool:
    """Tell whether any pod counted is on a node that has the topology key."""
    rows = np.flatnonzero(counts)
    return bool(len(rows)) and bool(snapshot.label(key).present(rows).any())


def _selects_namespaces(pod: PodInfo) -> bool:
    terms = terms_of(pod)
    return any(
        bool(term.namespace_selector.requirements)
        for term in (*terms.affinity, *terms.anti_affinity)
    )
