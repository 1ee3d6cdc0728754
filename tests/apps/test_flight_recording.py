"""What reports say of a pod is noted in its flight: its zones, and what had been foreseen."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, ended, pod, taken

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.pod import Pod
from numakube.apps.flight_recording import Recording
from numakube.kube.clock import ManualClock
from numakube.scheduling.numa.caches.cache_contract import NumaCache
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.recorder.flight_documents import flight_document
from numakube.scheduling.recorder.flight_recorder import FlightRecorder
from numakube.scheduling.scheduling_queue import QueuedPod
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import BeliefChanges
from numakube.testing import bound

ZONE_0 = {"zones": [{"ids": [0], "amounts": {"cpu": "4", "memory": "1Gi"}}]}
ZONE_1 = {"zones": [{"ids": [1], "amounts": {"cpu": "4", "memory": "1Gi"}}]}


class Desk:
    """A recording with a cluster of one node, as the scheduler has it."""

    def __init__(self, cache: NumaCache, site: ReportedNode) -> None:
        self.site = site
        self.cache = cache
        self.cluster = Cluster()
        status = NodeStatus(allocatable={"cpu": "16", "memory": "32Gi", "pods": "110"})
        self.cluster.set_node(Node(metadata=ObjectMeta(name="n1"), status=status))
        self.recording = Recording(FlightRecorder(), self.cluster, ManualClock())
        self.apply(cache.set_report(site.report()))

    def apply(self, changes: BeliefChanges) -> None:
        """Take over what the cache says."""
        self.cluster.take(changes, self.cache)
        self.recording.cache_changed(changes)

    def place(self, one: Pod) -> None:
        """Book a pod."""
        self.recording.begin(QueuedPod(PodInfo(one), added_at=0.0, queued_at=0.0, attempts=1))
        self.apply(self.cache.reserve(PodInfo(one), "n1"))
        self.recording.reserved(one.metadata.uid, "n1")

    def events(self, uid: str) -> list[dict[str, object]]:
        """Return what was noted of a pod."""
        flight = self.recording.recorder.get(uid)
        assert flight is not None
        shown = flight_document(flight, self.recording.wall())["attempts"]
        return [event for attempt in shown for event in attempt["events"]]


@pytest.fixture
def desk() -> Desk:
    """A node with two zones, exact data, and our cache."""
    return Desk(Predict(), ReportedNode.make())


def test_the_first_report_with_the_pod_tells_its_zones(desk: Desk) -> None:
    """Once, and as predicted."""
    desk.place(pod("a", cpus=4))
    desk.apply(desk.cache.set_report(desk.site.report()))
    desk.site.admit(pod("a", cpus=4))
    for _ in range(2):
        desk.apply(desk.cache.set_report(desk.site.report()))
    reserved, observed = desk.events("a")
    assert (reserved["event"], reserved["predicted"]) == ("reserved", ZONE_0)
    assert (observed["event"], observed["zones"]) == ("observed", ZONE_0)


def test_a_misprediction_is_noted_with_both_views(desk: Desk) -> None:
    """What the model said, and what the node says."""
    desk.place(pod("a", cpus=4))
    desk.site.admit(pod("hidden", cpus=6))
    desk.site.admit(pod("a", cpus=4))
    desk.apply(desk.cache.set_report(desk.site.report()))
    events = {event["event"]: event for event in desk.events("a")}
    wrong = events["mispredicted"]
    assert (wrong["severity"], wrong["predicted"], wrong["reported"]) == ("zones", ZONE_0, ZONE_1)
    assert events["observed"]["zones"] == ZONE_1


def test_a_refusal_of_the_kubelet_is_noted(desk: Desk) -> None:
    """With its reason, and as the misprediction that it is."""
    one = pod("a", cpus=4)
    desk.place(one)
    failed = ended(bound(one, "n1"), reason="TopologyAffinityError")
    desk.apply(desk.cache.pod_seen(PodInfo(failed)))
    desk.recording.ended(PodInfo(failed))
    _, wrong, rejected = desk.events("a")
    assert wrong["severity"] == "verdict"
    assert (rejected["event"], rejected["reason"]) == ("rejected", "TopologyAffinityError")


def test_that_the_kubelet_took_a_pod_is_noted_once(desk: Desk) -> None:
    """However often its status changes; pods of others are none of our business."""
    one = pod("a", cpus=4)
    desk.place(one)
    desk.recording.placed(PodInfo(bound(one, "n1")))
    for _ in range(3):
        desk.recording.placed(PodInfo(taken(bound(one, "n1"))))
    desk.recording.placed(PodInfo(taken(bound(pod("foreign"), "n1"))))
    assert [event["event"] for event in desk.events("a")] == ["reserved", "admitted"]
    assert len(desk.recording.recorder) == 1


def test_counts_alone_say_where_the_pod_may_be() -> None:
    """Without exact data nothing is predicted, and nothing is observed."""
    desk = Desk(OverReserve(), ReportedNode.make(exact=False))
    desk.place(pod("a", cpus=4))
    desk.site.admit(pod("a", cpus=4))
    desk.apply(desk.cache.set_report(desk.site.report()))
    (reserved,) = desk.events("a")
    assert (reserved["predicted"], reserved["anywhereIn"]) == (None, [0, 1])


def test_zones_are_observed_whichever_cache_is_used() -> None:
    """As long as the reports have exact data."""
    desk = Desk(OverReserve(), ReportedNode.make())
    one = pod("a", cpus=4)
    desk.place(one)
    desk.site.admit(one)
    desk.apply(desk.cache.pod_seen(PodInfo(taken(bound(one, "n1")))))
    desk.apply(desk.cache.set_report(desk.site.report()))
    assert desk.events("a")[-1]["zones"] == ZONE_0


def test_a_mistake_of_the_recorder_stops_nobody(desk: Desk) -> None:
    """What cannot be written down is logged; the rest is kept."""
    desk.place(pod("a", cpus=4))
    desk.recording.asked(PodInfo(pod("b")), [None], nodes=1, kept=0, started=0.0)  # type: ignore[list-item]
    desk.recording.bound("a", "n1")
    assert [event["event"] for event in desk.events("a")] == ["reserved", "bound"]


def test_a_binding_that_fails_is_not_awaited(desk: Desk) -> None:
    """Another attempt may go elsewhere."""
    desk.place(pod("a", cpus=4))
    desk.recording.not_bound("a", "the node is gone")
    desk.site.admit(pod("a", cpus=4))
    desk.apply(desk.cache.set_report(desk.site.report()))
    assert [event["event"] for event in desk.events("a")] == ["reserved", "notBound"]
