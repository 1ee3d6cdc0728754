"""How many pods want alignment and do not have it, counted as nodes change."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import msgspec
import pytest
from prometheus_client import CollectorRegistry, Gauge
from tests.apps.scheduler.test_shards_mirror import _client
from tests.scheduling.numa.caches.reported_node import SCHEDULER, ReportedNode, pod

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.apps.cluster_mirror import Mirror
from numakube.apps.scheduler.alignment_census import PERIOD_SECONDS, AlignmentCensus
from numakube.insight.misalignment import Cause
from numakube.kube.clock import ManualClock
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound


class Scene:
    """Nodes that are reported, and the count of what is wrong on them."""

    def __init__(self) -> None:
        self.cluster, self.cache = Cluster(), Predict()
        self.mirror = Mirror(_client(), self.cluster, self.cache)
        self.registry, self.clock = CollectorRegistry(), ManualClock()
        gauge = Gauge("misaligned", "-", ["cause"], registry=self.registry)
        self.census = AlignmentCensus(self.mirror, {SCHEDULER}, self.clock, gauge)

    def report(self, site: ReportedNode) -> None:
        """Let the exporter of a node report."""
        name = site.name
        if self.cluster.node(name) is None:
            self.cluster.set_node(Node(metadata=ObjectMeta(name=name)))
        report = site.report()
        self.cluster.take(self.cache.set_report(report), self.cache)
        self.mirror.reports.put(report)

    def place(self, site: ReportedNode, *pods: Pod) -> None:
        """Let pods run on a node."""
        for one in pods:
            assert site.admit(one)
            self.cluster.place(PodInfo(bound(one, site.name)), site.name)

    def counted(self) -> dict[str, float]:
        """Return what the gauge says, without zeros."""
        found = {
            cause: self.registry.get_sample_value("misaligned", {"cause": cause}) for cause in Cause
        }
        assert None not in found.values()
        return {str(cause): value for cause, value in found.items() if value}

    async def minute(self) -> None:
        """Let it be counted once more."""
        await self.clock.sleepers()
        await self.clock.advance(PERIOD_SECONDS)
        await self.clock.sleepers()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """No nodes yet."""
    scene = Scene()
    task = asyncio.create_task(scene.census.run())
    yield scene
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def spread(scene: Scene, name: str, policy: str, *, scheduler: str = SCHEDULER) -> ReportedNode:
    """Add a node whose pods want CPUs that are not all in one zone; one shares."""
    site = ReportedNode.make(name, policy=policy)
    scene.report(site)
    sizes = (("a", 6), ("b", 6), ("c", 3))
    pods = [pod(f"{name}-{uid}", cpus=cpus, scheduler=scheduler) for uid, cpus in sizes]
    scene.place(site, *pods, pod(f"{name}-shares", guaranteed=False, scheduler=scheduler))
    scene.report(site)
    return site


@pytest.mark.parametrize(
    ("policy", "scheduler", "expected"),
    [
        ("none", SCHEDULER, {"no-policy": 2}),
        ("none", "another", {}),
        ("best-effort", SCHEDULER, {"best-effort": 1}),
        ("best-effort", "another", {"best-effort": 1}),
    ],
)
async def test_a_pod_that_is_not_in_one_zone_is_counted_with_the_cause(
    scene: Scene, policy: str, scheduler: str, expected: dict[str, float]
) -> None:
    """If it wants to be; those that share CPUs do not."""
    spread(scene, "n1", policy, scheduler=scheduler)
    assert scene.counted() == {}
    await scene.minute()
    assert scene.counted() == expected


async def test_nodes_are_counted_again_when_they_have_changed(scene: Scene) -> None:
    """All of them together; one that is gone counts no more, and one without data never does."""
    sites = [spread(scene, f"n{number}", "none") for number in range(9)]
    scene.cluster.set_node(Node(metadata=ObjectMeta(name="bare")))
    await scene.minute()
    assert scene.counted() == {"no-policy": 18}
    sites[3].remove("n3-c")
    scene.cluster.remove_pod("n3-c")
    scene.report(sites[3])
    scene.cluster.remove_node("n5")
    assert scene.counted() == {"no-policy": 18}
    await scene.minute()
    assert scene.counted() == {"no-policy": 15}


async def test_a_pod_that_is_resized_is_looked_at_again(scene: Scene) -> None:
    """Its node's report stays the same; what asks for the same as before does not matter."""
    spread(scene, "n1", "none")
    await scene.minute()
    assert scene.counted() == {"no-policy": 2}
    store, version = scene.mirror.pods.store, itertools.count(1)

    def seen(cpus: int) -> None:
        one = bound(pod("n1-shares", cpus=cpus, guaranteed=False), "n1")
        meta = msgspec.structs.replace(one.metadata, resource_version=str(next(version)))
        store.put(msgspec.structs.replace(one, metadata=meta))

    seen(2)
    scene.cluster.remove_pod("n1-c")
    seen(2)
    await scene.minute()
    assert scene.counted() == {"no-policy": 2}
    seen(3)
    await scene.minute()
    assert scene.counted() == {"no-policy": 1}
