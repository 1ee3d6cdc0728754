"""Several schedulers share the nodes of a cluster: each has its own, pods find room anywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kube_lab_server import FaultKind, FaultRule
from numakube.api.meta import Lease
from numakube.api.scheduler_config import KubeSchedulerConfiguration
from numakube.kube.catalog import LEASES, PRIORITY_CLASSES
from numakube.kube.client import merge_patch
from numakube.scheduling.assembly import default_configuration
from numakube.scheduling.plugins.node_shards import REFUSED_BY, NodeShards
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, RunningScheduler, lab_cluster

SHAPE = "2 sockets, 4 cores, smt 1, 16Gi"
MOST_OF_A_ZONE = "3"


def watchful() -> KubeSchedulerConfiguration:
    """Return a configuration of shards that look at each other often."""
    config = default_configuration()
    election = msgspec.structs.replace(
        config.leader_election, lease_duration="60s", renew_deadline="50s", retry_period="200ms"
    )
    return msgspec.structs.replace(config, leader_election=election)


def pods(name: str, count: int) -> list[dict[str, Any]]:
    """Return pods that each take most of a zone."""
    return [pod_document(f"{name}-{number}", MOST_OF_A_ZONE) for number in range(count)]


async def start(world: LabCluster, *names: str) -> dict[str, RunningScheduler]:
    """Start shards, and wait until they have shared the nodes."""
    running = {name: await world.start(watchful(), shard=name) for name in names}
    await settled(world, running)
    return running


def shards_of(one: RunningScheduler) -> NodeShards:
    """Return what a scheduler knows of the group."""
    return one.process.parts.engine.shards


def held(one: RunningScheduler) -> set[str]:
    """Return the nodes that a shard binds pods to."""
    shards = shards_of(one)
    return {node.name for node in one.process.mirror.cluster.nodes() if shards.holds(node)}


async def settled(world: LabCluster, running: dict[str, RunningScheduler]) -> None:
    """Wait until every node has one owner among those that are *running*."""

    def is_settled() -> bool:
        nodes = len(next(iter(running.values())).process.mirror.nodes.store)
        views = [shards_of(scheduler).view for scheduler in running.values()]
        agreed = all(view is not None and view.members == set(running) for view in views)
        return agreed and sum(len(held(scheduler)) for scheduler in running.values()) == nodes

    await world.until(is_settled)


async def lease_of(world: LabCluster, shard: str) -> Lease:
    """Return the lease of *shard*."""
    name = f"numakube-scheduler-shard-{shard}"
    return await world.client.get(LEASES, name, namespace="kube-system")


async def test_shards_share_the_nodes_and_place_every_pod(sites: Opener) -> None:
    """Pods fill the cluster whichever shard tries them first; kubelets reject none."""
    async with lab_cluster(6, shape=SHAPE, on=sites) as world:
        running = await start(world, "a", "b", "c")
        owned = [held(scheduler) for scheduler in running.values()]
        assert sum(map(len, owned)) == len(set().union(*owned)) == 6

        await world.create(*pods("pod", 12))

        await world.until(lambda: len(world.by_phase("Running")) == 12)
        on_nodes = Counter(pod.spec.node_name for pod in world.pods.store)
        assert set(on_nodes.values()) == {2}


async def test_a_pod_that_fits_nowhere_is_tried_by_all_and_evicts_only_then(sites: Opener) -> None:
    """It says which shards refused it; with a higher priority it gets room in the end."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await start(world, "a", "b")
        await world.create(*pods("full", 4))
        await world.until(lambda: len(world.by_phase("Running")) == 4)
        await world.create(pod_document("waits", MOST_OF_A_ZONE))
        await world.until(lambda: world.pod("waits").metadata.annotations.get(REFUSED_BY) == "a,b")

        high = {"metadata": {"name": "high"}, "value": 1000}
        await world.client.create(PRIORITY_CLASSES.raw, high)
        await world.create(pod_document("urgent", MOST_OF_A_ZONE, priorityClassName="high"))

        await world.runs("urgent")
        await world.until(lambda: len(world.by_phase("Running")) == 4)
        assert world.pod("urgent").metadata.annotations[REFUSED_BY] == "a,b"


async def test_the_nodes_of_a_shard_that_dies_go_to_the_others(sites: Opener) -> None:
    """And back to it when it returns; pods are placed all the time."""
    async with lab_cluster(4, shape=SHAPE, on=sites) as world:
        running = await start(world, "a", "b")
        before = {name: held(one) for name, one in running.items()}
        # Nor can it give its lease back, which others respect until it has run out.
        world.faults.add(FaultRule(kind=FaultKind.FAIL, methods=("PUT",), path="leases/.*shard-b"))
        lost = running.pop("b")
        await lost.kill()
        world.faults.clear()
        lease = await lease_of(world, "b")
        assert lease.spec.holder_identity == lost.process.identity
        soon = merge_patch({"spec": {"leaseDurationSeconds": 1}})
        await world.client.patch(LEASES, lease.metadata.name, soon, namespace="kube-system")
        await world.create(*pods("first", 4))
        await settled(world, running)
        assert held(running["a"]) == before["a"] | before["b"]

        running["b"] = await world.start(watchful(), shard="b")
        await world.create(*pods("then", 4))

        await settled(world, running)
        assert {name: held(one) for name, one in running.items()} == before
        await world.until(lambda: len(world.by_phase("Running")) == 8)


async def test_a_shard_that_ends_gives_its_lease_back(sites: Opener) -> None:
    """The others need not wait for it to run out."""
    async with lab_cluster(3, shape=SHAPE, on=sites) as world:
        running = await start(world, "a", "b")
        await running.pop("a").end()
        await settled(world, running)
        assert not (await lease_of(world, "a")).spec.holder_identity
        assert (await lease_of(world, "b")).spec.holder_identity
