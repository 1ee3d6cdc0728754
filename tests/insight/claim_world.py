"""Small clusters with devices of a DRA driver, and claims that hold some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numakube.api.codec import convert
from numakube.api.pod import Pod, PodResourceClaim
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.testing import World, pod

DRIVER = "gpu.example"
NUMA = "resource.kubernetes.io/numaNode"


def device(name: str, zone: int | list[int] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a device, on a NUMA node if one is given, or local to several."""
    value = {"ints": zone} if isinstance(zone, list) else {"int": zone}
    attributes = {} if zone is None else {NUMA: value}
    return {"name": name, "attributes": attributes, **fields}


def add_slice(world: World, node: str, devices: Sequence[dict[str, Any]], **spec: Any) -> None:
    """Let the driver offer *devices* on *node*."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    tree = {
        "metadata": {"name": f"{node}-slice"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices, **spec},
    }
    world.objects.resource_slices[f"{node}-slice"] = convert(ResourceSlice, tree)


def add_class(world: World) -> None:
    """Add the class of all devices of the driver, which has the driver's name."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    tree = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    world.objects.device_classes[DRIVER] = convert(DeviceClass, tree)


def add_claim(world: World, name: str, *held: str, pods: Sequence[str] = (), **result: Any) -> None:
    """Add a claim that holds devices, each as ``node/device``, and is reserved for *pods*."""
    add_class(world)
    exactly = {"deviceClassName": DRIVER, "count": max(len(held), 1)}
    results = [
        {"request": "r", "driver": DRIVER, "pool": pool, "device": one, **result}
        for pool, _, one in (text.partition("/") for text in held)
    ]
    users = [{"resource": "pods", "name": user, "uid": user} for user in pods]
    tree: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    if held:
        devices = {"results": results}
        tree["status"] = {"allocation": {"devices": devices}, "reservedFor": users}
    world.objects.resource_claims[f"default/{name}"] = convert(ResourceClaim, tree)


def claiming(name: str, claim: str, **more: Any) -> Pod:
    """Return a pod that uses a claim of that name."""
    claims = (PodResourceClaim(name="device", resource_claim_name=claim),)
    return pod(name, resource_claims=claims, **more)


def mixed() -> World:
    """Return a pod with CPUs on one NUMA node and a device on the other, and two that share one."""
    world = two_zones()
    world.run(claiming("train", "far", cpu="4", memory="1Gi"), "node-a")
    world.run(claiming("one", "shared", guaranteed=False), "node-a")
    world.run(claiming("two", "shared", guaranteed=False), "node-a")
    add_claim(world, "far", "node-a/gpu-3", pods=["train"])
    add_claim(world, "shared", "node-a/gpu-0", pods=["one", "two"])
    add_claim(world, "kept", "node-a/lost")
    return world


def two_zones(policy: str = "best-effort") -> World:
    """Return a node with two devices on each NUMA node, and one whose place is not told."""
    world = World()
    world.add_node("node-a", policy)
    devices = [device(f"gpu-{number}", number // 2) for number in range(4)]
    add_slice(world, "node-a", [*devices, device("lost")])
    return world
