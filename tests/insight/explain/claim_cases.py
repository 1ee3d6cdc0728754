"""Pods whose devices come from DRA drivers, and why they do not get them."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.insight.explain.case import Case, case

from numakube.api.codec import convert
from numakube.api.meta import OwnerReference
from numakube.api.pod import (
    ContainerExtendedResourceRequest,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodStatus,
)
from numakube.api.resource_claims import (
    EXTENDED_RESOURCE_CLAIM,
    ResourceClaim,
    ResourceClaimTemplate,
)
from numakube.api.resource_slices import DeviceClass, DeviceTaint, ResourceSlice
from numakube.insight.explain import manifest_subject, pod_subject
from numakube.testing import World, pod

Tree = dict[str, Any]
DRIVER = "gpu.example"
CARD = "gpu.example/card"
NUMA = "resource.kubernetes.io/numaNode"
ROOT = "resource.kubernetes.io/pcieRoot"
LARGE = {"cel": {"expression": f'device.attributes["{DRIVER}"].memory == "80Gi"'}}


def with_devices(world: World, node: str, *, large: bool = False) -> None:
    """Give *node* a device on each of its two NUMA nodes."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                NUMA: {"int": number},
                ROOT: {"string": f"pci0000:{number}0"},
                "memory": {"string": "80Gi" if large else "40Gi"},
            },
        }
        for number in range(2)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    tree = {"metadata": {"name": f"{node}-gpu"}, "spec": spec}
    world.objects.resource_slices[f"{node}-gpu"] = convert(ResourceSlice, tree)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    tree = {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}
    world.objects.device_classes["gpu"] = convert(DeviceClass, tree)


def claim(world: World, name: str, *, held: str = "", **parts: Any) -> None:
    """Add a claim; one that holds a device has a pod, too."""
    constraints = parts.pop("constraints", [])
    request = {"name": "one", "exactly": {"deviceClassName": "gpu", "count": 1, **parts}}
    status: Tree = {}
    if held:
        node, _, device = held.partition("/")
        result = {"request": "one", "driver": DRIVER, "pool": node, "device": device}
        status["allocation"] = {"devices": {"results": [result]}}
        status["reservedFor"] = [{"resource": "pods", "name": f"{name}-user", "uid": name}]
    tree = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [request], "constraints": constraints}},
        "status": status,
    }
    world.objects.resource_claims[f"default/{name}"] = convert(ResourceClaim, tree)


def claiming(world: World, **amounts: str) -> Case:
    """Return the pod that uses the claim ``mine``."""
    claims = (PodResourceClaim(name="gpu", resource_claim_name="mine"),)
    return Case(world.facts(), pod_subject(pod("train", resource_claims=claims, **amounts)))


def two_nodes(policy: str = "single-numa-node") -> World:
    """Return two nodes with two devices each; those of the second have more memory."""
    world = World()
    for name in ("node-a", "node-b"):
        world.add_node(name, policy)
        with_devices(world, name, large=name == "node-b")
    return world


@case
def claims_for_devices_that_others_hold() -> Case:
    """Of those that the selector leaves, one is free, and two are wanted."""
    world = two_nodes()
    claim(world, "other", held="node-b/gpu-0")
    claim(world, "mine", count=2, selectors=[LARGE])
    return claiming(world)


@case
def claims_with_a_selector_of_no_device() -> Case:
    """The class has devices, the request wants others."""
    world = World()
    world.add_node("node-a")
    with_devices(world, "node-a")
    claim(world, "mine", selectors=[LARGE])
    return claiming(world)


@case
def claims_with_a_constraint() -> Case:
    """Two devices are there, but not on one PCIe root; the kubelets insist on nothing."""
    world = two_nodes("best-effort")
    claim(world, "mine", count=2, constraints=[{"matchAttribute": ROOT}])
    return claiming(world)


@case
def claims_far_from_cpus() -> Case:
    """The only free device is where no CPUs are."""
    world = World()
    world.add_node("node-a")
    with_devices(world, "node-a")
    world.run(pod("full", cpu="6", memory="1Gi"), "node-a")
    claim(world, "other", held="node-a/gpu-1")
    claim(world, "mine")
    return claiming(world, cpu="4", memory="1Gi")


@case
def claims_that_have_devices_far_from_cpus() -> Case:
    """Another pod shares the claim; the CPUs beside its device are taken."""
    world = World()
    world.add_node("node-a")
    with_devices(world, "node-a")
    world.run(pod("full", cpu="6", memory="1Gi"), "node-a")
    claim(world, "mine", held="node-a/gpu-0")
    return claiming(world, cpu="4", memory="1Gi")


