"""Clusters in which devices of DRA drivers, or claims for them, are not as they should be."""

from __future__ import annotations

from typing import Any

from tests.insight.doctor.breaking import Expected, case
from tests.insight.doctor.documents import NOW, Documents, Tree, pod

DRIVER = "gpu.example"
MIXED = "NUMA-POD-MIXED-DRA"


def device(name: str, numa_node: int | None = 0) -> Tree:
    """Return a device, which may tell its NUMA node."""
    attribute = {"resource.kubernetes.io/numaNode": {"int": numa_node}}
    return {"name": name, "attributes": {} if numa_node is None else attribute}


def slice_of(node: str, *devices: Tree, name: str = "", **pool: int) -> Tree:
    """Return a slice with the devices of a node; *pool* says how many slices there should be."""
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1, **pool},
        "devices": list(devices),
    }
    return {"metadata": {"name": name or f"{node}-gpu"}, "spec": spec}


def claim(name: str, *, device: str = "", of_class: str = "gpu", **status: Any) -> Tree:
    """Return a claim for one device, which may be allocated."""
    request = {"name": "one", "exactly": {"deviceClassName": of_class, "count": 1}}
    if device:
        result = {"request": "one", "driver": DRIVER, "pool": "node-0", "device": device}
        status["allocation"] = {"devices": {"results": [result]}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [request]}},
        "status": status,
    }


