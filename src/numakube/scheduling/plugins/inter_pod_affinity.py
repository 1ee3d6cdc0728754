"""InterPodAffinity: places pods near or far from other pods, within topology domains.

Required terms of the pod and required anti-affinity of the pods that run filter; preferences of
both, and required affinity of those that run, score. Follows kube-scheduler 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.plugins.plugin_arguments import InterPodAffinityArgs, read_args
from numakube.scheduling.snapshot.pod_equivalence import encoded
from numakube.scheduling.snapshot.pod_indexes import PodQuery, PodSelection, TermKind
from numakube.scheduling.snapshot.pods import NO_LABELS, PodTerm, PodTerms, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.node_columns import NodeColumn
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_indexes import Counts
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# Amounts per domain of several topology keys.


class DomainAmounts:
    """For each topology key, an amount for each of its domains."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._columns: dict[str, NodeColumn[str]] = {}
        self._amounts: dict[str, IntArray] = {}

    def clone(self) -> DomainAmounts:
        """Return an independent copy."""
        copy = DomainAmounts(self._snapshot)
        copy._columns = dict(self._columns)
        copy._amounts = {key: amounts.copy() for key, amounts in self._amounts.items()}
        return copy

    @property
    def is_empty(self) -> bool:
        """Tell whether no domain has any."""
        return not any(amounts.any() for amounts in self._amounts.values())

    @property
    def keys(self) -> Iterable[str]:
        """The topology keys."""
        return self._amounts.keys()

    def add_all(self, key: str, amounts: npt.NDArray[np.integer]) -> None:
        """Add *amounts*, which are by row, to the domains that the nodes are in."""
        self._know(key)
        self._amounts[key] += self._columns[key].sums(amounts, self._snapshot.rows)

    def add(self, key: str, node: NodeInfo, amount: int) -> None:
        """Add *amount* to the domain that *node* is in, if it is in one."""
        self._know(key)
        code = self._code(key, node)
        if code is not None:
            self._amounts[key][code] += amount

    def at(self, key: str, node: NodeInfo) -> int:
        """Return the amount of the domain that *node* is in."""
        code = self._code(key, node)
        return 0 if code is None else int(self._amounts[key][code])

    def at_all(self, key: str, rows: Rows) -> IntArray:
        """Return the same for *rows*."""
        amounts: IntArray = np.append(self._amounts[key], 0)[self._columns[key].codes[rows]]
        return amounts

    def lacking(self, key: str, rows: Rows) -> Mask:
        """Return which of *rows* are in no domain."""
        return ~self._columns[key].present(rows)

    def _know(self, key: str) -> None:
        if key not in self._columns:
            column = self._columns[key] = self._snapshot.label(key)
            self._amounts[key] = np.zeros(len(column.values), dtype=np.int64)

    def _code(self, key: str, node: NodeInfo) -> int | None:
        column = self._columns.get(key)
        value = node.labels.get(key)
        return None if column is None or value is None else column.code_of.get(value)


# ------------------------------------------------------------------------------------------------
# Required affinity and anti-affinity, of the pod and of those that run.

NOT_NEAR: Final = unresolvable("node(s) didn't match pod affinity rules")
NOT_FAR: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWELCOME: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