@case
def claims_that_can_be_served() -> Case:
    """On the node whose devices are large enough."""
    world = two_nodes()
    claim(world, "mine", selectors=[LARGE])
    return claiming(world)


@case
def claims_made_from_a_template() -> Case:
    """The pod's status names the claim; nobody knows it by the pod's spec alone."""
    world = two_nodes()
    claim(world, "mine", selectors=[LARGE])
    found = world.objects.resource_claims["default/mine"]
    owner = OwnerReference(api_version="v1", kind="Pod", name="train", uid="train", controller=True)
    metadata = msgspec.structs.replace(found.metadata, owner_references=(owner,))
    world.objects.resource_claims["default/mine"] = msgspec.structs.replace(
        found, metadata=metadata
    )
    claims = (PodResourceClaim(name="gpu", resource_claim_template_name="one"),)
    made = (PodResourceClaimStatus(name="gpu", resource_claim_name="mine"),)
    status = PodStatus(phase="Pending", resource_claim_statuses=made)
    one = msgspec.structs.replace(pod("train", resource_claims=claims), status=status)
    return Case(world.facts(), pod_subject(one))


@case
def manifest_with_claims_of_a_template() -> Case:
    """The pod does not exist yet, and so does not its claim; the template tells what it will be."""
    world = two_nodes()
    claim(world, "other", held="node-b/gpu-0")
    body = {"deviceClassName": "gpu", "count": 2, "selectors": [LARGE]}
    requests = [{"name": "one", "exactly": body}]
    tree = {
        "metadata": {"name": "large", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    templates = {"default/large": convert(ResourceClaimTemplate, tree)}
    claims = (PodResourceClaim(name="gpu", resource_claim_template_name="large"),)
    facts = dataclasses.replace(world.facts(), claim_templates=templates)
    return Case(facts, manifest_subject(pod("train", resource_claims=claims)))


def serving(world: World) -> None:
    """Let the class serve an extended resource."""
    kind = world.objects.device_classes["gpu"]
    spec = replace(kind.spec, extended_resource_name=CARD)
    world.objects.device_classes["gpu"] = replace(kind, spec=spec)


@case
def claims_for_an_extended_resource() -> Case:
    """The pod has no claim of its own; one device of the driver is left where two are wanted."""
    world = two_nodes("best-effort")
    serving(world)
    for number, held in enumerate(("node-a/gpu-0", "node-b/gpu-0", "node-b/gpu-1")):
        claim(world, f"other-{number}", held=held)
    return Case(world.facts(), pod_subject(pod("train", also={CARD: "2"})))


@case
def claims_for_an_extended_resource_of_a_running_pod() -> Case:
    """Its claim was made by the scheduler; placed again, the pod would get another."""
    world = two_nodes("best-effort")
    serving(world)
    claim(world, "train", held="node-a/gpu-0")
    mapping = ContainerExtendedResourceRequest("main", CARD, "one")
    extended = PodExtendedResourceClaimStatus((mapping,), "train")
    there = world.run(pod("train-user", also={CARD: "1"}), "node-a")
    status = PodStatus(phase="Running", extended_resource_claim_status=extended)
    there = replace(there, status=status)
    found = world.objects.resource_claims["default/train"]
    owner = OwnerReference(
        api_version="v1", kind="Pod", name="train-user", uid=there.metadata.uid, controller=True
    )
    metadata = replace(
        found.metadata,
        owner_references=(owner,),
        annotations={EXTENDED_RESOURCE_CLAIM: "true"},
    )
    world.objects.resource_claims["default/train"] = replace(found, metadata=metadata)
    return Case(world.facts(), pod_subject(there))


@case
def claims_for_devices_with_a_taint() -> Case:
    """The driver has marked one device, somebody holds the other."""
    world = World()
    world.add_node("node-a")
    with_devices(world, "node-a")
    (one,) = world.objects.resource_slices.values()
    taint = DeviceTaint(key="gpu.example/broken", effect="NoSchedule")
    devices = (replace(one.spec.devices[0], taints=(taint,)), one.spec.devices[1])
    tainted = replace(one, spec=replace(one.spec, devices=devices))
    world.objects.resource_slices[one.metadata.name] = tainted
    claim(world, "other", held="node-a/gpu-1")
    claim(world, "mine")
    return claiming(world)


@case
def claims_of_a_pod_that_runs_far_from_its_device() -> Case:
    """The kubelet's CPUs are in one zone, the claimed device is in the other."""
    world = two_nodes("best-effort")
    claim(world, "train", held="node-a/gpu-1")
    claims = (PodResourceClaim(name="gpu", resource_claim_name="train"),)
    there = world.run(pod("train-user", resource_claims=claims), "node-a")
    return Case(world.facts(), pod_subject(there))
