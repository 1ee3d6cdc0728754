"""A scheduler on clusters whose NodeResourceTopology is of another age, or missing (C20, C21)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.kube.old_definitions import (
    current,
    install,
    v1alpha1_in_namespaces,
    v1alpha1_of_the_cluster,
)

from numakube.api.nrt import V1ALPHA1
from numakube.apps.host.http_serving import Elsewhere, Listen
from numakube.apps.scheduler.decision_events import FOUND, MISSING
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.errors import NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES
from numakube.kube.client import merge_patch
from numakube.testing import pod_document, until
from numakube.topology.model_report import nrt_of
from numakube_lab.testing import (
    LabCluster,
    Opener,
    RunningScheduler,
    lab_cluster,
    without_election,
)

pytestmark = pytest.mark.timeout(180)

RTE_UPDATE = "k8stopoawareschedwg/rte-update"


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Two nodes of two NUMA nodes with 16 CPUs each, and no exporters."""
    async with lab_cluster(2, on=sites, exporters=False) as world:
        yield world
        await install(world.client, current())


async def report(world: LabCluster, *, namespace: str = "", available: bool = True) -> None:
    """Report every node twice as producers of v1alpha1 do: no attributes, no exact data.

    Without a fingerprint only a second report ends the doubt whether the first knew a pod, so the
    schedulers have to hear of the pods before, and of the reports before there are more pods.
    """
    kind = replace(NODE_RESOURCE_TOPOLOGIES, version="v1alpha1", namespaced=bool(namespace)).raw
    mirrors = [scheduler.process.mirror for scheduler in world.running]
    known = world.pods.resource_version
    await until(lambda: not any(mirror.pods.is_behind(known) for mirror in mirrors))
    for why in ("reactive", "periodic"):
        for name, zones in zones_of(world, available=available).items():
            change = {"metadata": {"annotations": {RTE_UPDATE: why}}, "zones": zones}
            try:
                patch = merge_patch(change)
                done = await world.client.patch(kind, name, patch, namespace=namespace)
            except NotFound:
                new = document(name, zones)
                done = await world.client.create(kind, new, namespace=namespace)
    written = done["metadata"]["resourceVersion"]
    await until(lambda: not any(mirror.topologies.is_behind(written) for mirror in mirrors))


async def place(world: LabCluster, cpu: str, **how: Any) -> None:
    """Have a pod of this size run in each of the four zones, one after the other."""
    for number in range(4):
        await world.create(pod_document(f"p{number}", cpu))
        await world.runs(f"p{number}")
        await report(world, **how)


def document(name: str, zones: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the report of a node whose kubelet has the policy single-numa-node."""
    return {
        "apiVersion": V1ALPHA1,
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": zones,
    }


def zones_of(world: LabCluster, *, available: bool) -> dict[str, list[dict[str, Any]]]:
    """Return what each node has left; before *available*, allocatable was what is left."""
    found = {}
    for name, kubelet in world.pool.kubelets.items():
        assert kubelet.admission is not None
        zones = msgspec.to_builtins(nrt_of(name, kubelet.admission.model).zones)
        for entry in (
            resource for zone in zones for resource in zone["resources"] if not available
        ):
            entry["allocatable"] = entry.pop("available")
        found[name] = zones
    return found


@pytest.mark.parametrize(
    ("definition", "how"),
    [
        pytest.param(v1alpha1_of_the_cluster, {}, id="C21-v1alpha1"),
        pytest.param(v1alpha1_in_namespaces, {"namespace": "default"}, id="C20-namespaced"),
        pytest.param(
            v1alpha1_in_namespaces,
            {"namespace": "default", "available": False},
            id="C20-before-available",
        ),
    ],
)
async def test_pods_are_aligned_by_reports_of_any_age(
    world: LabCluster, definition: Callable[[], dict[str, Any]], how: dict[str, Any]
) -> None:
    """Four zones take four pods, and no kubelet rejects one."""
    await install(world.client, definition())
    await report(world, **how)
    await world.start()
    await place(world, "10", **how)
    await world.create(pod_document("left", "10"))
    await world.refuses("left", "2 cannot align")
    assert world.by_phase("Failed") == set()


async def test_c21_a_definition_that_is_installed_later_is_followed(world: LabCluster) -> None:
    """Without it /readyz and an event say so; with it pods are aligned without a restart."""
    await install(world.client, None)
    async with serving(world) as url:
        trouble = "never synced: the cluster serves noderesourcetopologies.topology.node.k8s.io in "
        told = f"[-]topologies: {trouble}none of v1alpha2, v1alpha1"
        await until(lambda: get(f"{url}/readyz"), lambda text: told in text)
        await until(lambda: get(f"{url}/readyz?exclude=topologies"), lambda text: text == "ok")
        (text,) = await world.some_events(MISSING)
        assert trouble in text
        await install(world.client, v1alpha1_of_the_cluster())
        await report(world)
        await until(lambda: get(f"{url}/readyz"), lambda text: text == "ok")
        await world.some_events(FOUND)
        await place(world, "14")


async def get(url: str) -> str:
    """Return the text of an answer, whatever its status."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.text()


@contextlib.asynccontextmanager
async def serving(world: LabCluster) -> AsyncIterator[str]:
    """Run a scheduler as a process does; yields where it serves."""
    urls: list[str] = []
    elsewhere = Elsewhere(move=True, announce=lambda _port, url: urls.append(url))
    stop = asyncio.Event()
    client = world.connect()
    process = SchedulerProcess(without_election(), client)
    task = asyncio.create_task(process.run(stop, Listen(elsewhere=elsewhere)))
    world.running.append(RunningScheduler(process, task, stop, client))
    await until(lambda: urls)
    yield urls[0]
