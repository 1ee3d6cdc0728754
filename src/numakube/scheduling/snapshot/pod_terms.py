"""Pod affinity terms: whom a pod wants near or far, in a form that can be compared and counted.

The namespaces of a term are those it lists and those its namespace selector picks, or the pod's own
if it says neither. Follows k8s.io/kube-scheduler/framework (AffinityTerm), 1.35.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.selectors import Selector, selector_of
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.affinity_and_taints import PodAffinityTerm, WeightedPodAffinityTerm
    from numakube.api.pod import Pod
    from numakube.scheduling.snapshot.pods import PodInfo

NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods with certain labels in certain namespaces, counted within domains of one topology.

    Attributes:
        namespaces: those that are listed, or the pod's own.
        namespace_selector: further namespaces, by their labels.
    """

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector

    def matches(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> bool:
        """Tell whether *pod*, whose namespace has *namespace_labels*, is meant."""
        here = pod.namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return here and self.selector.matches(pod.labels)


@dataclass(frozen=True, slots=True)
class PodTerms:
    """All terms of a pod; preferences carry their weight, negative for anti-affinity.

    Attributes:
        problem: why a term could not be read; such a term is left out.
    """

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[tuple[PodTerm, int], ...] = ()
    preferred_anti: tuple[tuple[PodTerm, int], ...] = ()
    problem: str = ""

    @property
    def preferences(self) -> tuple[tuple[PodTerm, int], ...]:
        """Preferences of both kinds."""
        return (*self.preferred, *self.preferred_anti)


NO_TERMS: Final = PodTerms()


def terms_of(pod: PodInfo) -> PodTerms:
    """Return the terms of *pod*."""
    if pod.pod.spec.affinity is None:
        return NO_TERMS
    return pod.memo("pod-terms", _terms)


def _terms(pod: Pod) -> PodTerms:
    affinity = pod.spec.affinity
    near = affinity.pod_affinity if affinity else None
    far = affinity.pod_anti_affinity if affinity else None
    if near is None and far is None:
        return NO_TERMS
    namespace, problems = pod.metadata.namespace, list[str]()
    return PodTerms(
        affinity=_required("required affinity", namespace, near.required if near else (), problems),
        anti_affinity=_required(
            "required anti-affinity", namespace, far.required if far else (), problems
        ),
        preferred=_preferred(namespace, near.preferred if near else (), 1, problems),
        preferred_anti=_preferred(namespace, far.preferred if far else (), -1, problems),
        problem="; ".join(problems),
    )


def _required(
    what: str, namespace: str, terms: Iterable[PodAffinityTerm], problems: list[str]
) -> tuple[PodTerm, ...]:
    try:
        return tuple(_term(namespace, one) for one in terms)
    except InvalidValue as error:
        problems.append(f"{what}: {error.reason or error}")
        return ()


def _preferred(
    namespace: str, terms: Iterable[WeightedPodAffinityTerm], sign: int, problems: list[str]
) -> tuple[tuple[PodTerm, int], ...]:
    try:
        return tuple((_term(namespace, one.pod_affinity_term), sign * one.weight) for one in terms)
    except InvalidValue as error:
        problems.append(f"preferred affinity: {error.reason or error}")
        return ()


def _term(namespace: str, term: PodAffinityTerm) -> PodTerm:
    own = not term.namespaces and term.namespace_selector is None
    return PodTerm(
        namespaces=frozenset({namespace}) if own else frozenset(term.namespaces),
        selector=selector_of(term.label_selector),
        topology_key=term.topology_key,
        namespace_selector=selector_of(term.namespace_selector),
    )
