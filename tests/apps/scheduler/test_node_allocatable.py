"""Devices of claims that stand for CPUs of their node (KEP-5517) are counted, and counted once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from kube_lab_server import FaultKind, FaultRule
from numakube.api.scheduler_config import KubeSchedulerConfiguration
from numakube.apps.watched_kinds import RESOURCE_CLAIMS
from numakube.kube.catalog import RESOURCE_SLICES
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import GPU, pod_document, until
from numakube_lab.controllers.object_types import RESOURCE_CLAIM_TEMPLATES
from numakube_lab.testing import LabCluster, lab_cluster, uniform_plans, without_election

DRIVER: Final = "gpu.vendor.example"


@pytest.fixture
async def cluster() -> AsyncIterator[LabCluster]:
    """A node with 14 CPUs for pods, and with two devices that stand for five CPUs each."""
    machine = from_shape("1 socket, 8 cores, smt 2, 32Gi, gpu 2")
    (plan,) = uniform_plans(1, machine, "", "1.35")
    async with lab_cluster(plans=(plan.with_claimable(GPU),)) as found:
        (piece,) = (await found.client.list(RESOURCE_SLICES)).items
        for device in piece["spec"]["devices"]:
            device["nodeAllocatableResources"] = {"cpu": {"mapping": {"deviceMultiplier": "5"}}}
        await found.client.update(RESOURCE_SLICES, piece)
        request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        template = {"metadata": {"name": "one"}, "spec": spec}
        await found.client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace="default")
        yield found


def counting() -> KubeSchedulerConfiguration:
    """Return the configuration of a scheduler with the feature on."""
    return without_election(
        DynamicResources={"featureGates": {"DRANodeAllocatableResources": True}}
    )


def claiming(name: str, cpu: str) -> dict[str, Any]:
    """Return a pod that asks for some CPUs itself and gets five by its claim."""
    claims = [{"name": "c", "resourceClaimTemplateName": "one"}]
    document = pod_document(name, cpu, resourceClaims=claims)
    document["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    return document


async def test_cpus_of_claims_and_of_requests_are_counted_together(cluster: LabCluster) -> None:
    """Of 14 CPUs two pods have six each, so two are left, which a third pod gets."""
    await cluster.start(counting())
    await cluster.create(claiming("a", "1"), claiming("b", "1"))
    await cluster.runs("a", "b")
    status = cluster.pod("a").status
    assert status is not None
    (told,) = status.node_allocatable_resource_claim_statuses
    assert [(resource.name, resource.quantity) for resource in told.mapping] == [("cpu", "5")]
    assert told.containers == ("main",)
    await cluster.create(pod_document("large", "3"))
    await cluster.refuses("large", "Insufficient cpu")
    await cluster.create(pod_document("small", "2"))
    await cluster.runs("small")
    await cluster.delete("a")
    await cluster.runs("large")


async def test_a_pod_that_is_being_bound_counts_already(cluster: LabCluster) -> None:
    """Two pods that come together do not both get CPUs that are there once."""
    rule = FaultRule(kind=FaultKind.DELAY, path="/pods/a/", methods=("PATCH", "POST"), seconds=600)
    cluster.faults.add(rule)
    scheduler = await cluster.start(counting())
    await cluster.create(claiming("a", "4"))
    await until(lambda: _is_allocated(cluster))
    await cluster.create(claiming("b", "4"))
    await cluster.refuses("b", "Insufficient cpu")
    assert not cluster.pod("a").spec.node_name
    await scheduler.kill()


async def test_with_the_feature_off_nothing_is_counted_or_written(cluster: LabCluster) -> None:
    """As kube-scheduler does by default: the node is overcommitted."""
    await cluster.start()
    await cluster.create(claiming("a", "4"), claiming("b", "4"))
    await cluster.runs("a", "b")
    statuses = (cluster.pod(name).status for name in ("a", "b"))
    assert not any(status.node_allocatable_resource_claim_statuses for status in statuses if status)
    await asyncio.gather(cluster.delete("a"), cluster.delete("b"))


async def _is_allocated(cluster: LabCluster) -> bool:
    claims = (await cluster.client.list(RESOURCE_CLAIMS, namespace="default")).items
    return any(claim.status.allocation is not None for claim in claims)
