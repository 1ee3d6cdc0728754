"""Extended resources that device classes serve: by which class, and with which requests."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import NodeAllocatableResourceClaimStatus, Pod
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.device_ids import AllocationError
from numakube.dra.extended_resources import (
    IN_MEMORY_NAME,
    claim_statuses,
    classes_by_resource,
    has_mapping,
    is_served_name,
    pod_claim,
    requests_and_mappings,
)

GPU = "vendor.example/gpu"
PREFIX = "deviceclass.resource.kubernetes.io/"


def kind(name: str, created: str | None = None, resource: str | None = GPU) -> DeviceClass:
    """Return a class that serves a resource."""
    spec = {"extendedResourceName": resource} if resource else {}
    meta: dict[str, Any] = {"name": name, "creationTimestamp": created}
    return convert(DeviceClass, {"metadata": meta, "spec": spec})


OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


@pytest.mark.parametrize(
    ("one", "other", "serves"),
    [
        (kind("a", OLD), kind("b", NEW), "b"),
        (kind("a", NEW), kind("b", OLD), "a"),
        (kind("a", OLD), kind("b", OLD), "a"),
        (kind("b", OLD), kind("a", OLD), "a"),
        (kind("b"), kind("a", OLD), "a"),
        (kind("a", OLD), kind("b"), "a"),
        (kind("b"), kind("a"), "a"),
        (kind("a", "soon"), kind("b", OLD), "b"),
        (kind("a", OLD, None), kind("b", OLD), "b"),
    ],
)
def test_of_two_classes_the_younger_serves_a_resource_and_else_the_first_by_name(
    one: DeviceClass, other: DeviceClass, serves: str
) -> None:
    """In whichever order they come; each has a name of its own besides."""
    for classes in ((one, other), (other, one)):
        found = classes_by_resource(classes)
        assert found[GPU] == serves
        assert found[f"{PREFIX}a"] == "a"
        assert found[f"{PREFIX}b"] == "b"


@pytest.mark.parametrize(
    ("name", "served"),
    [(GPU, True), (f"{PREFIX}a", True), ("cpu", False), ("hugepages-2Mi", False)],
)
def test_native_resources_are_served_by_no_class(name: str, served: bool) -> None:
    """Names of classes are served though they are of Kubernetes' own domain."""
    assert is_served_name(name) is served


def pod(*containers: tuple[str, int], init: tuple[tuple[str, int], ...] = ()) -> Pod:
    """Return a pod whose containers each want so many GPUs."""

    def made(name: str, count: int) -> dict[str, Any]:
        sidecar = {"restartPolicy": "Always"} if name.startswith("side") else {}
        wanted = {"requests": {"cpu": "1", GPU: str(count)}} if count >= 0 else {}
        return {"name": name, "resources": wanted, **sidecar}

    spec = {
        "containers": [made(*container) for container in containers],
        "initContainers": [made(*one) for one in init],
    }
    meta = {"name": "p", "namespace": "ns", "uid": "u"}
    return convert(Pod, {"metadata": meta, "spec": spec})


@pytest.mark.parametrize(
    ("one", "counts", "users"),
    [
        (pod(("a", 2)), {"container-0-request-1": 2}, [("a", "container-0-request-1")]),
        (
            pod(("a", 2), ("b", 0), ("c", -1), ("d", 1)),
            {"container-0-request-1": 2, "container-3-request-1": 1},
            [("a", "container-0-request-1"), ("d", "container-3-request-1")],
        ),
        (
            pod(("a", 2), init=(("first", 2),)),
            {"container-1-request-1": 2},
            [("a", "container-1-request-1"), ("first", "container-1-request-1")],
        ),
        (
            pod(("a", 2), init=(("first", 3),)),
            {"container-0-request-1": 1, "container-1-request-1": 2},
            [
                ("a", "container-1-request-1"),
                ("first", "container-1-request-1"),
                ("first", "container-0-request-1"),
            ],
        ),
        (
            pod(("a", 1), init=(("side", 1), ("last", 1))),
            {"container-0-request-1": 1, "container-2-request-1": 1},
            [
                ("side", "container-0-request-1"),
                ("a", "container-2-request-1"),
                ("last", "container-2-request-1"),
            ],
        ),
        (
            pod(("a", 1), init=(("first", 3), ("second", 5))),
            {"container-1-request-1": 4, "container-2-request-1": 1},
            [
                ("a", "container-2-request-1"),
                ("first", "container-2-request-1"),
                ("first", "container-1-request-1"),
                ("second", "container-2-request-1"),
                ("second", "container-1-request-1"),
            ],
        ),
    ],
)
def test_containers_that_do_not_run_together_share_devices(
    one: Pod, counts: dict[str, int], users: list[tuple[str, str]]
) -> None:
    """Init containers use what those after them have, and the largest of them asks for the rest."""
    requests, mappings = requests_and_mappings(one, [GPU], {GPU: "gpu"})
    assert {each.name: each.exactly.count for each in requests if each.exactly} == counts
    assert [(each.container_name, each.request_name) for each in mappings] == users


