"""How a pod ended, whose doing it was, and which are images of static pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.mirrors import MIRROR, SOURCE, mirror_of

from numakube.api.meta import OwnerReference
from numakube.api.pod import (
    Pod,
    PodSpec,
    PodStatus,
    by_kubelet_uid,
    has_ended,
    is_rejected,
    static_uid,
)
from numakube.testing import bound, pod


def ended(phase: str, reason: str, *, node: str = "n1") -> Pod:
    """Return a pod as the API server has it."""
    return Pod(spec=PodSpec(node_name=node), status=PodStatus(phase=phase, reason=reason))


@pytest.mark.parametrize(
    ("phase", "reason", "expected"),
    [
        ("Failed", "TopologyAffinityError", True),
        ("Failed", "Topology Affinity Error", True),
        ("Failed", "UnexpectedAdmissionError", True),
        ("Failed", "SMTAlignmentError", True),
        ("Failed", "OutOfcpu", True),
        ("Failed", "NodeAffinity", True),
        ("Failed", "Preempting", False),
        ("Failed", "Evicted", False),
        ("Failed", "", False),
        ("Succeeded", "TopologyAffinityError", False),
        ("Running", "", False),
    ],
)
def test_a_rejection_is_told_from_other_ends(phase: str, reason: str, *, expected: bool) -> None:
    """A program that fails, or that gives way to another, is not rejected."""
    assert is_rejected(ended(phase, reason)) is expected
    assert not is_rejected(ended(phase, reason, node=""))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [(Pod(), False), (ended("Running", ""), False), (ended("Failed", ""), True),
     (ended("Succeeded", ""), True)],
)  # fmt: skip
def test_a_pod_has_ended_once_all_its_containers_have(pod: Pod, *, expected: bool) -> None:
    """Whether well or not."""
    assert has_ended(pod) is expected


# Only what a kubelet has marked itself is an image of one of its static pods.


def owned(kind: str, name: str, *, controller: bool = True) -> tuple[OwnerReference, ...]:
    """Return an owner."""
    return (OwnerReference(api_version="v1", kind=kind, name=name, uid="u", controller=controller),)


MARKED = {MIRROR: "hash", SOURCE: "file"}


@pytest.mark.parametrize(
    ("metadata", "uid"),
    [
        ({}, "hash"),
        ({"annotations": {**MARKED, SOURCE: "http"}}, "hash"),
        ({"annotations": {**MARKED, SOURCE: "api"}}, None),
        ({"annotations": {MIRROR: "hash"}}, None),
        ({"annotations": {SOURCE: "file"}}, None),
        ({"annotations": {**MARKED, MIRROR: ""}}, None),
        ({"owner_references": ()}, None),
        ({"owner_references": owned("Node", "n2")}, None),
        ({"owner_references": owned("ReplicaSet", "n1")}, None),
        ({"owner_references": owned("Node", "n1", controller=False)}, None),
    ],
)
def test_an_image_has_all_marks_of_its_kubelet(metadata: dict[str, Any], uid: str | None) -> None:
    """Source, owner and the uid itself; anybody can write the annotation alone."""
    assert static_uid(mirror_of(bound(pod("image"), "n1"), "hash", **metadata)) == uid


def test_a_pod_counts_before_an_image_of_it() -> None:
    """In whatever order they are listed; the image is left out, since it is forged."""
    victim, other = bound(pod("victim"), "n1"), bound(pod("other"), "n1")
    forged = mirror_of(bound(pod("forged"), "n1"), "victim")
    for listed in ([victim, other, forged], [forged, other, victim]):
        assert by_kubelet_uid(listed) == {"victim": victim, "other": other}


def test_of_two_images_of_a_static_pod_the_older_counts() -> None:
    """Its kubelet was first: before that nobody knows the uid."""
    image = mirror_of(bound(pod("image"), "n1"), "hash", creation_timestamp="2026-01-01T00:00:00Z")
    forged = mirror_of(
        bound(pod("forged"), "n1"), "hash", creation_timestamp="2026-01-02T00:00:00Z"
    )
    for listed in ([image, forged], [forged, image]):
        assert by_kubelet_uid(listed) == {"hash": image}
