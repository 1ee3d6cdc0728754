"""Kubelets that reject what we place, since the reports that we trust are wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.kube.catalog import CORE_EVENTS, REPLICA_SETS
from numakube.kube.resource_types import ObjectKey
from numakube.scheduling.assembly import default_configuration
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code
from numakube.scheduling.plugins.rejection_guard import OWNER_LIMIT, RejectionGuard
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod_document
from numakube_lab.exporters import Skew
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(180)

LIES = Skew(amounts={"cpu": 64})
GUARD = "node(s) whose kubelet rejected a pod like this"


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Two nodes that have less room than is reported."""
    async with misreported_cluster(2, sites) as world:
        yield world


@asynccontextmanager
async def misreported_cluster(nodes: int, sites: Opener) -> AsyncIterator[LabCluster]:
    """Nodes with one CPU left in either zone, and exporters that say there are more."""
    async with lab_cluster(nodes, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        names = [f"node-{number}" for number in range(nodes)]
        for node in names:
            for cpus in ("7", "5"):
                await world.create(pod_document(f"fills-{node}-{cpus}", cpus, nodeName=node))
        await world.until(lambda: len(world.by_phase("Running")) == 2 * nodes)
        world.exporters.skew(names, LIES)
        yield world


async def test_a_node_that_rejects_a_pod_gets_no_more_like_it(world: LabCluster) -> None:
    """One rejection per node; then the pods wait, and say why."""
    running = await world.start()
    await lies_are_believed(world)
    guard = running.process.parts.engine.guard
    for name in ("p0", "p1"):
        await world.create(pod_document(name, "2"))
        await world.until(lambda name=name: is_kept_away(guard, world.pod(name)))  # type: ignore[misc]
    for name in ("p2", "p3"):
        await world.create(pod_document(name, "2"))
        await world.refuses(name, GUARD)
    assert world.by_phase("Failed") == {"p0", "p1"}
    assert guard.next_change() is not None
    counted = running.process.registry.collect()
    samples = [sample for metric in counted for sample in metric.samples]
    name = "numakube_kubelet_rejections_total"
    assert sum(sample.value for sample in samples if sample.name == name) == 2


async def test_a_node_on_which_a_pod_ended_is_tried_again_at_once(world: LabCluster) -> None:
    """Its next report shows more room than the one under which it rejected."""
    running = await world.start()
    await lies_are_believed(world)
    guard = running.process.parts.engine.guard
    for name in ("p0", "p1"):
        await world.create(pod_document(name, "2"))
        await world.until(lambda name=name: is_kept_away(guard, world.pod(name)))  # type: ignore[misc]
    await world.create(pod_document("p2", "2"))
    await world.refuses("p2", GUARD)
    await world.delete("fills-node-0-5")
    await world.until(lambda: "p2" in world.by_phase("Running"))
    assert world.pod("p2").spec.node_name == "node-0"
    assert is_kept_away(guard, world.pod("p2")), "the while itself has not passed"


def is_kept_away(guard: RejectionGuard, pod: Pod) -> bool:
    """Tell whether pods like one that was rejected are kept away from its node."""
    rejected = PodInfo(pod)
    if not rejected.node_name:
        return False
    node = NodeInfo(Node(metadata=ObjectMeta(name=rejected.node_name)))
    return not guard.filter(CycleState(), rejected, node).ok


async def test_a_replica_set_that_is_rejected_does_not_run_away(sites: Opener) -> None:
    """A handful of failed pods, and one event on the owner though two schedulers see it."""
    async with misreported_cluster(OWNER_LIMIT, sites) as world:
        config = default_configuration(SCHEDULER_NAME)
        leader = await world.start(config)
        await world.until(lambda: leader.process.leading)
        await world.start(config)
        await lies_are_believed(world)
        await world.client.create(REPLICA_SETS, replica_set("runaway"), namespace="default")
        (text,) = await world.some_events("PodsRejectedByKubelet")
        assert text.startswith("kubelets keep rejecting pods of this ReplicaSet (")
        await world.until(lambda: every_pending_pod_is_held_back(world))
        assert len(world.by_phase("Failed")) < 20
        events = (await world.client.list(CORE_EVENTS)).items
        (told,) = [event for event in events if event.reason == "PodsRejectedByKubelet"]
        assert (told.involved_object.kind, told.involved_object.name) == ("ReplicaSet", "runaway")
        assert (told.count or 1) == 1


def replica_set(name: str) -> dict[str, object]:
    """Five pods of two CPUs."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_document("any", "2")["spec"]}
    spec = {"replicas": 5, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def every_pending_pod_is_held_back(world: LabCluster) -> bool:
    """Tell whether no scheduler would try any of the five pods of the replica set."""
    pending = [PodInfo(world.pod(name)) for name in world.by_phase("Pending")]
    guards = [running.process.parts.engine.guard for running in world.running]
    held = [guard.pre_enqueue(pod).code is Code.PENDING for guard in guards for pod in pending]
    return len(pending) == 5 and all(held)


async def lies_are_believed(world: LabCluster) -> None:
    """Wait until every scheduler has the wrong reports."""

    def all_wrong() -> bool:
        return all(
            node.numa is not None and max(free.get("cpu", 0) for free in node.numa.available) > 2000
            for running in world.running
            for node in running.process.mirror.cluster.nodes()
        )

    await world.until(all_wrong)


async def test_old_rejections_are_no_reason_to_be_careful(world: LabCluster) -> None:
    """A scheduler that starts finds failed pods of long ago; they say nothing about today."""
    first = await world.start()
    await lies_are_believed(world)
    await world.create(pod_document("p", "2"))
    await world.until(lambda: world.by_phase("Failed") == {"p"})
    await first.end()
    second = await world.start()
    assert second.process.parts.engine.guard.next_change() is None
    await world.delete("p")
    await world.until(lambda: ObjectKey("default", "p") not in second.process.mirror.pods.store)
    assert second.process.parts.engine.guard.next_change() is None
