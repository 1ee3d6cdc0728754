"""A small world with devices of DRA drivers, and pods that have claims for them."""

from __future__ import annotations

from typing import Any

import msgspec

from numakube.api.codec import convert
from numakube.api.pod import Pod, PodResourceClaim, ResourceClaimUse
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CYCLE_CLAIMS
from numakube.testing import Scheduler, World, pod
from numakube.testing.claim_api import ReplayedApi

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
NUMA = "resource.kubernetes.io/numaNode"
ROOT = "resource.kubernetes.io/pcieRoot"


def device(name: str, numa: int | list[int] | None = None, root: str = "") -> dict[str, Any]:
    """Return a device of a slice."""
    value = {"ints": numa} if isinstance(numa, list) else {"int": numa}
    attributes: dict[str, Any] = {} if numa is None else {NUMA: value}
    return {"name": name, "attributes": attributes | ({ROOT: {"string": root}} if root else {})}


def offer(world: World, node: str, *devices: dict[str, Any]) -> None:
    """Publish devices of a node."""
    tree = {
        "metadata": {"name": node},
        "spec": {
            "driver": "gpu.example",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }
    world.objects.resource_slices[node] = convert(ResourceSlice, tree)
    kind = convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})
    world.objects.device_classes["gpu"] = kind


def claim(
    world: World,
    name: str,
    count: int = 1,
    *,
    devices: tuple[str, ...] = (),
    mode: str = "ExactCount",
) -> None:
    """Add a claim for GPUs; with *devices* it has them already."""
    results = [
        {"request": "r", "driver": "gpu.example", "pool": "n", "device": one} for one in devices
    ]
    exactly = {"deviceClassName": "gpu", "count": count, "allocationMode": mode}
    request = {"name": "r", "exactly": exactly}
    tree: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }
    world.objects.resource_claims[f"default/{name}"] = convert(ResourceClaim, tree)


def claiming(name: str, *claims: str, cpu: str = "4", **more: Any) -> Pod:
    """Return a pod whose container uses claims."""
    return using(pod(name, cpu, **more), *claims)


def using(one: Pod, *claims: str) -> Pod:
    """Return a pod whose only container uses those of its claims."""
    (main,) = one.spec.containers
    assert main.resources is not None
    uses = tuple(ResourceClaimUse(name=each) for each in claims)
    wanted = msgspec.structs.replace(main.resources, claims=uses)
    main = msgspec.structs.replace(main, resources=wanted)
    named = tuple(map(_named, claims))
    spec = msgspec.structs.replace(one.spec, containers=(main,), resource_claims=named)
    return msgspec.structs.replace(one, spec=spec)


def _named(name: str) -> PodResourceClaim:
    return PodResourceClaim(name=name, resource_claim_name=name)


def decide(world: World, one: Pod, **args: str) -> Chosen | Refused:
    """Return what a scheduler decides that may change claims."""
    return scheduler(world, **args).decide(one)


def scheduler(world: World, api: type[ReplayedApi] = ReplayedApi, /, **args: str) -> Scheduler:
    """Return a scheduler that may change claims."""

    def make(given: Any, handle: Any) -> DynamicResources:
        objects = handle.cluster.objects
        return DynamicResources.from_args({**given, **args}, objects=objects, actions=api(objects))

    return world.scheduler(plugins={"DynamicResources": make})


def allocations(decision: Chosen | Refused) -> tuple[AllocationResult, ...]:
    """Return what the claims get."""
    assert isinstance(decision, Chosen), decision
    known = decision.state.read(CYCLE_CLAIMS)
    assert known is not None
    return known.nodes[decision.node].allocations


def names(decision: Chosen | Refused) -> list[str]:
    """Return the devices that were chosen."""
    return [result.device for each in allocations(decision) for result in each.devices.results]
