"""Whether the claims of a pod can be used on a node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.scheduling.plugins.mixed_pods import (
    SHAPE,
    allocations,
    claiming,
    decide,
    device,
    offer,
)
from tests.scheduling.plugins.mixed_pods import claim as claim_for

from numakube.api.affinity_and_taints import NodeSelector
from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.alike_nodes import NodeKinds
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.allocator import Allocator
from numakube.dra.features import Features
from numakube.dra.pools import DeviceInventory
from numakube.scheduling.cycle import Chosen
from numakube.scheduling.framework.status import Code, Status
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import (
    CycleClaims,
    NodeAllocation,
)
from numakube.scheduling.plugins.dynamic_resources.node_search import (
    ELSEWHERE,
    NodeSearch,
    node_resources,
)
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TIMEOUT = 600.0
OPTIONAL = "DRAOptionalNodeOperations"
GPU = "vendor.example/gpu"


def node(*declared: str, **allocatable: str) -> NodeInfo:
    """Return the node n."""
    status = {"declaredFeatures": list(declared), "allocatable": {"cpu": "8", **allocatable}}
    return NodeInfo(convert(Node, {"metadata": {"name": "n"}, "status": status}))


def claim(
    *,
    result: dict[str, Any] | None = None,
    users: tuple[str, ...] = (),
    conditions: tuple[tuple[str, str], ...] = (),
    **allocation: Any,
) -> ResourceClaim:
    """Return a claim that has a device."""
    device = {"driver": "d", "pool": "n", "device": "a"}
    told = [{"type": kind, "status": status} for kind, status in conditions]
    status = {
        "allocation": {
            "devices": {"results": [{**device, "request": "r", **(result or {})}]},
            **allocation,
        },
        "devices": [{**device, "conditions": told}] if told else [],
        "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
    }
    meta = {"name": "c", "namespace": "default", "uid": "c"}
    return convert(ResourceClaim, {"metadata": meta, "status": status})


def judged(
    one: ResourceClaim,
    on: NodeInfo | None = None,
    *,
    features: Features | None = None,
    now: datetime | None = NOW,
    mapped: bool = False,
) -> Status:
    """Return what is said of a node for a pod with that claim."""
    known = CycleClaims(ClusterObjects(), ["c"], [one], mapped={"c": mapped})
    status = search(known, features or Features(), now).judge(PodInfo(pod("p")), on or node())
    assert bool(known.unavailable) is (status is ELSEWHERE)
    return status


def search(
    known: CycleClaims,
    features: Features,
    now: datetime | None = NOW,
    *slices: ResourceSlice,
    classes: tuple[str, ...] = (),
) -> NodeSearch:
    """Return a search for claims."""
    inventory, verdicts = DeviceInventory(list(slices), features), None
    anything: Any = verdicts
    return NodeSearch(
        known,
        features,
        inventory,
        {GPU: classes[0]} if classes else {},
        kinds=NodeKinds(inventory, AllocatedState()),
        verdicts=anything,
        now=now,
        timeout_seconds=TIMEOUT,
    )


def on(name: str) -> dict[str, Any]:
    """Return what selects one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def test_devices_can_be_used_where_they_are() -> None:
    """Anywhere if the allocation does not say where."""
    assert judged(claim()).ok
    assert judged(claim(nodeSelector=on("n"))).ok
    assert judged(claim(nodeSelector=on("m"))) is ELSEWHERE


def test_devices_that_need_no_preparation_can_be_used_on_nodes_that_skip_it() -> None:
    """Any of the devices of a claim counts."""
    skipping = claim(result={"skipNodeOperations": ["All"]})
    assert judged(skipping) is ELSEWHERE
    assert judged(skipping, node("another")) is ELSEWHERE
    assert judged(skipping, node(OPTIONAL)).ok


@pytest.mark.parametrize(
    ("conditions", "seconds", "usable"),
    [
        ((), 600, True),
        ((), 601, False),
        ((("wired", "False"),), 601, False),
        ((("wired", "True"),), 601, True),
        ((("wired", "True"), ("burnt", "True")), 1, False),
        ((("wired", "True"), ("burnt", "False")), 1, True),
    ],
)
def test_devices_that_a_driver_does_not_get_ready_are_given_up(
    conditions: tuple[tuple[str, str], ...], seconds: int, usable: bool
) -> None:
    """When it says so, or when it has had too long; if the features are on, and time is known."""
    result = {"bindingConditions": ["wired"], "bindingFailureConditions": ["burnt"]}
    since = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    one = claim(result=result, conditions=conditions, allocationTimestamp=since)
    assert (judged(one) is not ELSEWHERE) is usable
    off = Features(device_binding_conditions=False)
    assert judged(one, features=off).ok
    failed = ("burnt", "True") in conditions
    assert (judged(one, now=None) is ELSEWHERE) is failed
    plain = claim(conditions=(("burnt", "True"),), allocationTimestamp=since)
    assert judged(plain).ok


