"""Pods of nodes in the order in which kubelets meet them."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.scheduling.numa.caches.known_pods import (
    KnownPods,
    PodStage,
    blocked_by,
    is_ours,
    scheduled_at,
    stage_of,
)
from numakube.scheduling.snapshot.pods import PodInfo


def pod(uid: str, node: str = "", *, at: str = "", version: str = "", **status: Any) -> PodInfo:
    """A version of a pod; *at* is the second at which it was bound."""
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at or None}
    meta = {"name": uid, "namespace": "d", "uid": uid, "resourceVersion": version}
    tree = {
        "metadata": meta,
        "spec": {"nodeName": node, "schedulerName": "mine"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, bound], **status},
    }
    return PodInfo(convert(Pod, tree))


def uids(pods: KnownPods, node: str = "n") -> list[str]:
    """The pods of a node, in order."""
    assert {one.uid for one in pods.at(node)} == {one.uid for one in pods.on(node)}
    return [one.uid for one in pods.on(node)]


@pytest.mark.parametrize(
    ("status", "stage"),
    [
        ({}, PodStage.BOUND),
        ({"phase": "Pending"}, PodStage.BOUND),
        ({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, PodStage.TAKEN),
        ({"phase": "Running"}, PodStage.TAKEN),
        ({"phase": "Unknown"}, PodStage.TAKEN),
        ({"phase": "Succeeded"}, PodStage.ENDED),
        ({"phase": "Failed", "startTime": "2026-01-01T00:00:00Z"}, PodStage.ENDED),
    ],
)
def test_how_far_a_pod_has_come_is_told_by_its_status(
    status: dict[str, str], stage: PodStage
) -> None:
    """The kubelet sets the start time when it has admitted the pod."""
    assert stage_of(pod("a", "n", **status).pod) is stage
    assert stage_of(convert(Pod, {"metadata": {"name": "a"}})) is PodStage.BOUND


def test_pods_are_met_in_the_order_of_their_bindings() -> None:
    """Then in that of versions, then as they were seen; those that are reserved for come last."""
    pods = KnownPods()
    pods.reserve(pod("reserved"), "n")
    pods.see(pod("late", "n", at="2026-01-01T00:00:02Z", version="1"))
    pods.see(pod("newer", "n", at="2026-01-01T00:00:01Z", version="12"))
    pods.see(pod("older", "n", at="2026-01-01T00:00:01Z", version="9"))
    pods.see(pod("odd", "n", at="2026-01-01T00:00:01Z", version="x1"))
    pods.see(pod("again", "n", at="2026-01-01T00:00:01Z", version="x1"))
    pods.see(pod("elsewhere", "m"))
    assert uids(pods) == ["odd", "again", "older", "newer", "late", "reserved"]
    assert uids(pods, "m") == ["elsewhere"]
    assert uids(pods, "nowhere") == []
    assert scheduled_at(pod("a").pod) == ""
    assert scheduled_at(convert(Pod, {"metadata": {"name": "a"}})) == ""


def test_a_pod_that_was_reserved_for_waits_and_goes_on_only_on_its_node() -> None:
    """Those that wait are met last, the first of them at the very end."""
    pods = KnownPods()
    for uid in ("a", "b", "c"):
        assert pods.reserve(pod(uid), "n") is None
    assert not pods.postpone("a", "m")
    assert not pods.resume("c", "m")
    assert not pods.postpone("unknown", "n")
    assert uids(pods) == ["a", "b", "c"]
    assert not any(one.waits for one in pods)
    assert pods.postpone("a", "n")
    assert pods.postpone("b", "n")
    assert uids(pods) == ["c", "b", "a"]
    assert {one.uid for one in pods if one.waits} == {"a", "b"}
    assert pods.resume("b", "n")
    assert uids(pods) == ["c", "b", "a"]
    pods.see(pod("a", "n", version="1"))
    assert not pods.postpone("a", "n")
    assert uids(pods) == ["a", "c", "b"]


def test_a_reservation_is_for_one_node_and_ends_unless_the_pod_was_seen_there() -> None:
    """The pod may be reserved for elsewhere afterwards."""
    pods = KnownPods()
    pods.reserve(pod("a"), "n")
    first = pods.get("a")
    assert pods.reserve(pod("a"), "n") is first
    assert pods.get("a") is first
    assert pods.unreserve("a", "m") is None
    assert pods.reserve(pod("a"), "m") is first
    assert (uids(pods), uids(pods, "m")) == ([], ["a"])
    assert pods.unreserve("a", "m") is not None
    assert (pods.get("a"), list(pods)) == (None, [])
    pods.reserve(pod("a"), "n")
    pods.see(pod("a", "n"))
    assert pods.unreserve("a", "n") is None
    assert uids(pods) == ["a"]


def test_a_pod_never_goes_back_and_keeps_its_place_and_how_it_was_first_seen() -> None:
    """An older version may come late; one without a node tells nothing."""
    pods = KnownPods()
    pods.see(pod("a", "n", version="1"))
    pods.see(pod("b", "n", version="2"))
    before, after = pods.see(pod("a", "n", version="3", phase="Running"))
    assert before is not None
    assert after is not None
    assert (before.stage, after.stage, after.first_stage) == (
        PodStage.BOUND,
        PodStage.TAKEN,
        PodStage.BOUND,
    )
    pods.see(pod("a", "n", version="1"))
    known = pods.get("a")
    assert known is not None
    assert known.stage is PodStage.TAKEN
    assert uids(pods) == ["a", "b"]
    assert pods.see(pod("a")) == (known, known)
    assert pods.see(pod("unknown")) == (None, None)
    pods.reserve(pod("c"), "n")
    _, seen = pods.see(pod("c", "n", phase="Running"))
    assert seen is not None
    assert (seen.stage, seen.first_stage) == (PodStage.TAKEN, PodStage.RESERVED)
    assert pods.remove("c") is seen
    assert pods.remove("c") is None


def test_a_pod_is_ours_if_we_reserved_for_it_or_our_profile_has_its_name() -> None:
    """Whoever told of it first."""
    pods = KnownPods()
    pods.reserve(pod("a"), "n")
    pods.see(pod("a", "n"))
    pods.see(pod("b", "n"))
    ours, theirs = pods.get("a"), pods.get("b")
    assert ours is not None
    assert theirs is not None
    assert is_ours(ours, ())
    assert not is_ours(theirs, ("other",))
    assert is_ours(theirs, ("other", "mine"))


def test_who_blocks_a_node_is_named() -> None:
    """The first three of them."""
    pods = KnownPods()
    for uid in ("a", "b", "c", "d"):
        pods.see(pod(uid, "n"))
    text = "no report yet has the pods of other schedulers: "
    assert blocked_by(()) == ""
    assert blocked_by(pods.on("n")[:1]) == f"{text}d/a"
    assert blocked_by(pods.on("n")[:3]) == f"{text}d/a, d/b, d/c"
    assert blocked_by(pods.on("n")) == f"{text}d/a, d/b, d/c, ..."
