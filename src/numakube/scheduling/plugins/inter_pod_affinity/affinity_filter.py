"""Required affinity and anti-affinity, of the pod and of those that run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable, unschedulable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.plugins.inter_pod_affinity.topology_domains import DomainAmounts
from numakube.scheduling.snapshot.pod_counts import PodQuery, PodSet
from numakube.scheduling.snapshot.pod_terms import NO_LABELS, PodTerm, PodTerms, terms_of
from numakube.scheduling.snapshot.term_counts import TermKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.scheduling.arrays import Mask, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

NOT_NEAR: Final = unresolvable("node(s) didn't match pod affinity rules")
NOT_FAR: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWELCOME: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


@dataclass(slots=True)
class FilterState:
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

    def clone(self) -> FilterState:
        """Return an independent copy."""
        return FilterState(
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


def filter_state(pod: PodInfo, snapshot: Snapshot) -> FilterState:
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
    return FilterState(terms, labels, near, far, unwelcome, alone)


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


def pods_of(term: PodTerm) -> PodSet:
    """Return the pods that a resolved *term* of the pod to place is about.

    kube-scheduler goes on asking the namespace selector after it has listed what it picks, with no
    labels at all. So a selector that no labels satisfy, such as ``DoesNotExist``, picks everything.
    """
    everywhere = term.namespace_selector.matches(NO_LABELS)
    return PodSet(None if everywhere else term.namespaces, term.selector)
