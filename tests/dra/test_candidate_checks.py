"""Which devices a request may get."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.allocator import Allocator
from numakube.dra.device_ids import AllocationError
from numakube.dra.features import Features
from numakube.dra.pools import Inventory

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
    allocator = Allocator(Inventory([one], features), AllocatedState(), CLASSES, new_id=str)
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
    allocator = Allocator(Inventory(slices, features), AllocatedState(), CLASSES, new_id=str)
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
