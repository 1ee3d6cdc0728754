"""What is written of an allocation: the nodes that can use it, and who configures the devices."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.allocator import Allocator
from numakube.dra.device_ids import AllocationError
from numakube.dra.features import Features
from numakube.dra.pools import Inventory

NODE = convert(Node, {"metadata": {"name": "n1", "labels": {"zone": "a", "rack": "r"}}})
HERE = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
ZONE_TOO = {"key": "zone", "operator": "In", "values": ["b", "a"]}
RACK = {"key": "rack", "operator": "In", "values": ["r"]}


def slice_of(name: str, device: dict[str, Any], **spec: Any) -> ResourceSlice:
    """Return a slice with one device in a pool of its own."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    tree = {"driver": "d", "pool": pool, "devices": [{"name": name, **device}], **spec}
    return convert(ResourceSlice, {"metadata": {"name": name}, "spec": tree})


def selector(*expressions: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a node selector with one term."""
    return {"nodeSelectorTerms": [{"matchExpressions": list(expressions), **more}]}


def allocation(*slices: ResourceSlice, **devices: Any) -> AllocationResult:
    """Return what a claim for one device of each slice gets."""
    requests = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "gpu", "count": 1}}
        for number in range(len(slices))
    ]
    tree = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {"devices": {"requests": requests, **devices}},
    }
    config = [{"opaque": {"driver": "d", "parameters": {"by": "class"}}}]
    gpu = convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {"config": config}})
    inventory = Inventory(list(slices), Features())
    allocator = Allocator(inventory, AllocatedState(), {"gpu": gpu}, new_id=str)
    found = allocator.allocate(NODE, [convert(ResourceClaim, tree)])
    assert found is not None
    return found[0]


def where(one: AllocationResult) -> tuple[list[Any], list[Any]] | None:
    """Return the expressions and fields of the only term, as documents."""
    if one.node_selector is None:
        return None
    (term,) = one.node_selector.node_selector_terms
    return tuple(
        [{"key": each.key, "operator": each.operator, "values": list(each.values)} for each in some]
        for some in (term.match_expressions, term.match_fields)
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("device", "spec", "expected"),
    [
        ({}, {"nodeName": "n1"}, ([], HERE)),
        ({}, {"allNodes": True}, None),
        ({"bindsToNode": True}, {"allNodes": True}, ([], HERE)),
        ({}, {"nodeSelector": selector(ZONE, RACK)}, ([ZONE, RACK], [])),
        ({"nodeName": "n1"}, {"perDeviceNodeSelection": True}, ([], HERE)),
        ({"allNodes": True}, {"perDeviceNodeSelection": True}, None),
        (
            {"nodeSelector": selector(RACK)},
            {"perDeviceNodeSelection": True},
            ([RACK], []),
        ),
    ],
)
def test_an_allocation_is_good_for_the_nodes_that_reach_the_device(
    device: dict[str, Any], spec: dict[str, Any], expected: tuple[list[Any], list[Any]] | None
) -> None:
    """For all if the device says so, or for one if it binds to the node."""
    assert where(allocation(slice_of("a", device, **spec))) == expected


def test_what_several_devices_ask_of_nodes_is_asked_once() -> None:
    """The same labels with the same values, in any order, are the same."""
    slices = (
        slice_of("a", {}, nodeSelector=selector(ZONE)),
        slice_of("b", {}, nodeSelector=selector(ZONE_TOO, RACK)),
    )
    assert where(allocation(*slices)) == ([ZONE, RACK], [])
    bound = slice_of("c", {}, nodeName="n1")
    assert where(allocation(*slices, bound)) == ([], HERE)


def test_several_terms_are_an_error() -> None:
    """They cannot be joined with those of other devices."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchExpressions": [RACK]}]}
    with pytest.raises(AllocationError, match=r"NodeSelector with 2 terms"):
        allocation(slice_of("a", {}, nodeSelector=terms))


def test_configuration_of_class_and_claim_comes_with_the_requests_that_it_is_for() -> None:
    """Of the claim, all that names no request or one that was allocated."""
    opaque = {"driver": "d", "parameters": {"by": "claim"}}
    config = [
        {"opaque": opaque},
        {"requests": ["r0"], "opaque": opaque},
        {"requests": ["none"], "opaque": opaque},
    ]
    slices = [slice_of(name, {}, nodeName="n1") for name in ("a", "b")]
    found = allocation(*slices, config=config).devices.config
    told = [(one.source, tuple(one.requests)) for one in found]
    assert ("FromClaim", ("none",)) not in told
    assert told.count(("FromClaim", ())) == 1
    assert told.count(("FromClaim", ("r0",))) == 1
    assert [source for source, _ in told].count("FromClass") == 1
