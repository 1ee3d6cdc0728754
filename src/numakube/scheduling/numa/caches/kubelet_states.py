"""What kubelets in one state do with pods that are alike: worked out once for all of them.

Nodes whose reports say the same, and to which pods that are alike have come since, in the same
order, differ in the names of their pods alone. What the model has told of one of them holds for the
others: they need no model of their own until something is asked that was never asked before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.scheduling.numa.caches.since_report import AdmissionStep
from numakube.scheduling.snapshot.pod_equivalence import kubelet_key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numakube.kubelet.admission_outcome import Admitted, Rejected
    from numakube.scheduling.numa.caches.since_report import Step
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.zone_belief import KubeletRejection, ZoneUse
    from numakube.topology.exact_report import ExactReport
    from numakube.values.resources import Amounts

    PerId = Mapping[int, Amounts]
    """Amounts by NUMA id."""

_STATES_KEPT: Final = 4096
_KINDS_KEPT: Final = 16
"""Kinds of pods of which a state remembers what becomes of them."""


class LearntArrival(NamedTuple):
    """What follows when a pod comes.

    Attributes:
        use: what the pod has then, or how it is refused.
        reported: what the model has free in the state of the report.
        free: what it has free when the pod has come.
    """

    use: ZoneUse | KubeletRejection
    reported: PerId
    free: PerId
    after: SharedState


class SharedState:
    """A state that kubelets are in, with what is known of the pods that may come next."""

    __slots__ = ("_arrivals", "_outcomes")

    def __init__(self) -> None:
        self._arrivals: dict[PodKey, LearntArrival] = {}
        self._outcomes: dict[PodKey, Admitted | Rejected] = {}

    def outcome(self, key: PodKey) -> Admitted | Rejected | None:
        """Return what a kubelet in this state does with a pod of that kind, if it is known."""
        return self._outcomes.get(key)

    def arrival(self, key: PodKey) -> LearntArrival | None:
        """Return what follows when a pod of that kind comes, if it is known."""
        return self._arrivals.get(key)

    def learn_outcome(self, key: PodKey, outcome: Admitted | Rejected) -> None:
        """Remember what a kubelet does with pods of that kind."""
        if len(self._outcomes) >= _KINDS_KEPT:
            self._outcomes.clear()
        self._outcomes[key] = outcome

    def learn_arrival(self, key: PodKey, arrival: LearntArrival) -> None:
        """Remember what follows when a pod of that kind comes."""
        if len(self._arrivals) >= _KINDS_KEPT:
            self._arrivals.clear()
        self._arrivals[key] = arrival


class KubeletStates:
    """The states that kubelets are in, by what led to them."""

    def __init__(self) -> None:
        self._reported: dict[Hashable, SharedState] = {}
        self._learned = 0

    def after(self, report: ExactReport, steps: Iterable[Step]) -> SharedState:
        """Return the state to which *steps* lead; one of its own if it is not a known one."""
        state = self._at(report)
        for step in steps:
            arrival = state.arrival(kubelet_key(step.pod)) if type(step) is AdmissionStep else None
            if arrival is None:
                return SharedState()
            state = arrival.after
        return state

    def learn(self, state: SharedState, key: PodKey, arrival: LearntArrival) -> None:
        """Remember what follows when a pod of that kind comes to a kubelet in *state*."""
        self._count()
        state.learn_arrival(key, arrival)

    def _at(self, report: ExactReport) -> SharedState:
        key = _told(report)
        known = self._reported.get(key)
        if known is None:
            self._count()
            known = self._reported[key] = SharedState()
        return known

    def _count(self) -> None:
        """Begin again after so many states; beliefs keep those that they are about."""
        self._learned += 1
        if self._learned > _STATES_KEPT:
            self._reported.clear()
            self._learned = 0


def _told(report: ExactReport) -> Hashable:
    """Return all that a model is made from but the names of pods; they are in order of admission.

    The codec has one machine and one object with settings for equal texts.
    """
    return (
        _SameObject(report.machine),
        _SameObject(report.settings),
        report.kubernetes,
        report.shared_cpus,
        tuple(
            (node, cell.group, cell.assignments, frozenset(cell.reserved.items()))
            for node, cell in report.memory.items()
        ),
        tuple(report.devices.items()),
        tuple(
            (pod.cpus, pod.memory, frozenset(pod.devices.items())) for pod in report.pods.values()
        ),
        (frozenset(report.tree.paths.items()), frozenset(report.tree.links.items())),
        report.tree.dies,
    )


class _SameObject:
    """An object that is compared by identity."""

    __slots__ = ("one",)

    def __init__(self, one: object) -> None:
        self.one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.one is other.one

    def __hash__(self) -> int:
        return id(self.one)
