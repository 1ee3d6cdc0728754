"""Annotations that plugins add to a pod when it is bound.

A Binding carries them, and the API server writes them in the same step as the node's name: a pod is
never bound without them, nor has them without being bound. Until the server tells of it, the pod is
counted on its node as if it had them.

    def reserve(self, state, pod, node):
        annotate(state, {"example.org/cpus": "0-3"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.state import StateKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.state import CycleState
    from numakube.scheduling.snapshot.pods import PodInfo

_ANNOTATIONS: Final = StateKey["dict[str, str]"]("binding-annotations")


def annotate(state: CycleState, annotations: Mapping[str, str]) -> None:
    """Add *annotations* to those that the pod gets when it is bound."""
    state.write(_ANNOTATIONS, {**annotations_of(state), **annotations})


def annotations_of(state: CycleState) -> Mapping[str, str]:
    """Return what plugins want the pod to have when it is bound."""
    return state.read(_ANNOTATIONS) or {}


def as_bound(state: CycleState, pod: PodInfo) -> PodInfo:
    """Return *pod* as it will be when it is bound; *pod* itself if nothing is added."""
    annotations = annotations_of(state)
    return pod.annotated(annotations) if annotations else pod
