"""What plugins remember during a cycle, and leave to others: annotations, and joint choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from numakube.api.pod_resources import with_claimed
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.numamask import NumaMask

if TYPE_CHECKING:
    from numakube.api.pod import NodeAllocatableResourceClaimStatus
    from numakube.scheduling.snapshot.nodes import NodeInfo


T = TypeVar("T")


class Clonable(Protocol):
    """State that is changed in place while preemption tries things out."""

    def clone(self) -> Clonable:
        """Return an independent copy."""
        ...


@dataclass(frozen=True)  # Python 3.11 cannot call StateKey[T](...) if it has slots too
class StateKey(Generic[T]):
    """Names one plugin's state and tells its type: ``StateKey[Terms]("InterPodAffinity")``."""

    name: str


class CycleState:
    """The states of all plugins in one cycle of one pod."""

    __slots__ = ("_values", "is_one_of_a_kind", "skipped_filters", "skipped_scores")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.skipped_filters: set[str] = set()
        """Plugins whose pre-filter said that they have nothing to do."""
        self.skipped_scores: set[str] = set()
        self.is_one_of_a_kind = False
        """Whether a plugin has found something that other pods with the same spec do not have."""

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep *value* until the end of the cycle."""
        self._values[key.name] = value

    def read(self, key: StateKey[T]) -> T | None:
        """Return what was kept under *key*."""
        return cast("T | None", self._values.get(key.name))

    def clone(self) -> CycleState:
        """Return a copy on which a what-if can be tried; `Clonable` values are copied too."""
        copy = CycleState()
        copy._values = {
            # Asking for the protocol costs ten times as much, for every victim that is tried.
            name: value.clone() if hasattr(value, "clone") else value
            for name, value in self._values.items()
        }
        copy.skipped_filters = set(self.skipped_filters)
        copy.skipped_scores = set(self.skipped_scores)
        copy.is_one_of_a_kind = self.is_one_of_a_kind
        return copy


# ------------------------------------------------------------------------------------------------
# What plugins add to a pod when it is bound: annotations, and what its claims stand for.
#
# A Binding carries them, and the API server writes them in the same step as the node's name: a pod
# is never bound without them, nor has them without being bound. Until the server tells of it, the
# pod is counted on its node as if it had them. So it is with the resources of the node that
# devices of its claims stand for (KEP-5517), which a pre-bind writes into its status.
#
#     def reserve(self, state, pod, node):
#         annotate(state, {"example.org/cpus": "0-3"})

_CLAIMED: Final = StateKey["tuple[NodeAllocatableResourceClaimStatus, ...]"]("binding-claimed")
_LATE: Final = StateKey["Callable[[], Mapping[str, str]]"]("binding-late-annotations")
_ANNOTATIONS: Final = StateKey["dict[str, str]"]("binding-annotations")


def annotate(state: CycleState, annotations: Mapping[str, str]) -> None:
    """Add *annotations* to those that the pod gets when it is bound."""
    known = state.read(_ANNOTATIONS) or {}
    state.write(_ANNOTATIONS, {**known, **annotations})


def annotate_late(state: CycleState, make: Callable[[], Mapping[str, str]]) -> None:
    """Add what *make* returns when the pod is bound, which may be long after its reservation."""
    state.write(_LATE, make)


def annotations_of(state: CycleState) -> Mapping[str, str]:
    """Return what plugins want the pod to have when it is bound."""
    known, late = state.read(_ANNOTATIONS) or {}, state.read(_LATE)
    return known if late is None else {**known, **late()}


def add_claimed(state: CycleState, claimed: tuple[NodeAllocatableResourceClaimStatus, ...]) -> None:
    """Say what devices of the pod's claims stand for."""
    state.write(_CLAIMED, claimed)


def as_bound(state: CycleState, pod: PodInfo) -> PodInfo:
    """Return *pod* as it will be when it is bound; *pod* itself if nothing is added."""
    annotations, claimed = annotations_of(state), state.read(_CLAIMED)
    if claimed:
        pod = PodInfo(with_claimed(pod.pod, claimed))
    return pod.annotated(annotations) if annotations else pod


# ------------------------------------------------------------------------------------------------
# One decision of two plugins: CPUs that the scheduler gives itself, and devices of claims.
#
# NodeNUMAResource chooses the NUMA nodes of a pod where no kubelet does, and DynamicResources the
# devices. Either choice limits the other. So the plugin that has the last word, on devices, asks
# the one that gives CPUs for a choice that both agree to.

Places: TypeAlias = Mapping[str, NumaMask]
"""NUMA nodes by container; an empty name stands for the whole pod."""
Agrees: TypeAlias = Callable[[Places], bool]


@dataclass(frozen=True, slots=True)
class Allotted:
    """Where a pod is put.

    Attributes:
        strict: whether the pod, or its node, wants nothing less than alignment.
    """

    places: Places
    strict: bool


class Allots(Protocol):
    """Gives the pod of a cycle CPUs on nodes whose kubelet does not."""

    def allot(self, node: NodeInfo, agrees: Agrees) -> Allotted | None:
        """Decide where on *node* the pod goes: where *agrees* says yes, if there is such a place.

        Returns:
            ``None`` if it is not the scheduler that decides there.
        """
        ...


ALLOTS: Final = StateKey[Allots]("allots")