@pytest.mark.parametrize(
    ("users", "mapped", "gate", "taken"),
    [
        (("q",), True, True, True),
        (("p", "q"), True, True, False),
        ((), True, True, False),
        (("q",), False, True, False),
        (("q",), True, False, False),
    ],
)
def test_what_stands_for_resources_of_the_node_is_for_one_pod(
    users: tuple[str, ...], mapped: bool, gate: bool, taken: bool
) -> None:
    """Another pod that shares the claim would count them again."""
    features = Features(node_allocatable_resources=gate)
    status = judged(claim(users=users), features=features, mapped=mapped)
    assert status.ok is not taken
    assert ("cannot be shared across pods" in status.message) is taken


def extended(*, allocated: bool = False) -> CycleClaims:
    """Return the claim that is made for extended resources."""
    meta = {"name": "<extended-resources>", "namespace": "default", "uid": "e"}
    one = convert(ResourceClaim, {"metadata": meta})
    if allocated:
        one = convert(ResourceClaim, {"metadata": meta, "status": {"allocation": {}}})
    return CycleClaims(ClusterObjects(), [], [one], extended=0)


def devices() -> ResourceSlice:
    """Return a device of the node."""
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "nodeName": "n", "devices": [{"name": "a"}]}
    return convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})


@pytest.mark.parametrize(
    ("offered", "allocated", "searched"),
    [({}, False, True), ({GPU: "0"}, False, True), ({GPU: "2"}, False, False), ({}, True, False)],
)
def test_extended_resources_are_searched_for_where_no_device_plugin_offers_them(
    offered: dict[str, str], allocated: bool, searched: bool
) -> None:
    """And only if they have not been allocated before."""
    known = extended(allocated=allocated)
    classes = {"gpu": convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})}
    inventory = DeviceInventory([devices()], Features())
    known.allocator = Allocator(inventory, AllocatedState(), classes, new_id=str)
    one = PodInfo(pod("p", also={GPU: "1"}))
    status = search(known, Features(), NOW, devices(), classes=("gpu",)).judge(one, node(**offered))
    assert status.ok
    assert ("n" in known.nodes) is searched
    if searched:
        found = known.nodes["n"]
        assert found.extended is not None
        assert [each.device for each in found.allocations[0].devices.results] == ["a"]
        assert [each.resource_name for each in found.mappings] == [GPU]


def test_a_resource_that_neither_a_class_nor_the_node_has_does_not_fit() -> None:
    """Nor does a claim that an earlier attempt has written requests into."""
    one = PodInfo(pod("p", also={"vendor.example/nic": "1"}))
    status = search(extended(), Features(), NOW, classes=("gpu",)).judge(one, node())
    assert status.message == "cannot fit resource"
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}
    left = {"metadata": {"name": "e"}, "spec": {"devices": {"requests": [request]}}}
    known = CycleClaims(ClusterObjects(), [], [convert(ResourceClaim, left)], extended=0)
    status = search(known, Features(), NOW, classes=("gpu",)).judge(one, node())
    assert status.message == "cannot schedule extended resource claim"


def test_a_pod_with_a_claim_that_has_devices_goes_to_them_with_all_its_claims() -> None:
    """Though another node has as many devices for the claim that has none yet."""
    world = World()
    for name in ("m", "n"):
        world.add_node(name, machine=SHAPE)
        offer(world, name, device("a", 0), device("b", 0))
    claim_for(world, "new")
    claim_for(world, "held", devices=("a",))
    held = world.objects.resource_claims["default/held"]
    assert held.status.allocation is not None
    here = convert(NodeSelector, on("n"))
    allocation = msgspec.structs.replace(held.status.allocation, node_selector=here)
    status = msgspec.structs.replace(held.status, allocation=allocation)
    world.objects.resource_claims["default/held"] = msgspec.structs.replace(held, status=status)
    for claims in (("new", "held"), ("held", "new"), ("held",)):
        decision = decide(world, claiming("p", *claims, cpu="1"))
        assert isinstance(decision, Chosen)
        assert (decision.node, decision.feasible) == ("n", 1)


def test_every_share_of_a_device_has_an_id_of_its_own() -> None:
    """Drivers tell them apart by it."""
    world = World()
    world.add_node("n", machine=SHAPE)
    offer(world, "n", {**device("a", 0), "allowMultipleAllocations": True})
    for name in ("first", "second"):
        claim_for(world, name)
    found = allocations(decide(world, claiming("p", "first", "second", cpu="1")))
    ids = [result.share_id for each in found for result in each.devices.results]
    assert len(set(ids)) == 2
    assert all(ids)


