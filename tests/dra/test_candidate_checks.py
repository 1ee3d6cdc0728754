"""Which devices a request may get."""

from __future__ import annotations

import re
from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import DeviceToleration, ResourceClaim
from numakube.api.resource_slices import Device, DeviceClass, DeviceTaintRule, ResourceSlice
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.allocator import Allocator
from numakube.dra.device_ids import AllocationError
from numakube.dra.features import Features
from numakube.dra.pools import DeviceInventory, repelling_taint, with_taints

CLASSES = {"gpu": convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})}
OPTIONAL = "DRAOptionalNodeOperations"


def slice_of(devices: list[dict[str, Any]], **spec: Any) -> ResourceSlice:
    """Return a slice of node n1."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    tree = {"driver": "d", "pool": pool, "nodeName": "n1", "devices": devices, **spec}
    return convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": tree})


def claim_of(**exactly: Any) -> ResourceClaim:
    """Return a claim for one device, unless told otherwise."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, **exactly}}
    metadata = {"name": "c", "namespace": "ns", "uid": "c"}
    return convert(
        ResourceClaim, {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
    )


def allocated(
    one: ResourceSlice, claim: ResourceClaim, features: Features, declared: tuple[str, ...] = ()
) -> list[str] | None:
    """Return the devices that a claim gets."""
    node = convert(
        Node, {"metadata": {"name": "n1"}, "status": {"declaredFeatures": list(declared)}}
    )
    allocator = Allocator(DeviceInventory([one], features), AllocatedState(), CLASSES, new_id=str)
    found = allocator.allocate(node, [claim])
    return None if found is None else [each.device for each in found[0].devices.results]


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("declared", [(OPTIONAL,), ("another",), ()])
@pytest.mark.parametrize("gate", ["optional_node_operations", "list_type_attributes", None])
def test_what_needs_no_preparation_goes_to_nodes_that_say_they_can_skip_it(
    skips: bool, declared: tuple[str, ...], gate: str | None
) -> None:
    """If the feature is on; the allocator before it does not know the field."""
    spec = {"skipNodeOperations": ["All"]} if skips else {}
    features = Features(**{gate: True}) if gate else Features()
    can = gate == "optional_node_operations" and OPTIONAL in declared
    expected = ["a"] if can or not skips or gate is None else None
    assert allocated(slice_of([{"name": "a"}], **spec), claim_of(), features, declared) == expected


@pytest.mark.parametrize("partitionable", [True, False])
def test_devices_that_consume_counters_need_their_feature(partitionable: bool) -> None:
    """Without it nobody would count."""
    consumes = [{"counterSet": "all", "counters": {"memory": {"value": "1Gi"}}}]
    devices: list[dict[str, Any]] = [{"name": "part", "consumesCounters": consumes}]
    counters = [{"name": "all", "counters": {"memory": {"value": "4Gi"}}}]
    features = Features(partitionable_devices=partitionable)
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    slices = [
        slice_of([*devices, {"name": "plain"}], pool=pool),
        convert(
            ResourceSlice,
            {
                "metadata": {"name": "t"},
                "spec": {
                    "driver": "d",
                    "pool": pool,
                    "nodeName": "n1",
                    "sharedCounters": counters,
                },
            },
        ),
    ]
    node = convert(Node, {"metadata": {"name": "n1"}})
    allocator = Allocator(DeviceInventory(slices, features), AllocatedState(), CLASSES, new_id=str)
    found = allocator.allocate(node, [claim_of()])
    assert found is not None
    names = [each.device for each in found[0].devices.results]
    assert names == (["part"] if partitionable else ["plain"])


@pytest.mark.parametrize("shareable", [True, False])
def test_who_administers_a_shareable_device_may_ask_for_it_twice(shareable: bool) -> None:
    """Of one that is not shared, a claim gets each device once, administered or not."""
    device = {"name": "a", "allowMultipleAllocations": shareable}
    admin = {"deviceClassName": "gpu", "adminAccess": True}
    tree = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": name, "exactly": {**admin, "count": 1}} for name in ("r", "s")
                ]
            }
        },
    }
    found = allocated(slice_of([device]), convert(ResourceClaim, tree), Features())
    assert found == (["a", "a"] if shareable else None)