@dataclass(slots=True)
class AffinityFilterState:
    """How many pods there are by domain.

    Attributes:
        terms: the pod's own, with the namespaces that they are about.
        namespace_labels: of the pod's namespace.
        near: pods that match all affinity terms of the pod, by each term's topology key.
        far: pods that match an anti-affinity term of the pod.
        unwelcome: anti-affinity terms of running pods that are about the pod.
        alone: whether the pod would satisfy its own affinity, and so may be the first.
    """

    terms: PodTerms
    namespace_labels: Mapping[str, str]
    near: DomainAmounts
    far: DomainAmounts
    unwelcome: DomainAmounts
    alone: bool

    @property
    def is_idle(self) -> bool:
        """Tell whether there is nothing to filter."""
        return not self.terms.affinity and not self.terms.anti_affinity and self.unwelcome.is_empty

    def clone(self) -> AffinityFilterState:
        """Return an independent copy."""
        return AffinityFilterState(
            self.terms,
            self.namespace_labels,
            self.near.clone(),
            self.far.clone(),
            self.unwelcome.clone(),
            self.alone,
        )

    def change(self, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """Take into account that *other* comes to *node*, or leaves it."""
        for term in terms_of(other).anti_affinity:
            if term.matches(pod, self.namespace_labels):
                self.unwelcome.add(term.topology_key, node, delta)
        if matches_all(self.terms.affinity, other):
            for term in self.terms.affinity:
                self.near.add(term.topology_key, node, delta)
        for term in self.terms.anti_affinity:
            if term.matches(other, NO_LABELS):
                self.far.add(term.topology_key, node, delta)

    def judge(self, node: NodeInfo) -> Status:
        """Say whether the pod can go to *node*."""
        if not self._is_near(node):
            return NOT_NEAR
        if any(self.far.at(term.topology_key, node) > 0 for term in self.terms.anti_affinity):
            return NOT_FAR
        if any(self.unwelcome.at(key, node) > 0 for key in self.unwelcome.keys):
            return UNWELCOME
        return SUCCESS

    def judge_all(self, rows: Rows) -> Verdicts | None:
        """Say where of *rows* the pod can go."""
        far = np.zeros(len(rows), dtype=np.bool_)
        for term in self.terms.anti_affinity:
            far |= self.far.at_all(term.topology_key, rows) > 0
        unwelcome = np.zeros(len(rows), dtype=np.bool_)
        for key in self.unwelcome.keys:
            unwelcome |= self.unwelcome.at_all(key, rows) > 0
        not_near = self._not_near(rows)
        if not (far.any() or unwelcome.any() or not_near.any()):
            return None
        refusals = [(not_near, NOT_NEAR), (far, NOT_FAR), (unwelcome, UNWELCOME)]
        return Verdicts.first_of(len(rows), refusals)

    def _is_near(self, node: NodeInfo) -> bool:
        keys = [term.topology_key for term in self.terms.affinity]
        if any(key not in node.labels for key in keys):
            return False
        if all(self.near.at(key, node) > 0 for key in keys):
            return True
        return self._may_be_first()

    def _not_near(self, rows: Rows) -> Mask:
        lacking = np.zeros(len(rows), dtype=np.bool_)
        lonely = np.zeros(len(rows), dtype=np.bool_)
        for term in self.terms.affinity:
            lacking |= self.near.lacking(term.topology_key, rows)
            lonely |= self.near.at_all(term.topology_key, rows) <= 0
        if lonely.any() and self._may_be_first():
            return lacking
        both: Mask = lacking | lonely
        return both

    def _may_be_first(self) -> bool:
        return self.alone and self.near.is_empty


def filter_state(pod: PodInfo, snapshot: Snapshot) -> AffinityFilterState:
    """Count the pods of all domains that the terms are about."""
    terms, objects = resolved(terms_of(pod), snapshot.objects), snapshot.objects
    labels = objects.namespace_labels.get(pod.namespace, NO_LABELS)
    near, far, unwelcome = (DomainAmounts(snapshot) for _ in range(3))
    if terms.affinity:
        together = PodQuery(tuple(pods_of(term) for term in terms.affinity))
        counts = snapshot.pods.counts.counts(together)
        for term in terms.affinity:
            near.add_all(term.topology_key, counts)
    for term in terms.anti_affinity:
        counts = snapshot.pods.counts.counts(PodQuery((pods_of(term),)))
        far.add_all(term.topology_key, counts)
    if not snapshot.pods.terms.is_empty:
        for key, sums in snapshot.pods.terms.about(pod, labels).of(TermKind.ANTI_AFFINITY):
            if sums.hits.any():
                unwelcome.add_all(key, sums.hits)
    alone = matches_all(terms.affinity, pod)
    return AffinityFilterState(terms, labels, near, far, unwelcome, alone)


def matches_all(terms: tuple[PodTerm, ...], pod: PodInfo) -> bool:
    """Tell whether *pod* is what each of *terms*, and there is one, is about."""
    return bool(terms) and all(term.matches(pod, NO_LABELS) for term in terms)


def resolved(terms: PodTerms, objects: ClusterObjects) -> PodTerms:
    """Return *terms* with the namespaces that their namespace selectors pick listed by name."""
    return PodTerms(
        affinity=tuple(_resolved(terms.affinity, objects)),
        anti_affinity=tuple(_resolved(terms.anti_affinity, objects)),
        preferred=_weighted(terms.preferred, objects),
        preferred_anti=_weighted(terms.preferred_anti, objects),
    )


def _resolved(terms: Iterable[PodTerm], objects: ClusterObjects) -> Iterable[PodTerm]:
    for term in terms:
        chosen = term.namespace_selector
        if not chosen.requirements:
            yield term
            continue
        picked = {
            name for name, labels in objects.namespace_labels.items() if chosen.matches(labels)
        }
        yield PodTerm(term.namespaces | picked, term.selector, term.topology_key, chosen)


def _weighted(
    terms: tuple[tuple[PodTerm, int], ...], objects: ClusterObjects
) -> tuple[tuple[PodTerm, int], ...]:
    plain = _resolved((term for term, _ in terms), objects)
    return tuple((term, weight) for term, (_, weight) in zip(plain, terms, strict=True))


def pods_of(term: PodTerm) -> PodSelection:
    """Return the pods that a resolved *term* of the pod to place is about.

    kube-scheduler goes on asking the namespace selector after it has listed what it picks, with no
    labels at all. So a selector that no labels satisfy, such as ``DoesNotExist``, picks everything.
    """
    everywhere = term.namespace_selector.matches(NO_LABELS)
    return PodSelection(None if everywhere else term.namespaces, term.selector)


# ------------------------------------------------------------------------------------------------
# The plugin: what it keeps for a cycle, what domains are worth, and when to ask it again.

_FILTER: Final = StateKey[AffinityFilterState]("InterPodAffinity.filter")
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
