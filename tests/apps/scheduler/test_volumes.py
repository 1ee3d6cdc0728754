"""Pods with volumes, the test is the provisioner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from numakube.apps.watched_kinds import CLAIMS, RESOURCES, VOLUMES
from numakube.kube.client import Client, merge_patch
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(180)

SELECTED = "volume.kubernetes.io/selected-node"
CLASSES = RESOURCES["storage_classes"]


async def storage_class(client: Client, name: str, provisioner: str) -> None:
    """Create a class whose volumes wait for their first pod."""
    document = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await client.create(CLASSES.raw, document)


def claim(name: str, of_class: str) -> dict[str, Any]:
    """Return a claim of one gibibyte."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def disk(name: str, node: str, **spec: Any) -> dict[str, Any]:
    """Return a volume that only *node* can use."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            **spec,
        },
    }


async def offer(admin: Client, volume: dict[str, Any]) -> None:
    """Create a volume, and say that it is available, as the volume controller does."""
    await admin.create(VOLUMES.raw, volume)
    phase = merge_patch({"status": {"phase": "Available"}})
    await admin.patch(VOLUMES.raw, volume["metadata"]["name"], phase, subresource="status")


def user_of(name: str, claimed: str) -> dict[str, Any]:
    """Return a pod that uses a claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claimed}}
    return pod_document(name, volumes=[volume])


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Three nodes."""
    async with lab_cluster(3, shape="1 socket, 6 cores, smt 1, 16Gi", on=sites) as world:
        yield world


async def test_a_claim_is_told_its_node_and_the_pod_waits_for_the_volume(world: LabCluster) -> None:
    """The provisioner makes the volume there; only then is the pod bound, to that node."""
    admin = world.client
    await storage_class(admin, "made", "example.com/disks")
    await admin.create(CLAIMS.raw, claim("data", "made"), namespace="default")
    await world.start()
    await world.create(user_of("p", "data"))
    selected = ""

    async def is_selected() -> bool:
        nonlocal selected
        found = await admin.get(CLAIMS.raw, "data", namespace="default")
        selected = (found["metadata"].get("annotations") or {}).get(SELECTED, "")
        return bool(selected)

    await world.until(is_selected)
    assert not world.pod("p").spec.node_name
    await world.until(lambda: nominated(world, "p") == selected)
    await provision(admin, selected)
    await world.until(lambda: bool(world.pod("p").spec.node_name))
    assert world.pod("p").spec.node_name == selected


def nominated(world: LabCluster, name: str) -> str:
    """Return where a pod is expected, as its status says."""
    status = world.pod(name).status
    return status.nominated_node_name if status else ""


async def test_a_pod_whose_volume_does_not_come_is_expected_nowhere(world: LabCluster) -> None:
    """Others see its node for as long as it waits there, and no longer (KEP-5278)."""
    admin = world.client
    await storage_class(admin, "made", "example.com/disks")
    await admin.create(CLAIMS.raw, claim("data", "made"), namespace="default")
    await world.start()
    await world.create(user_of("p", "data"))
    await world.until(lambda: bool(nominated(world, "p")))

    unprotected = merge_patch({"metadata": {"finalizers": None}})
    await admin.patch(CLAIMS.raw, "data", unprotected, namespace="default")
    await admin.delete(CLAIMS.raw, "data", namespace="default")

    await world.until(lambda: not nominated(world, "p"))
    assert not world.pod("p").spec.node_name


async def test_a_pod_that_waits_for_its_volume_holds_up_no_other_on_its_node(sites: Opener) -> None:
    """However slow its provisioner is; its room is kept, and both run in the end."""
    async with lab_cluster(1, shape="2 sockets, 4 cores, smt 1, 16Gi", on=sites) as world:
        admin = world.client
        await storage_class(admin, "made", "example.com/disks")
        await admin.create(CLAIMS.raw, claim("data", "made"), namespace="default")
        await world.start()
        await world.create(user_of("waits", "data"))
        await world.until(lambda: nominated(world, "waits") == "node-0")

        await world.create(pod_document("comes", "3"))
        await world.until(lambda: "comes" in world.by_phase("Running"))
        assert not world.pod("waits").spec.node_name

        await provision(admin, "node-0")
        await world.until(lambda: "waits" in world.by_phase("Running"))


async def provision(admin: Client, node: str) -> None:
    """Do what a provisioner and the volume controller do together."""
    found = await admin.get(CLAIMS.raw, "data", namespace="default")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    reference["uid"] = found["metadata"]["uid"]
    made = disk("made-1", node, storageClassName="made", claimRef=reference)
    await admin.create(VOLUMES.raw, made)
    annotation = {"pv.kubernetes.io/bind-completed": "yes"}
    change = {"metadata": {"annotations": annotation}, "spec": {"volumeName": "made-1"}}
    await admin.patch(CLAIMS.raw, "data", merge_patch(change), namespace="default")
    phase = merge_patch({"status": {"phase": "Bound"}})
    await admin.patch(CLAIMS.raw, "data", phase, namespace="default", subresource="status")


async def test_a_volume_that_is_bound_decides_about_the_node(world: LabCluster) -> None:
    """Wherever the scores would rather have it."""
    admin = world.client
    await storage_class(admin, "static", "kubernetes.io/no-provisioner")
    await admin.create(CLAIMS.raw, claim("data", "static"), namespace="default")
    found = await admin.get(CLAIMS.raw, "data", namespace="default")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    reference["uid"] = found["metadata"]["uid"]
    volume = disk("disk", "node-2", storageClassName="static", claimRef=reference)
    await admin.create(VOLUMES.raw, volume)
    annotation = {"pv.kubernetes.io/bind-completed": "yes"}
    change = {"metadata": {"annotations": annotation}, "spec": {"volumeName": "disk"}}
    await admin.patch(CLAIMS.raw, "data", merge_patch(change), namespace="default")
    await world.start()
    await world.create(user_of("p", "data"))
    await world.until(lambda: bool(world.pod("p").spec.node_name))
    assert world.pod("p").spec.node_name == "node-2"


async def test_a_pod_whose_claim_is_missing_waits_until_it_is_there(world: LabCluster) -> None:
    """The new claim wakes it."""
    admin = world.client
    await storage_class(admin, "static", "kubernetes.io/no-provisioner")
    await world.start()
    await world.create(user_of("p", "data"))
    await world.settled()
    await offer(admin, disk("disk", "node-1", storageClassName="static"))
    await admin.create(CLAIMS.raw, claim("data", "static"), namespace="default")

    async def is_taken() -> bool:
        found = await admin.get(VOLUMES.raw, "disk")
        return bool((found["spec"].get("claimRef") or {}).get("name") == "data")

    await world.until(is_taken)