# ------------------------------------------------------------------------------------------------
# Whether a node has room for what devices of claims stand for.

INSUFFICIENT = "pod level request for cpu is insufficient to cover the aggregated container"
SMALL_LIMIT = "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container"
SMALL_FOR_ONE = "pod level limit for cpu is insufficient to cover the limit and DRA overhead for"
HUGE = "hugepages-2Mi"


def room(
    *,
    own: dict[str, Any] | None = None,
    level: dict[str, Any] | None = None,
    stands_for: dict[str, str] | None = None,
    taken: str = "0",
) -> tuple[NodeAllocation, Status]:
    """Judge a node with 8 CPUs and 4Gi for a pod with a claim that stands for 4 CPUs."""
    mapping = {
        name: {"mapping": {"deviceMultiplier": amount}}
        for name, amount in (stands_for or {"cpu": "4"}).items()
    }
    spec = {
        "driver": "d",
        "pool": {"name": "n"},
        "nodeName": "n",
        "devices": [{"name": "a", "nodeAllocatableResources": mapping}],
    }
    slices = [convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})]
    tree: dict[str, Any] = {"metadata": {"name": "p", "namespace": "default", "uid": "p"}}
    container = {"name": "c", "resources": {"claims": [{"name": "c"}], **(own or {})}}
    tree["spec"] = {"containers": [container], **({"resources": level} if level else {})}
    offered = {"memory": "4Gi", HUGE: "8Mi", "ephemeral-storage": "1Gi"}
    on = node(**offered)
    on.add_pod(PodInfo(pod("there", taken)))
    known = CycleClaims(ClusterObjects(), ["c"], [claim()])
    return node_resources(known, PodInfo(convert(Pod, tree)), on, NodeAllocation(), slices)


def asking(**amounts: str) -> dict[str, Any]:
    return {"requests": amounts}


def limited(**amounts: str) -> dict[str, Any]:
    return {"requests": amounts, "limits": amounts}


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({}, Code.SUCCESS, ""),
        ({"own": asking(cpu="4")}, Code.SUCCESS, ""),
        ({"own": asking(cpu="4"), "taken": "1"}, Code.UNSCHEDULABLE, "Insufficient cpu"),
        ({"own": asking(cpu="5")}, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Insufficient cpu"),
        (
            {"own": asking(memory="5Gi"), "stands_for": {"cpu": "8"}, "taken": "1"},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "Insufficient cpu, Insufficient memory",
        ),
        ({"stands_for": {HUGE: "8Mi"}}, Code.SUCCESS, ""),
        (
            {"stands_for": {HUGE: "10Mi"}},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            f"Insufficient {HUGE}",
        ),
        ({"own": asking(**{"example.com/x": "1"})}, Code.SUCCESS, ""),
        ({"own": asking(cpu="1"), "level": asking(cpu="5")}, Code.SUCCESS, ""),
        (
            {"own": asking(cpu="2"), "level": asking(cpu="5")},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            INSUFFICIENT,
        ),
        (
            {"own": limited(cpu="1"), "level": {**asking(cpu="5"), "limits": {"cpu": "5"}}},
            Code.SUCCESS,
            "",
        ),
        (
            {"own": limited(cpu="1"), "level": {**asking(cpu="5"), "limits": {"cpu": "4"}}},
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            SMALL_FOR_ONE,
        ),
        (
            {
                "own": limited(**{HUGE: "2Mi"}),
                "level": limited(**{HUGE: "8Mi"}),
                "stands_for": {HUGE: "6Mi"},
            },
            Code.SUCCESS,
            "",
        ),
        (
            {
                "own": limited(**{HUGE: "2Mi"}),
                "level": {**asking(**{HUGE: "8Mi"}), "limits": {HUGE: "6Mi"}},
                "stands_for": {HUGE: "6Mi"},
            },
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            SMALL_LIMIT,
        ),
    ],
)
def test_a_node_has_room_for_what_devices_stand_for_besides_what_containers_ask_for(
    given: dict[str, Any], code: Code, message: str
) -> None:
    found, status = room(**given)
    assert (status.code, status.message[: len(message) or None]) == (code, message)
    if status.ok:
        (counted,) = found.resources
        assert counted.containers == ("c",)


def test_what_cannot_be_reckoned_is_an_error() -> None:
    known = CycleClaims(ClusterObjects(), ["c"], [claim()])
    mapping = {"cpu": {"mapping": {"capacityKey": "m"}}}
    listed = [{"name": "a", "nodeAllocatableResources": mapping}]
    spec = {"driver": "d", "pool": {"name": "n"}, "nodeName": "n", "devices": listed}
    slices = [convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})]
    _, status = node_resources(known, PodInfo(pod("p")), node(), NodeAllocation(), slices)
    assert status.code is Code.ERROR
    assert "ConsumedCapacity is nil" in status.message
