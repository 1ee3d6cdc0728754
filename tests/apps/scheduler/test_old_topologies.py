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
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.apps.scheduler.topology_source_events import FOUND, MISSING
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES
from numakube.kube.patches import merge_patch
from numakube.testing import pod_document, until
from numakube.topology.model_report import nrt_of
from numakube_lab.testing import LabCluster, Opener, lab_cluster, without_election

pytestmark = pytest.mark.timeout(180)

PERIOD_SECONDS = 0.5


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Two nodes of two NUMA nodes with 16 CPUs each, and no exporters."""
    async with lab_cluster(2, on=sites, exporters=False) as world:
        yield world
        await install(world.client, current())


@contextlib.asynccontextmanager
async def producing(
    world: LabCluster, *, namespace: str = "", available: bool = True
) -> AsyncIterator[None]:
    """Keep reports up to date as producers of v1alpha1 do: no attributes, no exact data.

    Without a fingerprint only a second report ends the doubt whether the first knew a pod. They
    report now and then without a cause too: a scheduler may hear of a pod after all of its reports.
    """
    kind = replace(NODE_RESOURCE_TOPOLOGIES, version="v1alpha1", namespaced=bool(namespace)).raw
    changed = asyncio.Event()
    stop = world.pods.store.subscribe(lambda _: changed.set())

    async def produce() -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), PERIOD_SECONDS)
            changed.clear()
            for why in ("reactive", "periodic"):
                for name, zones in zones_of(world, available=available).items():
                    annotations = {"k8stopoawareschedwg/rte-update": why}
                    patch = {"metadata": {"annotations": annotations}, "zones": zones}
                    await world.client.patch(kind, name, merge_patch(patch), namespace=namespace)

    for name, zones in zones_of(world, available=available).items():
        await world.client.create(kind, document(name, zones), namespace=namespace)
    task = asyncio.create_task(produce())
    try:
        yield
    finally:
        stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


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
        for one in (one for zone in zones for one in zone["resources"] if not available):
            one["allocatable"] = one.pop("available")
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
    async with producing(world, **how):
        await world.start()
        await world.create(*(pod_document(f"p{number}", "10") for number in range(5)))
        await world.until(lambda: len(world.by_phase("Running")) == 4)
        (left,) = world.by_phase("Pending")
        await world.refuses(left, "2 cannot align")
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
        async with producing(world):
            await until(lambda: get(f"{url}/readyz"), lambda text: text == "ok")
            await world.some_events(FOUND)
            await world.create(*(pod_document(f"p{number}", "14") for number in range(4)))
            await world.until(lambda: len(world.by_phase("Running")) == 4)


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
    process = SchedulerProcess(without_election(), world.connect())
    task = asyncio.create_task(process.run(stop, Listen(elsewhere=elsewhere)))
    try:
        await until(lambda: urls)
        yield urls[0]
    finally:
        stop.set()
        await task
