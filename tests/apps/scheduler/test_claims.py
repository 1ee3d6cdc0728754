"""Claims for devices, from the scheduler's decision to the API server and back."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from kube_lab_server import FaultKind, FaultRule
from numakube.api.resource_claims import FINALIZER
from numakube.apps.watched_kinds import RESOURCE_CLAIMS, RESOURCES
from numakube.kube.catalog import PODS
from numakube.kube.client import merge_patch
from numakube.scheduling.scheduling_queue import Place
from numakube.testing import until
from numakube_lab.testing import lab_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from numakube.api.resource_claims import ResourceClaim
    from numakube_lab.testing import LabCluster, Opener

DRIVER: Final = "gpu.example.com"


@pytest.fixture
async def cluster(sites: Opener) -> AsyncIterator[LabCluster]:
    """One node with two devices, and a scheduler."""
    async with _two_devices(on=sites) as found:
        yield found


@asynccontextmanager
async def _two_devices(**more: Any) -> AsyncIterator[LabCluster]:
    async with lab_cluster(nodes=1, exporters=False, **more) as found:
        node = next(iter(found.pool.kubelets))
        await found.client.create(RESOURCES["device_classes"].raw, _class())
        await found.client.create(RESOURCES["resource_slices"].raw, _slice(node, 2))
        await found.start()
        yield found


def _class() -> dict[str, Any]:
    expression = f'device.driver == "{DRIVER}"'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": expression}}],
        },
    }


def _slice(node: str, count: int) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{index}"} for index in range(count)],
        },
    }


def _claim(name: str, count: int = 1) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def _pod(name: str, claim: str, **source: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m"}, "claims": [{"name": "c"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "numakube-scheduler",
            "containers": [{"name": "main", "image": "x", "resources": resources}],
            "resourceClaims": [{"name": "c", **(source or {"resourceClaimName": claim})}],
        },
    }


async def _read(cluster: LabCluster, name: str) -> ResourceClaim:
    return await cluster.client.get(RESOURCE_CLAIMS, name, namespace="default")


async def _make(cluster: LabCluster, *names: str, count: int = 1) -> None:
    for name in names:
        await cluster.client.create(RESOURCE_CLAIMS.raw, _claim(name, count), namespace="default")


def _devices(claim: ResourceClaim) -> list[str]:
    allocation = claim.status.allocation
    return (
        [device.device for device in allocation.devices.results] if allocation is not None else []
    )


async def test_a_claim_is_allocated_reserved_and_protected(cluster: LabCluster) -> None:
    """Before the pod is bound, and with the time, which other schedulers need."""
    await _make(cluster, "c")
    await cluster.create(_pod("p", "c"))
    await cluster.until(lambda: bool(cluster.pod("p").spec.node_name))
    claim = await _read(cluster, "c")
    assert _devices(claim) == ["gpu-0"]
    assert FINALIZER in claim.metadata.finalizers
    assert [consumer.name for consumer in claim.status.reserved_for] == ["p"]
    assert claim.status.allocation is not None
    assert claim.status.allocation.allocation_timestamp is not None


async def test_two_pods_share_a_claim(cluster: LabCluster) -> None:
    """The devices are allocated once."""
    await _make(cluster, "c")
    await cluster.create(_pod("p", "c"), _pod("q", "c"))
    await cluster.until(
        lambda: bool(cluster.pod("p").spec.node_name and cluster.pod("q").spec.node_name)
    )
    claim = await _read(cluster, "c")
    assert _devices(claim) == ["gpu-0"]
    assert {consumer.name for consumer in claim.status.reserved_for} == {"p", "q"}


async def test_a_pod_waits_for_devices_and_is_woken_when_they_are_free(
    cluster: LabCluster,
) -> None:
    """By the claim that gives them back."""
    await _make(cluster, "all", count=2)
    await _make(cluster, "one")
    await cluster.create(_pod("p", "all"))
    await cluster.until(lambda: bool(cluster.pod("p").spec.node_name))
    await cluster.create(_pod("q", "one"))
    await cluster.refuses("q", "cannot allocate all claims")
    await cluster.delete("p")
    change = merge_patch({"status": {"allocation": None, "reservedFor": None}})
    await cluster.client.patch(
        RESOURCE_CLAIMS, "all", change, namespace="default", subresource="status"
    )
    await cluster.until(lambda: bool(cluster.pod("q").spec.node_name))
    assert _devices(await _read(cluster, "one")) == ["gpu-0"]


async def test_a_selector_that_never_ends_keeps_only_its_own_pod_waiting() -> None:
    """The pod is told why, others are placed, and it is tried again late.

    A real API server refuses this selector: it reckons the cost of the worst case beforehand.
    """
    async with _two_devices() as cluster:
        await _meets_a_selector_that_never_ends(cluster)


async def _meets_a_selector_that_never_ends(cluster: LabCluster) -> None:
    evil = _claim("evil")
    endless = "lists.range(900).all(x, lists.range(900).all(y, x + y >= 0))"
    selectors = [{"cel": {"expression": endless}}]
    evil["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = selectors
    await cluster.client.create(RESOURCE_CLAIMS.raw, evil, namespace="default")
    await _make(cluster, "good")
    await cluster.create(_pod("p", "evil"), _pod("q", "good"))
    await cluster.until(lambda: bool(cluster.pod("q").spec.node_name))
    await cluster.refuses("p", "actual cost limit exceeded")
    await cluster.refuses("p", "claim default/evil: selector #0")
    uid = cluster.pod("p").metadata.uid
    waiting = cluster.running[0].process.scheduler.queue.get(uid)
    assert waiting is not None
    assert waiting.place is Place.BACKOFF
    assert waiting.retry_at - waiting.queued_at >= 10.0


async def test_a_pod_waits_until_its_claim_exists(cluster: LabCluster) -> None:
    """It is not even tried before."""
    await cluster.create(_pod("p", "late"))
    await _make(cluster, "late")
    await cluster.until(lambda: bool(cluster.pod("p").spec.node_name))


async def test_a_pod_of_a_template_waits_for_the_claim_in_its_status(cluster: LabCluster) -> None:
    """Which must be its own."""
    await cluster.create(_pod("p", "", resourceClaimTemplateName="t"))
    uid = cluster.pod("p").metadata.uid
    claim = _claim("p-c-x")
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    ]
    await cluster.client.create(RESOURCE_CLAIMS.raw, claim, namespace="default")
    statuses = [{"name": "c", "resourceClaimName": "p-c-x"}]
    change = merge_patch({"status": {"resourceClaimStatuses": statuses}})
    await cluster.client.patch(PODS, "p", change, namespace="default", subresource="status")
    await cluster.until(lambda: bool(cluster.pod("p").spec.node_name))
    assert _devices(await _read(cluster, "p-c-x")) == ["gpu-0"]


async def test_a_binding_that_fails_takes_the_reservation_back(cluster: LabCluster) -> None:
    """The allocation stays with the claim, so that the next attempt uses it."""
    await _make(cluster, "c")
    failing = FaultRule(kind=FaultKind.FAIL, code=400, methods=("POST",), path="/binding$", times=1)
    cluster.faults.add(failing)
    await cluster.create(_pod("p", "c"))
    await cluster.until(lambda: bool(cluster.pod("p").spec.node_name))

    async def is_reserved_once() -> bool:
        claim = await _read(cluster, "c")
        return [consumer.name for consumer in claim.status.reserved_for] == ["p"]

    await until(is_reserved_once)