@pytest.mark.parametrize(("counts", "fits"), [((32,), True), ((16, 16), True), ((20, 13), False)])
def test_a_claim_has_as_many_devices_as_it_may_and_no_more(
    counts: tuple[int, ...], fits: bool
) -> None:
    """All of its requests together."""
    requests = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "gpu", "count": count}}
        for number, count in enumerate(counts)
    ]
    tree = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {"devices": {"requests": requests}},
    }
    devices: list[dict[str, Any]] = [{"name": f"d{number}"} for number in range(40)]
    claim = convert(ResourceClaim, tree)
    if fits:
        found = allocated(slice_of(devices), claim, Features())
        assert found is not None
        assert len(set(found)) == sum(counts)
    else:
        with pytest.raises(AllocationError, match="exceeds the claim limit of 32"):
            allocated(slice_of(devices), claim, Features())


@pytest.mark.parametrize(("first", "chosen"), [(4, 4), (5, 1)])
def test_an_alternative_that_makes_a_claim_too_large_is_passed_over(
    first: int, chosen: int
) -> None:
    """The next one is tried; what other requests have taken counts."""
    requests: list[dict[str, Any]] = [
        {"name": "many", "exactly": {"deviceClassName": "gpu", "count": 28}},
        {
            "name": "some",
            "firstAvailable": [
                {"name": "more", "deviceClassName": "gpu", "count": first},
                {"name": "less", "deviceClassName": "gpu", "count": 1},
            ],
        },
    ]
    tree = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {"devices": {"requests": requests}},
    }
    devices: list[dict[str, Any]] = [{"name": f"d{number}"} for number in range(40)]
    found = allocated(slice_of(devices), convert(ResourceClaim, tree), Features())
    assert found is not None
    assert len(found) == 28 + chosen


CAPACITY = {"requests": {"memory": "1"}}
PLAIN = {"deviceClassName": "gpu", "count": 1}


@pytest.mark.parametrize(
    ("request_", "feature", "problem"),
    [
        ({"exactly": {**PLAIN, "adminAccess": True}}, "admin_access",
         "claim ns/c, request r: admin access is requested, but the feature is disabled"),
        ({"firstAvailable": [{"name": "s", **PLAIN}]}, "prioritized_list",
         "claim ns/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled"),
        ({"exactly": {**PLAIN, "capacity": CAPACITY}}, "consumable_capacity",
         "claim ns/c, request r: has capacity requests, but the DRAConsumableCapacity feature is "
         "disabled"),
        ({"firstAvailable": [{"name": "s", **PLAIN, "capacity": CAPACITY}]}, "consumable_capacity",
         "claim ns/c, subrequest s: has capacity requests, but the DRAConsumableCapacity feature "
         "is disabled"),
    ],
)  # fmt: skip
def test_what_a_disabled_feature_would_give_is_refused_and_nothing_else(
    request_: dict[str, Any], feature: str, problem: str
) -> None:
    """With the name of the request; others of the same claim are understood."""
    metadata = {"name": "c", "namespace": "ns", "uid": "c"}
    spec = {"devices": {"requests": [{"name": "r", **request_}]}}
    claim = convert(ResourceClaim, {"metadata": metadata, "spec": spec})
    without = Features(**{feature: False})
    with pytest.raises(AllocationError, match=f"^{re.escape(problem)}$"):
        allocated(slice_of([{"name": "a"}]), claim, without)
    assert allocated(slice_of([{"name": "a"}]), claim_of(), without) == ["a"]


