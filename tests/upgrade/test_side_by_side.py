"""An older version and this one side by side: upgraded part by part, and rolled back."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.upgrade.programs import Programs, Running, both_ways

from numakube.apps.watched_kinds import RESOURCE_CLAIMS
from numakube.kubelet import from_shape
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.testing import GPU, pod_document, until
from numakube_lab.testing import LabCluster, Opener, lab_cluster, uniform_plans

pytestmark = [pytest.mark.upgrade, pytest.mark.timeout(600)]

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi, gpu 2, nic 1"
MORE_THAN_HALF_A_ZONE = "5"
NIC = "vendor.example/nic"


def gang(size: int) -> list[dict[str, Any]]:
    """Return pods that run together or not at all, each in a NUMA zone of its own."""
    labels = {NAME_LABEL: "train", MIN_LABEL: str(size)}
    return [
        pod_document(f"train-{number}", MORE_THAN_HALF_A_ZONE, metadata={"labels": labels})
        for number in range(size)
    ]


async def create_with_claim(cluster: LabCluster, name: str) -> None:
    """Create a pod with a claim of the same name."""
    exactly = {"deviceClassName": "nic.vendor.example", "allocationMode": "ExactCount", "count": 1}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    pod = pod_document(name, "1", resourceClaims=[{"name": "c", "resourceClaimName": name}])
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    await cluster.client.create(RESOURCE_CLAIMS.raw, claim, namespace="default")
    await cluster.create(pod)


async def claimed(cluster: LabCluster) -> dict[str, object]:
    """Return what each claim has, and for whom."""
    found = (await cluster.client.list(RESOURCE_CLAIMS.raw)).items
    return {one["metadata"]["name"]: one["status"] for one in found}


def places(cluster: LabCluster, *names: str) -> dict[str, tuple[str, str]]:
    """Return which pods of these names there are, and where they run."""
    found = {name: cluster.pod(name) for name in names}
    assert {pod.status.phase for pod in found.values() if pod.status} == {"Running"}
    return {name: (pod.metadata.uid, pod.spec.node_name) for name, pod in found.items()}


async def is_exact(scheduler: Running, nodes: int) -> bool:
    """Tell whether the scheduler reads all that the exporters wrote."""
    return (await scheduler.metrics())['numakube_cache_nodes{state="exact"}'] == nodes


async def judged(scheduler: Running) -> None:
    """Check that no kubelet has decided otherwise than the scheduler foresaw."""
    figures = await scheduler.metrics()
    wrong = {
        name: value
        for name, value in figures.items()
        if value and name.startswith(("numakube_mispredictions_t", "numakube_kubelet_rejections_t"))
    }
    assert wrong == {}


@pytest.mark.parametrize("stages", both_ways(), ids=["exporters first", "schedulers first"])
async def test_nothing_is_rejected_lost_or_moved(
    sites: Opener, stages: tuple[tuple[str, str], ...]
) -> None:
    """Pods run on, the gang waits on and starts when there is room, claims keep their devices.

    At each stage the scheduler reads the reports exactly, whoever wrote them, and new pods are
    aligned as foreseen.
    """
    nodes = 2
    words = "policy=single-numa-node"
    plans = tuple(
        plan.with_claimable(NIC) for plan in uniform_plans(nodes, from_shape(SHAPE), words, "1.35")
    )
    async with (
        lab_cluster(plans=plans, on=sites, exporters=False) as cluster,
        asyncio.TaskGroup() as tasks,
    ):
        programs = Programs(cluster.site, tasks)
        try:
            kept: dict[str, tuple[str, str]] = {}
            held: dict[str, object] = {}
            exported = scheduled = ""
            for number, (exporter, scheduler) in enumerate(stages):
                if exporter != exported:
                    await programs.export_with(exporter)
                if scheduler != scheduled:
                    await programs.schedule_with(scheduler)
                exported, scheduled = exporter, scheduler
                leader = programs.scheduler
                assert leader is not None
                await until(partial(is_exact, leader, nodes))
                if number == 0:
                    await create_with_claim(cluster, "held")
                    await cluster.create(pod_document("alone", MORE_THAN_HALF_A_ZONE))
                    await cluster.runs("held", "alone")
                    await cluster.create(*gang(2 * nodes))
                    for member in range(2 * nodes):
                        await cluster.refuses(f"train-{member}", "3 of 4 needed pods fit")
                    kept, held = places(cluster, "held", "alone"), await claimed(cluster)
                if number == len(stages) // 2:
                    await cluster.delete("alone")
                    del kept["alone"]
                    members = [f"train-{member}" for member in range(2 * nodes)]
                    await cluster.runs(*members)
                    kept |= places(cluster, *members)
                fresh = f"fresh-{number}"
                await cluster.create(pod_document(fresh, "1", also={GPU: "1"}))
                await cluster.runs(fresh)
                assert places(cluster, *kept) == kept
                assert await claimed(cluster) == held
                assert cluster.by_phase("Failed") == set()
                await judged(leader)
                await cluster.delete(fresh)
        finally:
            await programs.end()
