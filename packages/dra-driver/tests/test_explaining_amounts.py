"""What `explain` says of claims that no node can serve: request, device, zone, and what is left."""

from __future__ import annotations

from typing import Any

from dra_bed import offer_of

from numakube.api.codec import convert, to_tree
from numakube.api.pod import PodResourceClaim
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.insight.explain import Subject, explain
from numakube.insight.explain.explained_pod import pod_subject
from numakube.insight.explain.explanation_text import joined, lines_of
from numakube.insight.scheduler_engine import engine_of
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.testing import World, pod
from numakube_dra_driver.device_classes import class_documents
from numakube_dra_driver.devices import DRIVER

NUMA = "resource.kubernetes.io/numaNode"


def offering() -> World:
    """Return a node that offers its CPUs and memory to claims."""
    world = World()
    world.add_node("node-a", settings=KubeletSettings())
    pool = {"name": "node-a/compute", "generation": 1, "resourceSliceCount": 1}
    devices = [to_tree(device) for device in offer_of().devices]
    spec = {"driver": DRIVER, "nodeName": "node-a", "pool": pool, "devices": devices}
    piece = convert(ResourceSlice, {"metadata": {"name": "slice"}, "spec": spec})
    world.objects.resource_slices["slice"] = piece
    for document in class_documents():
        device_class = convert(DeviceClass, document)
        world.objects.device_classes[device_class.metadata.name] = device_class
    return world


def claim(world: World, name: str, cpus: int, gib: int, zone: int | None = None) -> None:
    """Add a claim for CPUs and memory of one NUMA node; with a *zone*, it has them already."""
    amounts = {
        "cpus": ("numa-cpus", "cpu", str(cpus)),
        "memory": ("numa-memory", "memory", f"{gib}Gi"),
    }
    requests = [
        {
            "name": request,
            "exactly": {
                "deviceClassName": class_name,
                "count": 1,
                "capacity": {"requests": {f"{DRIVER}/{capacity}": amount}},
            },
        }
        for request, (class_name, capacity, amount) in amounts.items()
    ]
    devices = {"requests": requests, "constraints": [{"matchAttribute": NUMA}]}
    metadata = {"name": name, "namespace": "default", "uid": name}
    tree: dict[str, Any] = {"metadata": metadata, "spec": {"devices": devices}}
    if zone is not None:
        held = {"cpus": f"cpu-numa{zone}", "memory": f"memory-numa{zone}"}
        results = [
            {
                "request": request,
                "driver": DRIVER,
                "pool": "node-a/compute",
                "device": held[request],
                "shareID": request,
                "consumedCapacity": {f"{DRIVER}/{capacity}": amount},
            }
            for request, (_, capacity, amount) in amounts.items()
        ]
        tree["status"] = {"allocation": {"devices": {"results": results}}}
    world.objects.resource_claims[f"default/{name}"] = convert(ResourceClaim, tree)


def explained(world: World, name: str) -> str:
    """Return what is said of a pod that uses a claim."""
    uses = (PodResourceClaim(name="numa", resource_claim_name=name),)
    waiting = pod("web", cpu="1", memory="1Gi", resource_claims=uses)
    world.pods.append(waiting)
    facts = world.facts()
    subject: Subject = pod_subject(waiting)
    return joined(lines_of(explain(facts, engine_of(facts), subject)))


def test_what_is_left_of_each_device_is_said_with_its_zone() -> None:
    """CPUs are on one NUMA node and memory on the other: each request alone could be served."""
    world = offering()
    claim(world, "first", 6, 2, zone=0)
    claim(world, "second", 2, 12, zone=1)
    claim(world, "mine", 4, 8)
    text = explained(world, "mine")
    assert "Claim default/mine: no node can serve it" in text
    assert "cpu-numa1 of node-a (zone 1) has 6 of 8" in text
    assert "cpu-numa0 of node-a (zone 0) has 2 of 8, too little for 4" in text
    assert "memory-numa1 of node-a (zone 1) has 4046Mi of 16334Mi, too little for 8Gi" in text
    assert f"matchAttribute {NUMA}: without it 1 node could serve the claim" in text


def test_a_claim_that_can_be_served_needs_no_such_list() -> None:
    world = offering()
    claim(world, "mine", 4, 8)
    assert "too little" not in explained(world, "mine")
    assert "has 8 of 8" not in explained(world, "mine")
