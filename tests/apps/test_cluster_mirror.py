"""The mirror: what the server says, as the state that decisions need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.apps.scheduler.devices import device_definition, device_document

from kube_lab_server import FaultKind, FaultRule
from numakube.api.koordinator import keys
from numakube.apps.cluster_mirror import Mirror
from numakube.apps.watched_kinds import DEVICES
from numakube.errors import NotFound
from numakube.kube.catalog import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
)
from numakube.kube.client import merge_patch, strategic_patch
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import bind_pod
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import BeliefChanges
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(120)


@dataclass(slots=True)
class Told:
    """A listener that writes everything down."""

    waiting: list[str] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    events: list[ClusterEvent] = field(default_factory=list)

    def pod_waits(self, pod: PodInfo) -> None:
        """A pod waits."""
        self.waiting.append(pod.name)

    def pod_placed(self, pod: PodInfo) -> None:
        """A pod is bound."""
        self.placed.append(pod.name)

    def pod_gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """A pod is gone."""
        self.gone.append(pod.name)

    def pod_ended(self, pod: PodInfo) -> None:
        """A pod that was counted has ended."""
        self.ended.append(pod.name)

    def happened(self, event: ClusterEvent) -> None:
        """Something happened."""
        self.events.append(event)

    def cache_changed(self, changes: BeliefChanges) -> None:
        """The cache has news."""

    def kinds(self) -> set[EventKind]:
        """Return the kinds of events so far."""
        return {event.kind for event in self.events}


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """One node."""
    async with lab_cluster(1, shape="1 socket, 6 cores, smt 1, 16Gi", on=sites) as world:
        yield world


@pytest.fixture
async def setup(world: LabCluster) -> tuple[Mirror, Told]:
    """The mirror of a scheduler that watches, and what it tells."""
    running = await world.start()
    mirror, told = running.process.mirror, Told()
    mirror.listener = told
    return mirror, told


async def test_pods_are_told_from_their_coming_to_their_end(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """Waiting, bound, ended: its end is reported once, however often the pod changes after it."""
    mirror, told = setup
    await world.create(pod_document("p", schedulerName="nobody"))
    await world.until(lambda: told.waiting == ["p"])
    await world.create(pod_document("q", nodeName="node-0"))
    await world.until(lambda: "q" in world.by_phase("Running") and "q" in told.placed)
    uid = world.pod("q").metadata.uid
    assert mirror.cluster.node_of(uid) == "node-0"
    await end(world, "q")
    await world.until(lambda: told.ended == ["q"])
    assert mirror.cluster.node_of(uid) is None
    assert EventKind.POD_DELETED in told.kinds()
    patch = merge_patch({"metadata": {"labels": {"a": "b"}}})
    await world.client.patch(PODS, "q", patch, namespace="default")
    await world.delete("q")
    await world.until(lambda: len(told.gone) >= 2)
    assert told.ended == ["q"]


async def end(world: LabCluster, name: str) -> None:
    """Let a pod have succeeded."""
    patch = merge_patch({"status": {"phase": "Succeeded"}})
    await world.client.patch(PODS, name, patch, namespace="default", subresource="status")


async def test_an_assumed_pod_counts_until_it_is_forgotten(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """And what is reported of it meanwhile does not put it back into the queue."""
    mirror, told = setup
    await world.create(pod_document("p", schedulerName="nobody"))
    await world.until(lambda: told.waiting == ["p"])
    pod = PodInfo(world.pod("p"))
    mirror.assume(pod, "node-0")
    assert mirror.is_assumed(pod.uid)
    node = mirror.cluster.node("node-0")
    assert node is not None
    assert pod.uid in node.pods
    patch = merge_patch({"metadata": {"labels": {"a": "b"}}})
    await world.client.patch(PODS, "p", patch, namespace="default")
    await world.create(pod_document("q", schedulerName="nobody"))
    await world.until(lambda: "q" in told.waiting)
    assert told.waiting == ["p", "q"]
    mirror.forget(pod)
    assert not mirror.is_assumed(pod.uid)
    assert pod.uid not in node.pods


async def test_a_pod_that_we_have_bound_is_told_of_as_added(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """Not as changed: that would wake everybody who waits for room."""
    mirror, told = setup
    await world.create(pod_document("p", schedulerName="nobody"))
    await world.until(lambda: told.waiting == ["p"])
    pod = PodInfo(world.pod("p"))
    mirror.assume(pod, "node-0")
    await bind_pod(world.client, ObjectKey("default", "p"), node="node-0", uid=pod.uid)
    await world.until(lambda: "p" in world.by_phase("Running") and "p" in told.placed)
    about = [event.kind for event in told.events if event.pod and event.pod.name == "p"]
    assert about == [EventKind.POD_ADDED]


async def test_whoever_waits_is_told_of_a_pod_that_was_resized_while_it_was_being_bound(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """They were refused because of what it was to have before."""
    mirror, told = setup
    await world.create(pod_document("p", cpu="2", schedulerName="nobody"))
    await world.until(lambda: told.waiting == ["p"])
    pod = PodInfo(world.pod("p"))
    mirror.assume(pod, "node-0")
    amounts = {"cpu": "1"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    smaller = strategic_patch({"spec": {"containers": [container]}})
    await world.client.patch(PODS, "p", smaller, namespace="default", subresource="resize")
    await bind_pod(world.client, ObjectKey("default", "p"), node="node-0", uid=pod.uid)
    await world.until(lambda: EventKind.POD_UPDATED in told.kinds())
    (event,) = [event for event in told.events if event.kind is EventKind.POD_UPDATED]
    assert event.pod is not None
    assert event.pod.requests["cpu"] == 1000


async def test_heartbeats_wake_nobody_but_changes_of_a_node_do(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """Five thousand nodes say every few seconds that they are alive."""
    _, told = setup
    told.events.clear()
    now = {"lastHeartbeatTime": "2030-01-01T00:00:00Z", "type": "Ready", "status": "True"}
    await patch_node(world, {"status": {"conditions": [now]}}, subresource="status")
    await patch_node(world, {"metadata": {"labels": {"zone": "a"}}})
    await world.until(lambda: EventKind.NODE_UPDATED in told.kinds())
    updates = [event for event in told.events if event.kind is EventKind.NODE_UPDATED]
    assert len(updates) == 1


async def patch_node(world: LabCluster, change: dict[str, Any], *, subresource: str = "") -> None:
    """Change the node."""
    await world.client.patch(NODES, "node-0", merge_patch(change), subresource=subresource)


async def test_a_report_that_is_gone_leaves_a_node_without_data(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """Until the exporter publishes it again."""
    mirror, _ = setup
    world.exporters.freeze(["node-0"])
    await world.client.delete(NODE_RESOURCE_TOPOLOGIES, "node-0")

    def has_data() -> bool:
        node = mirror.cluster.node("node-0")
        return node is not None and node.numa is not None and node.numa.topology is not None

    await world.until(lambda: not has_data())
    assert mirror.missing() == ""


async def test_reports_are_read_once_all_pods_are_known(world: LabCluster) -> None:
    """What is left on a node would be worked out again for each pod otherwise."""
    await world.start()  # which waits for the report
    late = FaultRule(kind=FaultKind.FAIL, path="^/api/v1/pods", code=503, times=2)
    world.site.faults.add(late)
    known = list[bool]()
    async with mirrored(world) as mirror:
        mirror.topologies.store.subscribe(lambda _: known.append(mirror.pods.synced.is_set()))
        await world.until(lambda: not mirror.missing())
    assert not world.site.faults.rules()
    assert known
    assert all(known)


async def test_updates_that_may_not_be_read_are_missed_only_if_there_are_any(
    world: LabCluster,
) -> None:
    """A report that promises them is old without; one of another exporter is not."""
    path = "noderesourcetopologyupdates"
    world.site.faults.add(FaultRule(kind=FaultKind.FAIL, path=path, code=403))
    await world.exporters.reported("node-0")
    world.exporters.freeze(["node-0"])
    async with mirrored(world) as mirror:
        await world.until(lambda: not mirror.missing() and bool(len(mirror.reports)))
        assert mirror.topology_trouble() == ""
        promise = {"topology.numakube.dev/surprises-only": "300 2026-11-17T10:00:00.000000Z"}
        patch = merge_patch({"metadata": {"annotations": promise}})
        await world.client.patch(NODE_RESOURCE_TOPOLOGIES, "node-0", patch)
        await world.until(lambda: bool(mirror.topology_trouble()))
        assert mirror.topology_trouble().startswith("reports are old: ")


@asynccontextmanager
async def mirrored(world: LabCluster) -> AsyncIterator[Mirror]:
    """Run a mirror that faults of the server hit."""
    async with world.site.connect() as client:
        mirror = Mirror(client, Cluster(), Predict())
        task = asyncio.create_task(mirror.run())
        try:
            yield mirror
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_devices_may_be_published_later_or_never(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """A cluster without the kind is complete; when it comes, those who wait are told."""
    mirror, told = setup
    assert mirror.missing() == ""
    await world.client.create(CUSTOM_RESOURCE_DEFINITIONS, device_definition())
    gpu = {"type": "gpu", "minor": 0, "health": True, "topology": {"nodeID": 1}}

    async def created() -> bool:
        try:
            await world.client.create(DEVICES.raw, device_document("node-0", gpu))
        except NotFound:
            return False  # a real server takes a moment to serve a new kind
        return True

    await world.until(created)
    await world.until(lambda: "node-0" in mirror.cluster.objects.devices)
    node = mirror.cluster.node("node-0")
    assert node is not None
    before = node.generation
    await world.client.delete(DEVICES, "node-0")
    await world.until(lambda: "node-0" not in mirror.cluster.objects.devices)
    assert node.generation > before
    about = [event for event in told.events if event.kind is EventKind.TOPOLOGY_CHANGED]
    assert "node-0" in {event.node for event in about}


async def test_devices_that_we_may_not_read_are_done_without(world: LabCluster) -> None:
    """A role from before the kind was read lets the scheduler start all the same."""
    refusal = FaultRule(kind=FaultKind.FAIL, path="/scheduling.koordinator.sh/", code=403)
    world.site.faults.add(refusal)
    running = await world.start()
    assert running.process.mirror.missing() == ""


async def test_settings_of_a_node_that_placement_depends_on_are_told(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """Waiting pods may fit then."""
    mirror, told = setup
    told.events.clear()
    reservation = {keys.NODE_RESERVATION: '{"reservedCPUs":"0"}'}
    await annotate_node(world, reservation)
    node = mirror.cluster.node("node-0")
    assert node is not None
    await world.until(lambda: reservation.items() <= node.node.metadata.annotations.items())
    assert EventKind.NODE_UPDATED in told.kinds()


async def test_whoever_waits_is_told_when_a_pod_gives_back_what_it_was_given(
    world: LabCluster, setup: tuple[Mirror, Told]
) -> None:
    """Its annotation says what it holds; other annotations say nothing."""
    mirror, told = setup
    await world.create(pod_document("p", schedulerName="nobody"))
    await world.until(lambda: told.waiting == ["p"])
    status = {keys.RESOURCE_STATUS: '{"cpuset":"0-1"}'}
    key = ObjectKey("default", "p")
    await bind_pod(world.client, key, node="node-0", annotations=status)
    await world.until(lambda: "p" in told.placed and "p" in world.by_phase("Running"))
    before = mirror.cluster.room_generation
    told.events.clear()
    await annotate_pod(world, "p", {"example.org/anything": "1"})
    await annotate_pod(world, "p", {keys.RESOURCE_STATUS: '{"cpuset":"0"}'})
    await world.until(lambda: EventKind.POD_UPDATED in told.kinds())
    assert [event.kind for event in told.events].count(EventKind.POD_UPDATED) == 1
    assert mirror.cluster.room_generation > before


async def annotate_node(world: LabCluster, annotations: dict[str, str]) -> None:
    """Set annotations of node-0."""
    await world.client.patch(
        NODES, "node-0", merge_patch({"metadata": {"annotations": annotations}})
    )


async def annotate_pod(world: LabCluster, name: str, annotations: dict[str, str]) -> None:
    """Set annotations of a pod."""
    patch = merge_patch({"metadata": {"annotations": annotations}})
    await world.client.patch(PODS, name, patch, namespace="default")
