"""A lab whose free CPUs are too scattered for a pod of three."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.insight.doctor.documents import reported

from numakube.api.pod import Pod
from numakube.kube.catalog import REPLICA_SETS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, lab_cluster

SHAPE = "2 sockets, 4 cores, smt 1, 16Gi"


def replica_set(name: str, cpu: str) -> dict[str, Any]:
    """Return a ReplicaSet of one pod."""
    one, labels = pod_document(name, cpu), {"app": name}
    template = {"metadata": {"labels": labels}, "spec": one["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


async def cordon(world: LabCluster, node: str, *, cordoned: bool) -> None:
    """Keep pods off *node*, or let them come."""
    await world.change_node(node, {"spec": {"unschedulable": cordoned}})


def on(world: LabCluster, node: str) -> set[str]:
    """Return which apps run on *node*."""
    return {
        pod.metadata.labels.get("app", pod.metadata.name)
        for pod in world.pods.store
        if pod.spec.node_name == node and pod.status and pod.status.phase == "Running"
    }


def unplaced(world: LabCluster) -> list[Pod]:
    """Return the pods of ReplicaSets that have no node yet."""
    pods = world.pods.store
    return [pod for pod in pods if "app" in pod.metadata.labels and not pod.spec.node_name]


@asynccontextmanager
async def own_clock(world: LabCluster) -> AsyncIterator[tuple[Client, ManualClock]]:
    """Return a client for which time passes only as the test says."""
    clock = ManualClock(world.client.clock.now())
    async with world.site.connect(clock=clock) as client:
        yield client, clock


@asynccontextmanager
async def fragmented(**more: Any) -> AsyncIterator[LabCluster]:
    """Give two nodes: ``a`` and ``b`` on the first, pods without a controller on the second."""
    async with lab_cluster(2, shape=SHAPE, **more) as world:
        await world.start()
        await cordon(world, "node-1", cordoned=True)
        for name in "ab":
            await world.client.create(REPLICA_SETS, replica_set(name, "2"))
        await world.until(lambda: on(world, "node-0") == {"a", "b"})
        await cordon(world, "node-1", cordoned=False)
        await cordon(world, "node-0", cordoned=True)
        await world.create(pod_document("c"), pod_document("d"))
        await world.runs("c", "d")
        await cordon(world, "node-0", cordoned=False)
        await reported(world)
        yield world
