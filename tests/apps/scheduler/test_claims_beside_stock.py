"""The same pods on the same devices get what a stock kube-scheduler gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.real.kube_scheduler import STOCK, needs_device_scheduler, stock_scheduler

from numakube.api.resource_claims import ResourceClaim
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.watched_kinds import RESOURCE_CLAIMS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import pod_document, until
from numakube_lab.controllers.object_types import RESOURCE_CLAIM_TEMPLATES
from numakube_lab.testing import LabCluster, Opener, lab_cluster, uniform_plans, without_election

pytestmark = [needs_device_scheduler, pytest.mark.timeout(180)]

GPU: Final = "vendor.example/gpu"
DRIVER: Final = "gpu.vendor.example"
IMPLICIT: Final = f"deviceclass.resource.kubernetes.io/{DRIVER}"
NUMA_NODE: Final = 'device.attributes["resource.kubernetes.io"].numaNode'


def _request(name: str, count: int = 1, *expressions: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    exactly = {"deviceClassName": DRIVER, "count": count, "selectors": selectors}
    return {"name": name, "exactly": exactly}


def _firsts(*counts: int) -> list[dict[str, Any]]:
    return [{"name": f"n{count}", "deviceClassName": DRIVER, "count": count} for count in counts]


CLAIMS: Final[dict[str, dict[str, Any]]] = {
    "far": {"requests": [_request("gpu", 1, f"{NUMA_NODE} == 1")]},
    "together": {
        "requests": [_request("a"), _request("b", 2)],
        "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    },
    "at-best": {"requests": [{"name": "gpu", "firstAvailable": _firsts(9, 2, 1)}]},
}


def _pods(scheduler: str) -> list[dict[str, Any]]:
    """Return pods with claims of every form, and with extended resources."""
    pods = [
        pod_document(
            name,
            "1",
            schedulerName=scheduler,
            resourceClaims=[{"name": "c", "resourceClaimTemplateName": name}],
        )
        for name in CLAIMS
    ]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    named = pod_document("named", "1", also={GPU: "1"}, schedulerName=scheduler)
    first = {
        "name": "first",
        "image": "x",
        "resources": {"requests": {IMPLICIT: "2"}, "limits": {IMPLICIT: "2"}},
    }
    implicit = pod_document(
        "implicit", "1", also={IMPLICIT: "1"}, schedulerName=scheduler, initContainers=[first]
    )
    return [*pods, named, implicit]


async def _placed(cluster: LabCluster, scheduler: str) -> dict[str, Any]:
    """Create the pods one after the other; return what each of them has, and remove them."""
    found = {}
    for document in _pods(scheduler):
        found[document["metadata"]["name"]] = await _given(cluster, document)
    for name in found:
        await cluster.delete(name)
    await until(lambda: _all_gone(cluster))
    return found


async def _given(cluster: LabCluster, document: dict[str, Any]) -> tuple[Any, ...]:
    """Create a pod; return its claim, but for names and times, and what its status says of it."""
    name = document["metadata"]["name"]
    await cluster.create(document)
    await cluster.until(lambda: bool(cluster.pod(name).spec.node_name))
    (claim,) = await _claims(cluster, cluster.pod(name).metadata.uid)
    allocation, status = claim.status.allocation, cluster.pod(name).status
    assert allocation is not None
    extended = status.extended_resource_claim_status if status is not None else None
    return (
        msgspec.structs.replace(allocation, allocation_timestamp=None),
        claim.spec,
        claim.metadata.annotations,
        claim.metadata.finalizers,
        [consumer.name for consumer in claim.status.reserved_for],
        extended.request_mappings if extended is not None else (),
    )


async def _claims(cluster: LabCluster, uid: str) -> list[ResourceClaim]:
    listed = (await cluster.client.list(RESOURCE_CLAIMS, namespace="default")).items
    return [claim for claim in listed if claim.metadata.is_owned_by(uid)]


async def _all_gone(cluster: LabCluster) -> bool:
    listed = (await cluster.client.list(RESOURCE_CLAIMS, namespace="default")).items
    return not listed and not len(cluster.pods.store)


async def test_every_pod_gets_the_devices_that_kube_scheduler_gives_it(
    sites: Opener, tmp_path: Path
) -> None:
    """With ``deviceChoice: FirstFit``, down to the claim that is made for extended resources."""
    machine = from_shape("2 sockets, 16 cores, smt 2, 64Gi, gpu 5")
    (plan,) = uniform_plans(1, machine, "", "1.35")
    config = without_election(DynamicResources={"deviceChoice": "FirstFit"})
    async with (
        lab_cluster(plans=(plan.with_claimable(GPU),), on=sites) as cluster,
        stock_scheduler(tmp_path, cluster.site.kubeconfig),
    ):
        for name, devices in CLAIMS.items():
            template = {"metadata": {"name": name}, "spec": {"spec": {"devices": devices}}}
            await cluster.client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace="default")
        await cluster.start(config)
        stock = await _placed(cluster, STOCK)
        ours = await _placed(cluster, SCHEDULER_NAME)
    assert ours == stock
    assert (
        len({device.device for result in ours.values() for device in result[0].devices.results})
        == 9
    )
