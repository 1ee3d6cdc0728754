"""A real kube-scheduler works with the lab unchanged."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.real.kube_scheduler import (
    STOCK,
    kube_scheduler,
    needs_device_scheduler,
    needs_scheduler,
    stock_scheduler,
)

from kube_lab_server import ApiServer, User
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import pod_document
from numakube_lab.controllers.object_types import RESOURCE_CLAIM_TEMPLATES
from numakube_lab.testing import lab_cluster, uniform_plans

pytestmark = [needs_scheduler, pytest.mark.timeout(120)]

USERS = {
    "admin-test": User("admin", "u-admin", ("system:masters",)),
    "scheduler-test": User("system:kube-scheduler", "u-scheduler", ()),
}
GPU = "vendor.example/gpu"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lab:
    """A client of the lab, as its administrator."""

    session: aiohttp.ClientSession

    async def create(self, path: str, body: Json) -> None:
        """Create something that must be acceptable."""
        async with self.session.post(path, json=body) as response:
            assert response.status == 201, await response.text()

    async def until(self, path: str, found: Callable[[Json], bool]) -> Json:
        """Watch a collection until one of its objects is as wanted."""
        query = {"watch": "true", "timeoutSeconds": "60"}
        async with self.session.get(path, params=query) as response:
            async for line in response.content:
                changed: Json = json.loads(line)["object"]
                if found(changed):
                    return changed
        pytest.fail(f"{path}: nothing was as wanted")


def _node(name: str, cpu: str) -> Json:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": room}}


def _pod(name: str, cpu: str, **spec: str) -> Json:
    container = {"name": "main", "image": "img", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {**spec, "containers": [container]}}


def _kubeconfig(directory: Path, server: ApiServer) -> Path:
    assert server.authority is not None
    (directory / "ca.crt").write_bytes(server.authority.certificate)
    cluster = {"server": server.url, "certificate-authority": str(directory / "ca.crt")}
    path = directory / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "lab", "cluster": cluster}],
                "users": [{"name": "me", "user": {"token": "scheduler-test"}}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
                "current-context": "lab",
            }
        )
    )
    return path


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    """A lab that demands rights, in which a real scheduler works with those of its own role."""
    headers = {"Authorization": "Bearer admin-test"}
    async with ApiServer(users=USERS, rbac=True, tls=True) as server:
        kubeconfig = _kubeconfig(tmp_path, server)
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=trust)
        async with (
            aiohttp.ClientSession(server.url, headers=headers, connector=connector) as session,
            kube_scheduler(tmp_path, f"--kubeconfig={kubeconfig}", "--leader-elect=true"),
        ):
            yield Lab(session)


async def _with_node(lab: Lab, name: str, cpu: str) -> None:
    await lab.create("/api/v1/nodes", _node(name, cpu))
    # Nodes are born with the taint of those that are not ready yet; here nobody takes it away.
    taints = {"spec": {"taints": None}}
    kind = {"Content-Type": "application/merge-patch+json"}
    url = f"/api/v1/nodes/{name}"
    async with lab.session.patch(url, data=json.dumps(taints), headers=kind) as response:
        assert response.status == 200, await response.text()


async def test_pods_are_placed_and_told_of(lab: Lab) -> None:
    """It leads, binds what fits, and says why something does not."""
    await _with_node(lab, "n1", "4")
    await lab.create(PODS, _pod("fits", "1"))
    await lab.create(PODS, _pod("large", "8"))
    await lab.until(LEASES, lambda lease: bool(lease["spec"].get("holderIdentity")))
    await lab.until(PODS, lambda pod: pod["spec"].get("nodeName") == "n1")
    scheduled = await lab.until(EVENTS, lambda event: event["reason"] == "Scheduled")
    assert scheduled["note"] == "Successfully assigned default/fits to n1"
    waiting = await lab.until(PODS, lambda pod: _is_unschedulable(pod, "large"))
    (condition,) = waiting["status"]["conditions"]
    assert "Insufficient cpu" in condition["message"]


async def test_a_less_important_pod_makes_room(lab: Lab) -> None:
    """It deletes the pod and nominates the node."""
    await _with_node(lab, "n1", "4")
    await lab.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    await lab.create(PODS, _pod("low", "3"))
    await lab.until(PODS, lambda pod: pod["spec"].get("nodeName") == "n1")
    await lab.create(PODS, _pod("high", "3", priorityClassName="high"))
    victim = await lab.until(PODS, lambda pod: "deletionTimestamp" in pod["metadata"])
    assert victim["metadata"]["name"] == "low"
    await lab.until(PODS, lambda pod: pod["status"].get("nominatedNodeName") == "n1")


@needs_device_scheduler
async def test_claims_are_allocated_from_the_slices_of_lab_nodes(tmp_path: Path) -> None:
    """Each pod gets a device of its own; one too many waits until a claim is given back."""
    machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 1")
    plans = [plan.with_claimable(GPU) for plan in uniform_plans(1, machine, "", "1.35")]
    async with (
        lab_cluster(plans=tuple(plans)) as cluster,
        stock_scheduler(tmp_path, cluster.site.kubeconfig),
    ):
        template = {"metadata": {"name": "one-gpu"}, "spec": {"spec": _GPU_CLAIM}}
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace="default")
        await cluster.create(*(_claiming(f"p{number}") for number in range(3)))
        await cluster.until(lambda: len(cluster.by_phase("Running")) == 2)
        claims = (await cluster.client.list(RESOURCE_CLAIMS, namespace="default")).items
        devices = sorted(device for claim in claims for device in _devices(claim))
        assert devices == ["gpu-0", "gpu-1"]
        (waiting,) = cluster.by_phase("Pending")
        await cluster.delete(next(iter(cluster.by_phase("Running"))))
        await cluster.runs(waiting)


@needs_device_scheduler
async def test_extended_resources_are_served_from_the_slices_of_lab_nodes(tmp_path: Path) -> None:
    """The special claim and the status that kube-scheduler writes are good for lab kubelets."""
    machine = from_shape("1 socket, 8 cores, smt 2, 32Gi, gpu 2")
    plugin, driver = uniform_plans(2, machine, "", "1.35")
    async with (
        lab_cluster(plans=(plugin, driver.with_claimable(GPU))) as cluster,
        stock_scheduler(tmp_path, cluster.site.kubeconfig),
    ):
        pods = [
            pod_document(f"p{number}", "2", also={GPU: "1"}, schedulerName=STOCK)
            for number in range(5)
        ]
        await cluster.create(*pods)
        await cluster.until(lambda: len(cluster.by_phase("Running")) == 4)
        claims = (await cluster.client.list(RESOURCE_CLAIMS, namespace="default")).items
        assert sorted(device for claim in claims for device in _devices(claim)) == [
            "gpu-0",
            "gpu-1",
        ]
        (waiting,) = cluster.by_phase("Pending")
        await cluster.delete(claims[0]["metadata"]["ownerReferences"][0]["name"])
        await cluster.runs(waiting)


_GPU_CLAIM = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.vendor.example"}}]}
}


def _claiming(name: str) -> Json:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    pod = pod_document(name, "2", schedulerName=STOCK, resourceClaims=claims)
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return pod


def _devices(claim: Json) -> list[str]:
    allocation = claim.get("status", {}).get("allocation", {})
    return [result["device"] for result in allocation.get("devices", {}).get("results", [])]


def _is_unschedulable(pod: Json, name: str) -> bool:
    reasons = [c.get("reason") for c in pod["status"].get("conditions", ())]
    return pod["metadata"]["name"] == name and "Unschedulable" in reasons