@pytest.mark.parametrize(
    ("annotated", "owner", "own"),
    [
        ("true", {"uid": "u", "name": "p", "controller": True}, True),
        ("false", {"uid": "u", "name": "p", "controller": True}, False),
        ("true", {"uid": "other", "name": "p", "controller": True}, False),
        ("true", {"uid": "u", "name": "other", "controller": True}, False),
        ("true", {"uid": "u", "name": "p", "controller": False}, False),
    ],
)
def test_a_claim_that_was_made_for_the_pod_is_found_again(
    annotated: str, owner: dict[str, Any], own: bool
) -> None:
    """Else there is a new one, in memory only."""
    annotations = {"resource.kubernetes.io/extended-resource-claim": annotated}
    owners = [{"apiVersion": "v1", "kind": "Pod", **owner}]
    meta = {"name": "c", "annotations": annotations, "ownerReferences": owners}
    known = convert(ResourceClaim, {"metadata": meta})
    found = pod_claim(pod(("a", 1)), [known], uid="new")
    assert (found is known) is own
    if not own:
        assert (found.metadata.name, found.metadata.uid) == (IN_MEMORY_NAME, "new")


# ------------------------------------------------------------------------------------------------
# Devices that stand for resources of the node, and what a pod asks for as a whole.


# ------------------------------------------------------------------------------------------------
# Devices that stand for resources of the node.

NODE = convert(Node, {"metadata": {"name": "n", "labels": {"kind": "here"}}})
HERE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kind", "operator": "Exists"}]}]}
ELSEWHERE = {"nodeSelectorTerms": [{"matchFields": [
    {"key": "metadata.name", "operator": "In", "values": ["m"]}
]}]}  # fmt: skip
UNREADABLE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kind", "operator": "Like"}]}]}
FOUR_CPUS = {"cpu": {"mapping": {"deviceMultiplier": "4"}}}


def devices(resources: dict[str, Any], **place: Any) -> ResourceSlice:
    """Return a slice whose devices a and b stand for *resources*."""
    own = place.pop("own", {})
    spec = {
        "driver": "d",
        "pool": {"name": "n"},
        **(place or {"nodeName": "n"}),
        "devices": [{"name": name, "nodeAllocatableResources": resources, **own} for name in "ab"],
    }
    return convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})


def allocated(*names: str, **consumed: str) -> ResourceClaim:
    """Return a claim that has these devices, with what it consumes of each."""
    used = {"consumedCapacity": consumed} if consumed else {}
    results = [
        {"driver": "d", "pool": "n", "device": name, "request": "r", **used} for name in names
    ]
    status = {"allocation": {"devices": {"results": results}}}
    return convert(ResourceClaim, {"metadata": {"name": "c", "uid": "c"}, "status": status})


def user(**claims: str) -> Pod:
    """Return a pod whose containers use one claim each, by its name in the pod."""
    containers = [
        {"name": name, "resources": {"claims": [{"name": claim}]}} for name, claim in claims.items()
    ]
    first = [{"name": "first", "resources": {"claims": [{"name": "mine"}]}}, {"name": "plain"}]
    spec = {"containers": containers, "initContainers": first}
    return convert(Pod, {"metadata": {"name": "p"}, "spec": spec})


