"""A pod with everything that plugins would compute again and again, its affinity terms included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from numakube.api.koordinator.keys import POD_HOLDING
from numakube.api.pod import has_ended
from numakube.api.pod_resources import effective_requests, qos_class
from numakube.api.selectors import Selector, selector_of
from numakube.errors import InvalidValue
from numakube.values.quantity import Quantity
from numakube.values.resources import CPU, MEMORY, is_pod_level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.affinity_and_taints import PodAffinityTerm, WeightedPodAffinityTerm
    from numakube.api.pod import Pod
    from numakube.topology.allotments import Allotment
    from numakube.values.resources import Amounts


T = TypeVar("T")

_NONZERO: Final = {CPU: Quantity.of_milli(100), MEMORY: Quantity.of_bytes(200 * 1024 * 1024)}
"""What kube-scheduler scores a container with that does not ask for anything."""


class PodInfo:
    """A pod as the scheduler sees it; never changed, replaced when the pod changes.

    Attributes:
        key: ``namespace/name``.
        requests: what the pod needs all in all, overhead included, in base units.
        nonzero_cpu_milli: CPU for scoring, where containers without a request count too.
        nonzero_memory_bytes: memory for scoring.
    """

    __slots__ = (
        "_memo",
        "key",
        "labels",
        "name",
        "namespace",
        "nonzero_cpu_milli",
        "nonzero_memory_bytes",
        "pod",
        "priority",
        "requests",
        "uid",
    )

    def __init__(self, pod: Pod) -> None:
        meta = pod.metadata
        self.pod = pod
        self.uid = meta.uid
        self.namespace = meta.namespace
        self.name = meta.name
        self.key = meta.key
        self.labels: Mapping[str, str] = meta.labels
        self.priority = pod.spec.priority or 0
        requests = effective_requests(pod, from_status=True)
        self.requests: Amounts = _amounts(requests)
        scored = self.requests
        if not _asks_for_all(pod):
            scored = _amounts(
                effective_requests(pod, from_status=True, defaults=_defaults(pod, requests))
            )
        self.nonzero_cpu_milli = scored.get(CPU, 0)
        self.nonzero_memory_bytes = scored.get(MEMORY, 0)
        self._memo: dict[object, object] = {}

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @property
    def node_name(self) -> str:
        """The node that the pod is bound to; empty if it waits."""
        return self.pod.spec.node_name

    @property
    def scheduler_name(self) -> str:
        """Who is to schedule the pod."""
        return self.pod.spec.scheduler_name or "default-scheduler"

    @property
    def nominated_node_name(self) -> str:
        """The node on which room is being made for the pod."""
        return self.pod.status.nominated_node_name if self.pod.status else ""

    @property
    def qos_class(self) -> str:
        """``Guaranteed``, ``Burstable`` or ``BestEffort``."""
        return self.memo("qos", qos_class)

    @property
    def has_ended(self) -> bool:
        """Tell whether the pod runs no more and holds nothing, though it still exists."""
        return has_ended(self.pod)

    @property
    def is_being_deleted(self) -> bool:
        """Tell whether the pod is going away."""
        return self.pod.metadata.deletion_timestamp is not None

    def may_hold_less_than(self, before: PodInfo) -> bool:
        """Tell whether others may find room where *before* the pod held more, or held it elsewhere.

        It may have been resized in place, or what a scheduler gave it was changed.
        """
        if any(self.requests.get(name, 0) < amount for name, amount in before.requests.items()):
            return True
        now, then = self.pod.metadata.annotations, before.pod.metadata.annotations
        return any(now.get(key) != then.get(key) for key in POD_HOLDING) if then else False

    def annotated(self, annotations: Mapping[str, str]) -> PodInfo:
        """Return the pod with *annotations* besides its own; nothing else about it changes."""
        own = self.pod.metadata
        metadata = replace(own, annotations={**own.annotations, **annotations})
        return self._as(replace(self.pod, metadata=metadata), {})

    def sibling(self, pod: Pod) -> PodInfo:
        """Return *pod*, which differs by its name, uid, node, claims or state alone.

        What is known is shared.
        """
        return self._as(pod, self._memo)

    def _as(self, pod: Pod, memo: dict[object, object]) -> PodInfo:
        copy = object.__new__(PodInfo)
        for name in PodInfo.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.pod, copy._memo = pod, memo
        copy.uid, copy.name, copy.key = pod.metadata.uid, pod.metadata.name, pod.metadata.key
        return copy

    def memo(self, key: object, make: Callable[[Pod], T]) -> T:
        """Return ``make(pod)``, computed once under *key* for this pod and its replicas.

        *make* must not look at what tells replicas apart: name, uid, node, claims and state.
        """
        # Not by catching a KeyError: whatever *make* raises would be reported as its consequence.
        if key not in self._memo:
            self._memo[key] = make(self.pod)
        return self._memo[key]  # type: ignore[return-value]


def held_by(pod: PodInfo) -> Allotment | None:
    """Return what *pod* holds by a scheduler's decision; ``None`` if its annotations tell none."""
    return pod.memo("allotment", _readable) if pod.pod.metadata.annotations else None


def _readable(pod: Pod) -> Allotment | None:
    # Only here: whoever looks at waiting pods alone does without reports and annexes.
    from numakube.topology.allotments import allotment_of

    try:
        return allotment_of(pod)
    except Exception:
        # It would be raised for every pod that may go to the same node.
        return None


def _asks_for_all(pod: Pod) -> bool:
    """Tell whether every container asks for CPU and memory, so that no default counts."""
    return all(
        container.resources is not None and container.resources.requests.keys() >= _NONZERO.keys()
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    )


def _defaults(pod: Pod, requests: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return what containers count with; nothing that a pod asks for as a whole is made up."""
    level = pod.spec.resources
    if level is None or not any(is_pod_level(name) for name in level.requests):
        return _NONZERO
    return {name: amount for name, amount in _NONZERO.items() if name not in requests}


def _amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    return {
        name: quantity.milli_value() if name == CPU else quantity.value()
        for name, quantity in quantities.items()
    }


# ------------------------------------------------------------------------------------------------
# Pod affinity terms: whom a pod wants near or far, in a form that can be compared and counted.
#
# The namespaces of a term are those it lists and those its namespace selector picks, or the pod's
# own if it says neither. Follows k8s.io/kube-scheduler/framework (AffinityTerm), 1.37.

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
        return tuple(_term(namespace, term) for term in terms)
    except InvalidValue as error:
        problems.append(f"{what}: {error.reason or error}")
        return ()


def _preferred(
    namespace: str, terms: Iterable[WeightedPodAffinityTerm], sign: int, problems: list[str]
) -> tuple[tuple[PodTerm, int], ...]:
    try:
        return tuple(
            (_term(namespace, term.pod_affinity_term), sign * term.weight) for term in terms
        )
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
