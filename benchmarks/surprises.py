"""Reports a pod under churn: of every change, and only of surprises.

A lab with kubelets and exporters, and a scheduler, in one process. Pods of several shapes come at a
steady rate, run for a while and are deleted, so that their places are used again. Every kubelet
decides for itself: ``mispredicted`` are pods that it placed otherwise than foreseen, ``rejected``
those that it did not admit, and ``wrong`` nodes of which the scheduler believes something else than
is true when all has come to rest. A pod that ends while another is on its way to the same node
makes that one a surprise: the busier a node and the slower the machine, the more there are.

Heartbeats are left out: there are nodes / (0.9 x max-silence x pods a second) of them for a pod.

Budget: 0.1 writes a pod if only surprises are reported.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final

from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGY_UPDATES, PODS
from numakube.kube.reflector import Reflector, reflecting
from numakube.kube.store import Removed
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.testing import GPU, pod_document
from numakube_lab.exporters import ExporterPool
from numakube_lab.testing import LabCluster, RunningScheduler, lab_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kube.store import Change

NODES: Final = 30
RATE: Final = 5.0
"""Pods a second."""
PODS_IN_ALL: Final = 300
LIFE_SECONDS: Final = (10.0, 40.0)
SILENCE: Final = 300.0
BUDGET: Final = 0.1
SHAPE: Final = "2 sockets, 16 cores, smt 2, 128Gi, gpu 4"
MISPREDICTIONS: Final = "numakube_mispredictions_total"


def run() -> Iterator[dict[str, object]]:
    """Measure both ways with the same pods."""
    for silence, name in ((0.0, "every change"), (SILENCE, "only surprises")):
        yield from asyncio.run(measure(silence, name))


async def measure(silence: float, name: str) -> list[dict[str, object]]:
    """Return the figures of one way."""
    async with (
        lab_cluster(NODES, SHAPE, exporters=False) as cluster,
        ExporterPool(cluster.client, cluster.pool, max_silence=silence) as exporters,
    ):
        await exporters.reported(*cluster.pool.kubelets)
        scheduler = await cluster.start()
        writes = 0

        def on_write(change: Change[Any]) -> None:
            nonlocal writes
            writes += not isinstance(change, Removed)

        reports = Reflector(cluster.client, NODE_RESOURCE_TOPOLOGIES)
        updates = Reflector(cluster.client, NODE_RESOURCE_TOPOLOGY_UPDATES)
        async with reflecting(reports, updates):
            reports.store.subscribe(on_write, replay=False)
            updates.store.subscribe(on_write, replay=False)
            begun = time.process_time()
            rejected = await churn(cluster, Random(1))
            used = time.process_time() - begun
            wrong = await settled(cluster, scheduler)
    cpu = 1000 * used / PODS_IN_ALL
    samples = (sample for some in scheduler.process.registry.collect() for sample in some.samples)
    mispredicted = sum(sample.value for sample in samples if sample.name == MISPREDICTIONS)
    budget = {"budget": BUDGET} if silence else {}
    return [
        {"metric": f"{name}: writes a pod", "value": round(writes / PODS_IN_ALL, 3), **budget},
        {"metric": f"{name}: CPU of the whole lab a pod", "value": round(cpu, 2), "unit": "ms"},
        {"metric": f"{name}: mispredicted", "value": int(mispredicted)},
        {"metric": f"{name}: rejected", "value": rejected},
        {"metric": f"{name}: nodes with a wrong belief", "value": wrong},
    ]


async def churn(cluster: LabCluster, rng: Random) -> int:
    """Let pods come and go; return how many were rejected."""
    rejected = 0

    async def live(document: dict[str, Any], seconds: float) -> None:
        nonlocal rejected
        name = document["metadata"]["name"]
        await cluster.client.create(PODS, document)
        await asyncio.sleep(seconds)
        pod = await cluster.client.get(PODS, name, namespace="default")
        rejected += pod.status is not None and pod.status.phase == "Failed"
        await cluster.client.delete(PODS, name, namespace="default")

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(PODS_IN_ALL):
            await asyncio.sleep(max(0.0, begun + number / RATE - time.perf_counter()))
            tasks.create_task(live(some_pod(rng, number), rng.uniform(*LIFE_SECONDS)))
    return rejected


def some_pod(rng: Random, number: int) -> dict[str, Any]:
    """Return a pod of one of several shapes; one in five shares its CPUs."""
    gpus = rng.choice([0, 0, 0, 1])
    cpu = rng.choice(["1500m", "2", "3", "4", "8"])
    also = {GPU: str(gpus)} if gpus else {}
    return pod_document(f"pod-{number}", cpu, rng.choice(["1Gi", "4Gi"]), also=also)


async def settled(cluster: LabCluster, scheduler: RunningScheduler) -> int:
    """Wait until all pods are gone; return of how many nodes the scheduler is wrong."""
    await cluster.until(lambda: len(cluster.pods.store) == 0)
    await asyncio.sleep(1.0)
    wrong = 0
    for name, kubelet in cluster.pool.kubelets.items():
        belief = scheduler.process.mirror.cache.belief(name)
        model = belief.model() if isinstance(belief, ExactBelief) else None
        true = kubelet.admission.model if kubelet.admission is not None else None
        wrong += model is None or true is None or model.shared_cpus != true.shared_cpus
    return wrong
