"""What is believed to be free in the NUMA zones of one node.

Caches (`numakube.scheduling.numa.caches`) make beliefs from reports and reservations; filters and
scores only read them. A belief never changes: a new report or reservation makes a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeGuard

from numakube.kubelet.admission_outcome import Rejected

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.admission_outcome import Admitted
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts

TAKES_A_PLACE: Final = Rejected(
    "TakesAPlace", "would take the place of a pod that waits to be bound"
)
"""What becomes of a pod after which one that waits to be bound would be refused."""


class NumaBelief(Protocol):
    """What a cache believes of one node."""

    @property
    def topology(self) -> NodeTopology | None:
        """The report as we read it, the same object while it lasts; ``None`` if of no use."""
        ...

    @property
    def available(self) -> tuple[Amounts, ...]:
        """What is free in each zone of the topology, in its order, reservations taken off."""
        ...

    @property
    def nrt(self) -> NodeResourceTopology:
        """The report as an object, reservations taken off ``available``: what upstream sees."""
        ...

    @property
    def blocked(self) -> str:
        """Why the node must not be used for now; empty if it may."""
        ...

    def model(self) -> KubeletNode | None:
        """Return the kubelet model in the believed state; ``None`` without exact data.

        It is shared: clone it before admitting anything.
        """
        ...

    def without(self, uids: Iterable[str]) -> NumaBelief:
        """Return what will be believed when those pods are gone; no credit for unknown places."""
        ...


class BeliefChanges(Protocol):
    """Which beliefs of a cache have changed."""

    @property
    def nodes(self) -> Iterable[str]:
        """The nodes whose belief changed."""
        ...

    @property
    def freed(self) -> Iterable[str]:
        """Those on which a waiting pod may fit now."""
        ...


class Believer(Protocol):
    """Knows what is believed of each node."""

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of *node*; ``None`` without a usable report."""
        ...


class Extensible(NumaBelief, Protocol):
    """A belief that can tell what will be when another pod comes."""

    def followed_by(self, pod: PodInfo) -> NumaBelief | None:
        """Return what is believed when *pod* comes next; ``None`` if unknown.

        It comes after all others but those that wait to be bound.
        """
        ...


class ForeseesOutcomes(NumaBelief, Protocol):
    """A belief with a model, which remembers how it took the pod that was asked about last.

    Reserving for that pod next need not ask the model again.
    """

    def outcome_of(self, pod: PodInfo) -> Admitted | Rejected | None:
        """Return what the kubelet will do with *pod* if it comes next; ``None`` without exact data.

        It is `TAKES_A_PLACE` if one that waits to be bound would not fit any more.
        """
        ...

    @property
    def state(self) -> Hashable:
        """Equal for nodes whose kubelets do the same with pods that are alike."""
        ...

    def frame(self) -> KubeletNode | None:
        """Return a model without pods and devices, for what never changes; nobody may change it."""
        ...


def is_extensible(belief: object) -> TypeGuard[Extensible]:
    """Tell whether *belief* is one; a runtime protocol would take a hundred times as long."""
    return hasattr(belief, "followed_by")


def foresees(belief: object) -> TypeGuard[ForeseesOutcomes]:
    """Tell whether *belief* is one, as fast."""
    return hasattr(belief, "outcome_of")
