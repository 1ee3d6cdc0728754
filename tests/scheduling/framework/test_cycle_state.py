"""Annotations that plugins leave for the moment of binding."""

from __future__ import annotations

from numakube.api.meta import ObjectMeta
from numakube.api.pod import NodeAllocatableResourceClaimStatus, Pod
from numakube.scheduling.framework.cycle_state import (
    CycleState,
    add_claimed,
    annotate,
    annotate_late,
    annotations_of,
    as_bound,
)
from numakube.scheduling.snapshot.pods import PodInfo

POD = PodInfo(Pod(metadata=ObjectMeta(name="p", uid="u", annotations={"own": "1", "other": "2"})))


def test_a_pod_without_any_is_counted_as_it_is() -> None:
    """Nothing is copied for ordinary pods."""
    assert as_bound(CycleState(), POD) is POD


def test_a_pod_is_counted_with_them_from_the_moment_it_is_assumed() -> None:
    """The state of the cluster is then the same as after the server has told of the pod."""
    state = CycleState()
    annotate(state, {"other": "3", "new": "4"})
    bound = as_bound(state, POD)
    assert bound.pod.metadata.annotations == {"own": "1", "other": "3", "new": "4"}
    assert (bound.uid, bound.key, bound.requests) == (POD.uid, POD.key, POD.requests)
    assert POD.pod.metadata.annotations == {"own": "1", "other": "2"}


def test_what_was_computed_from_the_annotations_is_computed_anew() -> None:
    """A memo of the pod as it was says nothing about the pod as it will be."""
    count = POD.memo("count", lambda pod: len(pod.metadata.annotations))
    state = CycleState()
    annotate(state, {"new": "4"})
    assert as_bound(state, POD).memo("count", lambda pod: len(pod.metadata.annotations)) > count


def test_a_what_if_does_not_annotate_the_real_pod() -> None:
    """Copies of the state are independent."""
    state = CycleState()
    annotate(state, {"a": "1"})
    copy = state.clone()
    annotate(copy, {"b": "2"})
    assert annotations_of(state) == {"a": "1"}


def test_a_pod_is_counted_with_what_devices_of_its_claims_stand_for() -> None:
    """Beside its annotations, and not for ever."""
    state = CycleState()
    claimed = (NodeAllocatableResourceClaimStatus(resource_claim_name="c"),)
    add_claimed(state, claimed)
    annotate(state, {"new": "4"})
    bound = as_bound(state, POD)
    assert bound.pod.status is not None
    assert bound.pod.status.node_allocatable_resource_claim_statuses == claimed
    assert bound.pod.metadata.annotations["new"] == "4"
    add_claimed(state, ())
    assert as_bound(state, POD).pod.status is None


def test_what_is_made_late_comes_last() -> None:
    """When the pod is bound, which may be long after."""
    state, made = CycleState(), {"late": "1"}
    annotate(state, {"late": "0", "new": "4"})
    annotate_late(state, lambda: made)
    made["later"] = "2"
    assert annotations_of(state) == {"late": "1", "later": "2", "new": "4"}