@pytest.mark.parametrize(
    ("exactly", "problem"),
    [
        ({"deviceClassName": ""}, "missing device class name (unsupported request type?)"),
        ({"deviceClassName": "none"}, 'deviceclass.resource.k8s.io "none" not found'),
        ({"allocationMode": "Most"}, "unsupported count mode Most"),
        ({"selectors": [{}]}, "selector #0: CEL expression empty (unsupported selector type?)"),
    ],
)
def test_a_request_that_cannot_be_understood_is_an_error(
    exactly: dict[str, Any], problem: str
) -> None:
    """Though devices are there."""
    with pytest.raises(AllocationError, match=f"^claim ns/c, request r.*{re.escape(problem)}$"):
        allocated(slice_of([{"name": "a"}]), claim_of(**exactly), Features())


@pytest.mark.parametrize("names", [("a", "a"), ("a", "b", "a")])
def test_a_pool_in_which_two_devices_have_one_name_is_not_used(
    names: tuple[str, ...],
) -> None:
    """Nobody could tell which of them is meant."""
    devices = slice_of([{"name": name} for name in names])
    with pytest.raises(AllocationError, match="invalid resource pools"):
        allocated(devices, claim_of(), Features())


# ------------------------------------------------------------------------------------------------
# Taints of devices, their own and those of rules, keep requests away that do not tolerate them.


def taint(key: str, effect: str = "NoSchedule") -> dict[str, str]:
    """Return a taint."""
    return {"key": key, "value": "v", "effect": effect}


def device(*taints: dict[str, str]) -> Device:
    """Return a device."""
    return convert(Device, {"name": "a", "taints": list(taints)})


@pytest.mark.parametrize(
    ("taints", "tolerated", "repelled_by"),
    [
        ([], [], None),
        ([taint("x")], [], "x"),
        ([taint("x", "NoExecute")], [], "x"),
        ([taint("x", "None")], [], None),
        ([taint("x")], ["x"], None),
        ([taint("x")], ["y"], "x"),
        ([taint("x"), taint("y")], ["x"], "y"),
        ([taint("x"), taint("y")], ["y", "x"], None),
        ([taint("x", "None"), taint("y")], [], "y"),
    ],
)
def test_the_first_taint_that_is_not_tolerated_repels(
    taints: list[dict[str, str]], tolerated: list[str], repelled_by: str | None
) -> None:
    """Any of the tolerations will do; other effects keep nobody away."""
    tolerations = [
        convert(DeviceToleration, {"key": key, "operator": "Exists"}) for key in tolerated
    ]
    found = repelling_taint(device(*taints), tolerations)
    assert (None if found is None else found.key) == repelled_by


def tainted(selector: dict[str, Any] | None) -> dict[str, list[str]]:
    """Return the taints of the devices of a slice after a rule."""
    devices = [{"name": "a", "taints": [taint("own")]}, {"name": "b"}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    tree = {"driver": "d", "pool": pool, "nodeName": "n", "devices": devices}
    one = convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": tree})
    spec: dict[str, Any] = {"taint": taint("rule")}
    if selector is not None:
        spec["deviceSelector"] = selector
    rule = convert(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": spec})
    (found,) = with_taints([one], [rule])
    assert with_taints([one], []) == [one]
    return {each.name: [taint.key for taint in each.taints] for each in found.spec.devices}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, "ab"),
        ({}, "ab"),
        ({"driver": "d"}, "ab"),
        ({"driver": "other"}, ""),
        ({"pool": "p"}, "ab"),
        ({"pool": "other"}, ""),
        ({"driver": "d", "pool": "other"}, ""),
        ({"driver": "other", "pool": "p"}, ""),
        ({"device": "b"}, "b"),
        ({"driver": "d", "pool": "p", "device": "a"}, "a"),
        ({"driver": "d", "pool": "p", "device": "other"}, ""),
    ],
)
def test_a_rule_taints_the_devices_that_all_of_its_selector_names(
    selector: dict[str, Any] | None, selected: str
) -> None:
    """After their own taints; without a selector all, as kube-scheduler takes it."""
    before = {"a": ["own"], "b": []}
    after = {name: [*keys, "rule"] if name in selected else keys for name, keys in before.items()}
    assert tainted(selector) == after