def stands_for(
    claim: ResourceClaim, *slices: ResourceSlice
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return what the claim amounts to that two containers of a pod use."""
    assert claim.status.allocation is not None
    by_name = {"mine": (claim, claim.status.allocation)}
    return claim_statuses(user(one="mine", two="mine", other="else"), by_name, slices, NODE)


@pytest.mark.parametrize(
    ("resources", "claim", "mapping", "overhead"),
    [
        (FOUR_CPUS, allocated("a"), {"cpu": "4"}, {}),
        (FOUR_CPUS, allocated("a", "b"), {"cpu": "8"}, {}),
        (
            {"memory": {"mapping": {"capacityKey": "m"}}},
            allocated("a", m="2Gi"),
            {"memory": "2Gi"},
            {},
        ),
        (
            {"cpu": {"mapping": {"capacityKey": "m", "capacityMultiplier": "3"}}},
            allocated("a", m="2"),
            {"cpu": "6"},
            {},
        ),
        ({"cpu": {"mapping": {"capacityKey": "m"}}}, allocated("a", x="2"), {}, {}),
        ({"cpu": {"mapping": {}}}, allocated("a"), {}, {}),
        ({"cpu": {"overhead": {"perPod": "1"}}}, allocated("a", "b"), {}, {"cpu": ("2", None)}),
        (
            {"memory": {"overhead": {"perContainer": "1Mi"}}, **FOUR_CPUS},
            allocated("a"),
            {"cpu": "4"},
            {"memory": (None, "1Mi")},
        ),
        (FOUR_CPUS, allocated("unknown"), {}, {}),
        ({}, allocated("a"), {}, {}),
    ],
)
def test_a_claim_stands_for_what_its_devices_say(
    resources: dict[str, Any],
    claim: ResourceClaim,
    mapping: dict[str, str],
    overhead: dict[str, tuple[str | None, str | None]],
) -> None:
    """For all containers that use it; one that stands for nothing is left out."""
    found = stands_for(claim, devices(resources))
    assert claim.status.allocation is not None
    says = any("mapping" in one for one in resources.values())
    known = claim.status.allocation.devices.results[0].device in "ab"
    assert has_mapping(claim.status.allocation, [devices(resources)]) is (says and known)
    if not mapping and not overhead:
        assert found == ()
        return
    (status,) = found
    assert (status.resource_claim_name, status.containers) == ("c", ("first", "one", "two"))
    assert {one.name: one.quantity for one in status.mapping} == mapping
    told = {one.name: (one.per_pod, one.per_container) for one in status.overhead}
    assert told == overhead


@pytest.mark.parametrize(
    ("place", "reached"),
    [
        ({"nodeName": "n"}, True),
        ({"nodeName": "m"}, False),
        ({"allNodes": True}, True),
        ({"nodeSelector": HERE}, True),
        ({"nodeSelector": ELSEWHERE}, False),
        ({"nodeSelector": UNREADABLE}, False),
        ({"perDeviceNodeSelection": True, "own": {"nodeName": "n"}}, True),
        ({"perDeviceNodeSelection": True, "own": {"nodeName": "m"}}, False),
        ({"perDeviceNodeSelection": True, "own": {"nodeSelector": UNREADABLE}}, False),
    ],
)
def test_devices_that_the_node_does_not_reach_stand_for_nothing(
    place: dict[str, Any], reached: bool
) -> None:
    """Nor do those whose place cannot be understood."""
    assert bool(stands_for(allocated("a"), devices(FOUR_CPUS, **place))) is reached


def test_a_device_of_another_pool_with_the_same_name_is_another_device() -> None:
    claim, slices = allocated("a"), devices(FOUR_CPUS)
    for field, other in (("driver", "e"), ("pool", {"name": "o"})):
        spec: dict[str, Any] = {"driver": "d", "pool": {"name": "n"}, "nodeName": "n", field: other}
        spec["devices"] = [{"name": "a", "nodeAllocatableResources": {"cpu": {"mapping": {}}}}]
        apart = convert(ResourceSlice, {"metadata": {"name": "o"}, "spec": spec})
        assert stands_for(claim, apart) == ()
        assert stands_for(claim, apart, slices) == stands_for(claim, slices) != ()


def test_a_share_whose_size_is_unknown_cannot_be_reckoned() -> None:
    with pytest.raises(AllocationError, match=r"device a: ConsumedCapacity is nil"):
        stands_for(allocated("a"), devices({"cpu": {"mapping": {"capacityKey": "m"}}}))