def with_devices(world: Documents) -> None:
    """Give node-0 two devices, and the cluster a class for them."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    world.others |= {
        "resourceslices": [slice_of("node-0", device("gpu-0"), device("gpu-1", 1))],
        "deviceclasses": [{"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}}],
        "resourceclaims": [],
        "resourceclaimtemplates": [],
    }


def claiming(name: str, **source: str) -> Tree:
    """Return a pod that waits for a claim and nothing else; another scheduler has it."""
    spec = {"resourceClaims": [{"name": "gpu", **source}], "schedulerName": "default-scheduler"}
    return pod(name, resources={}, spec=spec)


@case
def _slices_of_a_node_that_is_gone(world: Documents) -> Expected:
    with_devices(world)
    world.others["resourceslices"].append(slice_of("lost", device("gpu-0")))
    told = ("lost-gpu", "1 devices of gpu.example on lost", "delete resourceslice lost-gpu")
    return {"NUMA-DRA-NODE-GONE": told}


@case
def _a_pool_of_which_a_slice_is_missing(world: Documents) -> Expected:
    with_devices(world)
    part = slice_of("node-1", device("gpu-0"), resourceSliceCount=2, generation=7)
    world.others["resourceslices"].append(part)
    told = ("gpu.example", "pool node-1: 1 of 2 slices of generation 7", "spec.driver=gpu.example")
    return {"NUMA-DRA-POOL-INCOMPLETE": told}


@case
def _a_pool_that_names_a_device_twice(world: Documents) -> Expected:
    with_devices(world)
    world.others["resourceslices"].append(slice_of("node-1", device("gpu-0"), device("gpu-0")))
    return {"NUMA-DRA-POOL-INVALID": ("pool node-1: duplicate device name gpu-0",)}


@case
def _a_pool_with_amounts_that_are_not_counted(world: Documents) -> Expected:
    with_devices(world)
    counters = {"bandwidth": {"valueFrom": {"capacityKey": f"{DRIVER}/bandwidth"}}}
    consumption = {"counterSet": "pf-0", "counters": counters}
    sets = [{"name": "pf-0", "counters": {"bandwidth": {"value": "100G"}}}]
    devices = slice_of("node-1", device("vf-0"), resourceSliceCount=2)
    devices["spec"]["devices"][0]["consumesCounters"] = [consumption]
    shared = slice_of("node-1", resourceSliceCount=2)
    shared["metadata"]["name"] = "node-1-counters"
    shared["spec"] |= {"sharedCounters": sets}
    world.others["resourceslices"] += [devices, shared]
    return {"NUMA-DRA-POOL-NOT-COUNTED": ("pool node-1: device vf-0", "counter bandwidth")}


@case
def _a_slice_whose_node_selector_cannot_be_read(world: Documents) -> Expected:
    with_devices(world)
    shared = slice_of("node-1", device("gpu-0"))
    term = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}
    shared["spec"] |= {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [term]}}
    world.others["resourceslices"].append(shared)
    return {"NUMA-DRA-POOL-INVALID": ("node selection for slice node-1-gpu",)}


@case
def _devices_without_a_numa_node(world: Documents) -> Expected:
    with_devices(world)
    placeless = slice_of("node-1", device("gpu-0", None), device("gpu-1"))
    world.others["resourceslices"].append(placeless)
    world.others["resourceclaims"].append(claim("mine"))
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    world.run("mixed", "node-1", spec={"resourceClaims": claims})
    world.report("node-1")
    return {
        "NUMA-DRA-NO-NUMA-NODE": ("node-1", "1 of 2 devices of gpu.example have no NUMA node"),
    }


@case
def _a_pod_that_declines_devices_near_its_cpus(world: Documents) -> Expected:
    with_devices(world)
    world.others["resourceclaims"].append(claim("mine"))
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    metadata = {"annotations": {"numakube.dev/claim-alignment": "None"}}
    world.run("far", "node-0", spec={"resourceClaims": claims}, metadata=metadata)
    world.report("node-0")
    return {MIXED: ("default/far",)}


@case
def _a_resource_by_plugin_and_by_driver(world: Documents) -> Expected:
    with_devices(world)
    world.others["deviceclasses"][0]["spec"]["extendedResourceName"] = "vendor.example/gpu"
    told = ("node-0", "vendor.example/gpu: 4 by device plugin, 2 of class gpu by gpu.example")
    return {"NUMA-DRA-SERVED-TWICE": told}


@case
def _a_claim_whose_device_is_gone(world: Documents) -> Expected:
    with_devices(world)
    users = [{"resource": "pods", "name": "web-0", "uid": "uid-web-0"}]
    world.others["resourceclaims"].append(claim("old", device="gpu-9", reservedFor=users))
    told = ("default/old", "gpu.example/node-0/gpu-9; used by web-0", "spec.driver=gpu.example")
    return {"NUMA-DRA-DEVICE-GONE": told}


@case
def _a_driver_that_vanished(world: Documents) -> Expected:
    with_devices(world)
    world.others["resourceclaims"].append(claim("old", device="gpu-0"))
    world.others["resourceslices"].clear()
    return {"NUMA-DRA-DEVICE-GONE": ("gpu.example offers no devices at all", "no pod uses it")}


@case
def _a_pod_whose_claim_nobody_made(world: Documents) -> Expected:
    with_devices(world)
    world.pods.append(claiming("wishful", resourceClaimName="none"))
    told = ("default/wishful", 'could not find ResourceClaim "default/none"', "-n default")
    return {"NUMA-POD-CLAIM-MISSING": told}


@case
def _a_pod_whose_template_does_not_exist(world: Documents) -> Expected:
    with_devices(world)
    world.pods.append(claiming("wishful", resourceClaimTemplateName="none"))
    return {"NUMA-POD-CLAIM-MISSING": ("there is no ResourceClaimTemplate default/none",)}


@case
def _a_template_of_which_no_claim_is_made(world: Documents) -> Expected:
    with_devices(world)
    template = {"metadata": {"name": "one", "namespace": "default"}}
    world.others["resourceclaimtemplates"].append(template)
    fresh = claiming("fresh", resourceClaimTemplateName="one")
    fresh["metadata"]["creationTimestamp"] = NOW
    world.pods += [claiming("wishful", resourceClaimTemplateName="one"), fresh]
    return {"NUMA-POD-CLAIM-MISSING": ('pod "default/wishful": ResourceClaim not created yet',)}


@case
def _a_class_that_does_not_exist(world: Documents) -> Expected:
    with_devices(world)
    world.others["resourceclaims"].append(claim("mine", of_class="tpu"))
    world.pods.append(claiming("wishful", resourceClaimName="mine"))
    return {"NUMA-POD-NO-DEVICE-CLASS": ("claim default/mine asks for class tpu",)}
