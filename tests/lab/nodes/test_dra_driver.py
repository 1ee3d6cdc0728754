"""A node's DRA drivers publish devices, and its kubelet readies those of claims."""

from __future__ import annotations

from typing import Any

import pytest
from tests.lab.nodes.build import Lab, plan, pod_document

from numakube.errors import ConfigError
from numakube.kube.catalog import (
    CORE_EVENTS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from numakube.node.podresources_client import ClaimedDevice, DynamicResource
from numakube.testing import until
from numakube_lab.nodes.node_documents import NodePlan

GPU = "vendor.example/gpu"
DRIVER = "gpu.vendor.example"


def gpu_node() -> NodePlan:
    """Return the plan of a node with one GPU on each of two NUMA nodes, for claims."""
    return plan("n1", "2 sockets, 4 cores, smt 2, 16Gi, gpu 1").with_claimable(GPU)


def claim(name: str, *devices: str) -> dict[str, Any]:
    """Return a claim that has *devices*."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": len(devices)}}
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": device} for device in devices
    ]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }


async def allocate(lab: Lab, name: str, *devices: str, pods: tuple[str, ...]) -> None:
    """Create a claim that has *devices* and is reserved for *pods*, as a scheduler leaves it."""
    document = claim(name, *devices)
    users = [{"resource": "pods", "name": pod, "uid": await uid_of(lab, pod)} for pod in pods]
    created = await lab.client.create(RESOURCE_CLAIMS, document)
    status = {**document["status"], "reservedFor": users}
    await lab.client.update(RESOURCE_CLAIMS, {**created, "status": status}, subresource="status")


async def uid_of(lab: Lab, pod: str) -> str:
    """Return the uid of a pod."""
    found = await lab.get(pod)
    return str(found.metadata.uid)


def using(name: str, claim_name: str) -> dict[str, Any]:
    """Return a bound pod whose container uses a claim."""
    claims = [{"name": "mine", "resourceClaimName": claim_name}]
    document = pod_document(name, resourceClaims=claims)
    document["spec"]["containers"][0]["resources"]["claims"] = [{"name": "mine"}]
    return document


async def warnings(lab: Lab) -> list[str]:
    """Return what the kubelet warns of."""
    events = (await lab.client.list(CORE_EVENTS, namespace="default")).items
    return [event.message for event in events if event.reason == "FailedPrepareDynamicResources"]


async def test_devices_for_claims_are_published_with_their_place(lab: Lab) -> None:
    """The slice belongs to the node; its class selects the devices of the driver."""
    await lab.pool.add(gpu_node())
    (found,) = (await lab.client.list(RESOURCE_SLICES)).items
    node = await lab.client.get(NODES, "n1")
    assert found["metadata"]["ownerReferences"][0]["uid"] == node.metadata.uid
    assert (found["spec"]["driver"], found["spec"]["nodeName"]) == (DRIVER, "n1")
    places = [device["attributes"] for device in found["spec"]["devices"]]
    assert [place["resource.kubernetes.io/numaNode"] for place in places] == [
        {"int": 0},
        {"int": 1},
    ]
    assert [place["resource.kubernetes.io/pcieRoot"]["string"] for place in places] == [
        "pci0000:00",
        "pci0000:01",
    ]
    kind = await lab.client.get(DEVICE_CLASSES, DRIVER)
    (selector,) = kind["spec"]["selectors"]
    assert selector["cel"]["expression"] == f'device.driver == "{DRIVER}"'


async def test_the_kubelet_does_not_offer_devices_that_are_for_claims(lab: Lab) -> None:
    """The node's status would count them twice."""
    await lab.pool.add(gpu_node())
    node = await lab.client.get(NODES, "n1")
    assert node.status is not None
    assert GPU not in node.status.allocatable


def test_only_devices_of_the_machine_can_be_for_claims() -> None:
    """The message names what the machine has."""
    with pytest.raises(ConfigError, match=r"n1 has no example.com/nic: its machine has vendor"):
        plan("n1", "2 sockets, 4 cores, smt 2, 16Gi, gpu 1").with_claimable("example.com/nic")


async def test_a_pod_starts_when_its_claim_is_allocated_and_reserved_for_it(lab: Lab) -> None:
    """PodResources then lists the devices of the claim for the containers that use it."""
    await lab.pool.add(gpu_node())
    await lab.client.create(PODS, using("p", "one-gpu"))
    warning, *_ = await until(lambda: warnings(lab))
    assert warning.startswith(
        "Failed to prepare dynamic resources: prepare dynamic resources: "
        "fetch ResourceClaim one-gpu:"
    )
    await allocate(lab, "one-gpu", "gpu-1", pods=("p",))
    await lab.clock.advance(11)
    await lab.runs("p")
    (listed,) = lab.pool.kubelet("n1").pod_resources()
    assert listed.containers[0].dynamic_resources == (
        DynamicResource(
            "one-gpu",
            "default",
            (ClaimedDevice(DRIVER, "n1", "gpu-1", "", (f"{DRIVER}/device=gpu-1",)),),
        ),
    )


async def test_a_pod_does_not_start_with_a_claim_of_another_pod(lab: Lab) -> None:
    """A claim may be used by those alone that it is reserved for."""
    await lab.pool.add(gpu_node())
    await lab.client.create(PODS, using("owner", "one-gpu"))
    await allocate(lab, "one-gpu", "gpu-0", pods=("owner",))
    await lab.clock.advance(11)
    await lab.runs("owner")
    before = len(await warnings(lab))
    await lab.client.create(PODS, using("thief", "one-gpu"))
    found = await until(lambda: warnings(lab), lambda told: len(told) > before)
    uid = await uid_of(lab, "thief")
    assert any(f"pod thief ({uid}) is not allowed to use ResourceClaim one-gpu" in m for m in found)
    assert await lab.phase("thief") == "Pending"


async def test_the_driver_of_a_claim_must_be_on_the_node(lab: Lab) -> None:
    """A claim for devices elsewhere is of no use here."""
    await lab.pool.add(plan("n1"))
    await lab.client.create(PODS, using("p", "one-gpu"))
    await allocate(lab, "one-gpu", "gpu-0", pods=("p",))
    await lab.clock.advance(11)
    await until(lambda: warnings(lab), lambda told: any(DRIVER in one for one in told))
