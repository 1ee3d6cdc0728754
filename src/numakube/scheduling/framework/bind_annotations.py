"""What plugins add to a pod when it is bound: annotations, and what its claims stand for.

A Binding carries them, and the API server writes them in the same step as the node's name: a pod is
never bound without them, nor has them without being bound. Until the server tells of it, the pod is
counted on its node as if it had them. So it is with the resources of the node that devices of its
claims stand for (KEP-5517), which a pre-bind writes into its status.

    def reserve(self, state, pod, node):
        annotate(state, {"example.org/cpus": "0-3"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pod_resources import with_claimed
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.api.pod import NodeAllocatableResourceClaimStatus
    from numakube.scheduling.framework.cycle_state import CycleState

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
