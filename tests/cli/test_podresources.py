"""What a kubelet says that its pods hold, through the exporter that is deployed on its node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from tests.cli.conftest import Ended

from numakube.apps.exporter.debug_outputs import document_of
from numakube.cli.podresources import _rows
from numakube.kube.catalog import NAMESPACES, PODS, resource_of
from numakube.manifests.exporter import ExporterManifest
from numakube.node.podresources_client import (
    AllocatableResources,
    ClaimedDevice,
    ContainerResources,
    Devices,
    DynamicResource,
    Memory,
    PodResources,
)
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, lab_cluster


@pytest.fixture
async def world() -> AsyncIterator[LabCluster]:
    """A node with a pod of four CPUs, in a cluster where rights count."""
    async with lab_cluster(
        1, shape="2 sockets, 4 cores, smt 2, 16Gi", rbac=True, exporters=False
    ) as world:
        await world.create(pod_document("four", "4", nodeName="node-0"))
        await world.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        for document in ExporterManifest().objects():
            await world.client.create(resource_of(document), document)
        yield world


@pytest.mark.timeout(120)
async def test_the_answers_of_a_kubelet_are_shown(
    world: LabCluster, numakube: Callable[..., Ended]
) -> None:
    """To those who may make the token, as a table and as JSON; other nodes have no exporter."""

    async def ask(*words: str) -> Ended:
        kubeconfig = str(world.site.kubeconfig)
        return await asyncio.to_thread(
            numakube, "debug", "podresources", *words, "--kubeconfig", kubeconfig
        )

    async def phases() -> list[str]:
        found = await world.client.list(PODS, namespace="numakube")
        return [pod.status.phase for pod in found.items if pod.status is not None]

    await until(phases, lambda found: found == ["Running"])
    shown = await until(lambda: ask("node-0"), lambda told: "default/four" in told.out)
    assert shown.code == 0
    assert "1-2,9-10" in shown.out
    assert "@0" in shown.out
    assert "(allocatable)" in shown.out

    document = json.loads((await ask("node/node-0", "-o", "json")).out)
    (pod,) = (pod for pod in document["pods"] if pod["name"] == "four")
    assert pod["containers"][0]["cpus"] == "1-2,9-10"

    missing = await ask("node-9")
    assert missing.code == 1
    assert "no exporter of numakube runs as a pod on node 'node-9'" in missing.err


def test_claims_and_devices_are_shown_with_their_places() -> None:
    """Everything that the API tells, pod-level resources included."""
    device = ClaimedDevice("gpu.example.com", "node-0", "gpu-3", cdi_devices=("vendor/gpu=3",))
    container = ContainerResources(
        name="main",
        cpu_ids=(1, 2, 9),
        memory=(Memory("memory", 2**30, (0, 1)),),
        devices=(Devices("example.com/nic", ("a", "b"), (1,)),),
        dynamic_resources=(DynamicResource("gpus", "team", (device,)),),
    )
    pod = PodResources("web", "team", (container,), cpu_ids=(1, 2, 9, 10))
    document = document_of("node-0", [pod], AllocatableResources(cpu_ids=(1, 2)))

    assert list(_rows(document)) == [
        ("team/web", "(pod)", "1-2,9-10", "", "", ""),
        (
            "team/web",
            "main",
            "1-2,9",
            "1Gi memory@0+1",
            "example.com/nic a b@1",
            "team/gpus: gpu.example.com node-0/gpu-3",
        ),
        ("(allocatable)", "", "1-2", "", "", ""),
    ]
    (claim,) = document["pods"][0]["containers"][0]["dynamicResources"]
    assert claim["devices"][0]["cdiDevices"] == ["vendor/gpu=3"]
