"""Extended resources that DRA drivers serve: from the pod's request to the devices, and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from kube_lab_server import FaultKind, FaultRule
from numakube.api.resource_claims import EXTENDED_RESOURCE_CLAIM, ResourceClaim
from numakube.apps.watched_kinds import RESOURCE_CLAIMS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, Opener, lab_cluster, uniform_plans, without_election

GPU: Final = "vendor.example/gpu"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/gpu.vendor.example"
DRIVER: Final = "gpu.vendor.example"


@pytest.fixture
async def cluster(sites: Opener) -> AsyncIterator[LabCluster]:
    """A node whose two GPUs a device plugin serves, and one whose two GPUs a DRA driver serves."""
    machine = from_shape("1 socket, 8 cores, smt 2, 32Gi, gpu 2")
    plugin, driver = uniform_plans(2, machine, "policy=single-numa-node", "1.35")
    async with lab_cluster(plans=(plugin, driver.with_claimable(GPU)), on=sites) as found:
        yield found


def pod(name: str, resource: str = GPU, count: int = 1) -> dict[str, Any]:
    """Return a pod that asks for devices as it would ask a device plugin."""
    return pod_document(name, "2", also={resource: str(count)})


async def claims(cluster: LabCluster) -> tuple[ResourceClaim, ...]:
    """Return the claims that there are."""
    return (await cluster.client.list(RESOURCE_CLAIMS, namespace="default")).items


def devices(claim: ResourceClaim) -> list[str]:
    """Return the devices that a claim has."""
    allocation = claim.status.allocation
    return (
        [device.device for device in allocation.devices.results] if allocation is not None else []
    )


def held(cluster: LabCluster, name: str) -> tuple[list[str], list[str]]:
    """Return the devices that a pod has from a plugin, and those that it has by claims."""
    (found,) = (
        resource
        for kubelet in cluster.pool.kubelets.values()
        for resource in kubelet.pod_resources()
        if resource.name == name
    )
    (container,) = found.containers
    return (
        [device for other in container.devices for device in other.ids],
        [device.device for claim in container.dynamic_resources for device in claim.devices],
    )


async def test_nodes_with_a_plugin_and_nodes_with_a_driver_serve_one_resource(
    cluster: LabCluster,
) -> None:
    """Every GPU is used once; a pod too many waits, and gets the GPU of a pod that is deleted."""
    await cluster.start()
    await cluster.create(*(pod(f"p{number}") for number in range(5)))
    await cluster.until(lambda: len(cluster.by_phase("Running")) == 4)
    running = cluster.by_phase("Running")
    has = {name: held(cluster, name) for name in running}
    assert sorted(one for plugin, _ in has.values() for one in plugin) == ["gpu-0", "gpu-1"]
    assert sorted(one for _, claim in has.values() for one in claim) == ["gpu-0", "gpu-1"]
    (waiting,) = cluster.by_phase("Pending")
    await cluster.delete(next(name for name, (_, claim) in has.items() if claim))
    await cluster.runs(waiting)
    assert len(held(cluster, waiting)[1]) == 1
    assert not cluster.by_phase("Failed")


async def test_the_claim_and_the_status_say_who_has_what(cluster: LabCluster) -> None:
    """As kube-scheduler writes them; the claim is the pod's own and goes with it."""
    await cluster.start()
    await cluster.create(pod("p", IMPLICIT, 2))
    await cluster.runs("p")
    (claim,) = await claims(cluster)
    owner = claim.metadata.controller
    running = cluster.pod("p")
    assert owner is not None
    assert (owner.kind, owner.uid) == ("Pod", running.metadata.uid)
    assert claim.metadata.annotations[EXTENDED_RESOURCE_CLAIM] == "true"
    assert claim.metadata.name.startswith("p-extended-resources-")
    assert [consumer.uid for consumer in claim.status.reserved_for] == [running.metadata.uid]
    assert running.status is not None
    status = running.status.extended_resource_claim_status
    assert status is not None
    assert status.resource_claim_name == claim.metadata.name
    (mapping,) = status.request_mappings
    assert (mapping.container_name, mapping.resource_name) == ("main", IMPLICIT)
    assert {result.request for result in _results(claim)} == {mapping.request_name}
    assert sorted(held(cluster, "p")[1]) == sorted(devices(claim)) == ["gpu-0", "gpu-1"]
    await cluster.delete("p")
    await until(lambda: _none_left(cluster))


def _results(claim: ResourceClaim) -> tuple[Any, ...]:
    assert claim.status.allocation is not None
    return claim.status.allocation.devices.results


async def _none_left(cluster: LabCluster) -> bool:
    return not await claims(cluster)


WRITES: Final = {
    "creating the claim": ("POST", r"/resourceclaims(\?|$)"),
    "its finalizer": ("PATCH", r"/resourceclaims/[^/?]+(\?|$)"),
    "its allocation": ("PATCH", r"/resourceclaims/[^/]+/status"),
    "the status of the pod": ("PATCH", r"/pods/p/status"),
    "the binding": ("POST", r"/binding(\?|$)"),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_scheduler_that_dies_at_any_write_leaves_nothing_behind(
    sites: Opener, write: str
) -> None:
    """The next one removes what it finds half done, and places the pod with one claim."""
    machine = from_shape("1 socket, 8 cores, smt 2, 32Gi, gpu 2")
    (plan,) = uniform_plans(1, machine, "policy=single-numa-node", "1.35")
    async with lab_cluster(plans=(plan.with_claimable(GPU),), on=sites) as cluster:
        method, path = WRITES[write]
        number = cluster.faults.add(
            FaultRule(kind=FaultKind.DELAY, methods=(method,), path=path, seconds=600, times=1)
        )
        first = await cluster.start()
        await cluster.create(pod("p"))
        await cluster.until(lambda: number not in cluster.faults.rules())
        await first.kill()
        cluster.faults.clear()
        await cluster.start()
        await cluster.create(pod("q"))
        await cluster.runs("p", "q")
        found = await claims(cluster)
        assert sorted(device for claim in found for device in devices(claim)) == ["gpu-0", "gpu-1"]
        assert len(found) == 2
        await cluster.delete("p")
        await cluster.delete("q")
        await until(lambda: _none_left(cluster))


async def test_with_the_gate_off_only_device_plugins_count(cluster: LabCluster) -> None:
    """The gate is set in the arguments of the plugin."""
    config = without_election(DynamicResources={"featureGates": {"DRAExtendedResource": False}})
    await cluster.start(config)
    await cluster.create(*(pod(f"p{number}") for number in range(3)))
    await cluster.until(lambda: len(cluster.by_phase("Running")) == 2)
    (waiting,) = cluster.by_phase("Pending")
    await cluster.refuses(waiting, f"Insufficient {GPU}")
    assert not await claims(cluster)
