"""The allocator: the first solution in order, and nothing left behind by a search that turned."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.api.resource_slices import DeviceAttribute, DeviceClass, ResourceSlice
from numakube.dra.alike_nodes import OWN, NodeKinds
from numakube.dra.allocated_state import AllocatedState, state_of
from numakube.dra.allocator import Allocator
from numakube.dra.cel_selectors import derived_attribute, derived_program
from numakube.dra.device_ids import AllocationError
from numakube.dra.features import Features, features_of
from numakube.dra.pools import Inventory
from numakube.dra.search_time import SearchStopped
from numakube.errors import InvalidValue

_NODE = convert(Node, {"metadata": {"name": "n1"}})
_CLASSES = {"gpu": convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})}


def _slice(devices: list[dict[str, Any]], **spec: Any) -> ResourceSlice:
    tree = {
        "metadata": {"name": spec.pop("name", "s")},
        "spec": {
            "driver": "d",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": spec.pop("count", 1)},
            "nodeName": "n1",
            "devices": devices,
            **spec,
        },
    }
    return convert(ResourceSlice, tree)


def _claim(*requests: dict[str, Any], name: str = "c", **devices: Any) -> ResourceClaim:
    tree = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }
    return convert(ResourceClaim, tree)


def _request(name: str = "r", **exactly: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": 1, **exactly}}


def _allocate(
    slices: list[ResourceSlice],
    *claims: ResourceClaim,
    state: AllocatedState | None = None,
    features: Features | None = None,
) -> list[AllocationResult] | None:
    ids = count()
    inventory = Inventory(slices, features or Features())
    allocator = Allocator(
        inventory, state or AllocatedState(), _CLASSES, new_id=lambda: f"id-{next(ids)}"
    )
    return allocator.allocate(_NODE, claims)


def _names(allocations: list[AllocationResult] | None) -> list[list[str]]:
    return [[one.device for one in each.devices.results] for each in allocations or ()]


def test_devices_are_taken_in_the_order_of_the_slice() -> None:
    """Not by name."""
    slices = [_slice([{"name": "z"}, {"name": "a"}])]
    assert _names(_allocate(slices, _claim(_request(count=2)))) == [["z", "a"]]


def test_a_first_choice_that_leads_nowhere_is_taken_back() -> None:
    """The other request needs the device."""
    devices = [
        {"name": "a", "attributes": {"big": {"bool": True}}},
        {"name": "b", "attributes": {"big": {"bool": False}}},
    ]
    big = {"cel": {"expression": "device.attributes['d'].big"}}
    claim = _claim(_request("any"), _request("big", selectors=[big]))
    assert _names(_allocate([_slice(devices)], claim)) == [["b", "a"]]


def test_a_search_that_takes_too_long_is_stopped() -> None:
    """Three devices of sixty that agree in what they do not agree in."""
    devices = [{"name": f"d{i}", "attributes": {"n": {"int": i}}} for i in range(60)]
    claim = _claim(_request(count=5), constraints=[{"distinctAttribute": "d/n"}])
    more = _claim(_request(count=60), name="e")
    inventory = Inventory([_slice(devices)], Features())
    steps = iter(range(500))
    allocator = Allocator(
        inventory,
        AllocatedState(),
        _CLASSES,
        new_id=str,
        expired=lambda: lambda: next(steps, None) is None,
    )
    with pytest.raises(AllocationError, match="exceeds the claim limit of 32"):
        allocator.allocate(_NODE, [claim, more])
    fewer = _claim(_request(count=32), name="e")
    blocked = _claim(_request(count=29), name="f")
    with pytest.raises(SearchStopped):
        allocator.allocate(_NODE, [claim, fewer, blocked])


def test_an_unknown_gate_is_refused() -> None:
    """A misspelt switch must not be taken for one that is off."""
    with pytest.raises(InvalidValue, match="DRAColour"):
        features_of({"DRAColour": True})


def test_features_follow_the_version() -> None:
    """What was alpha in 1.34 is off there."""
    assert not features_of(minor=34).consumable_capacity
    assert features_of(minor=36).consumable_capacity
    assert features_of({"DRAConsumableCapacity": True}, minor=34).consumable_capacity


@pytest.mark.parametrize(
    "feature",
    [
        "derived_attributes",
        "device_compatibility_groups",
        "fractional_capacity_range",
        "node_allocatable_resources",
        "optional_node_operations",
    ],
)
def test_what_is_beta_in_1_38_is_on_there_and_off_before(feature: str) -> None:
    """A server that has the gate on stores the field, and it must not be ignored."""
    assert not getattr(features_of(minor=37), feature)
    assert getattr(features_of(minor=38), feature)
    assert features_of(minor=37) == Features()


def test_a_driver_of_1_38_that_needs_no_preparation_goes_to_nodes_that_can_skip_it() -> None:
    """The same slice that means nothing to 1.37 without its gate (KEP-5945)."""
    skipping = _slice([{"name": "a"}], skipNodeOperations=["All"])
    found = _allocate([skipping], _claim(_request()), features=features_of(minor=38))
    assert found is None
    assert _names(_allocate([skipping], _claim(_request()), features=features_of(minor=37)))


def test_a_gate_of_a_feature_that_is_not_there_can_only_be_off() -> None:
    """Who turns it on would count on amounts that are not counted (KEP-5941)."""
    gate = "DRASharedConsumableCapacity"
    assert features_of({gate: False}) == Features()
    with pytest.raises(InvalidValue, match=f"{gate} is not supported"):
        features_of({gate: True})


def _with_amounts_by_request(**value: Any) -> list[ResourceSlice]:
    consumption = {"counterSet": "pf-0", "counters": {"bandwidth": value}}
    counters = {"name": "pf-0", "counters": {"bandwidth": {"value": "100G"}}}
    taking: dict[str, Any] = {"name": "vf-0", "consumesCounters": [consumption]}
    devices = [taking, {"name": "vf-1"}]
    return [
        _slice(devices, name="devices", count=2),
        _slice([], name="counters", count=2, sharedCounters=[counters]),
    ]


@pytest.mark.parametrize("request_", [_request(), _request(allocationMode="All")])
def test_nothing_is_taken_from_counters_by_request(request_: dict[str, Any]) -> None:
    """KEP-5941: to ignore the field would mean that the device takes nothing of the counter."""
    slices = _with_amounts_by_request(valueFrom={"capacityKey": "d/bandwidth"})
    (pool,) = Inventory(slices, Features()).pools_for(_NODE)
    assert not pool.usable
    with pytest.raises(AllocationError, match=r"counter bandwidth of set pf-0 .*KEP-5941"):
        _allocate(slices, _claim(request_))
    assert _names(_allocate(_with_amounts_by_request(value="1G"), _claim(_request()))) == [["vf-0"]]


@pytest.mark.parametrize(
    ("gate", "newest"),
    [
        ("DRAListTypeAttributes", True),
        ("DRADerivedAttributes", True),
        ("DRADeviceCompatibilityGroups", True),
        ("DRAOptionalNodeOperations", True),
        ("DRAFractionalCapacityRange", False),
    ],
)
def test_an_alpha_feature_takes_the_newest_allocator(gate: str, newest: bool) -> None:
    """Unless the one before it can do the same."""
    assert features_of({gate: True}).experimental is newest


def test_nothing_is_allocated_from_a_pool_of_which_slices_are_missing() -> None:
    """It is known all the same: a request for all devices must not overlook it."""
    inventory = Inventory([_slice([{"name": "a"}], count=2)], Features())
    (pool,) = inventory.pools_for(_NODE)
    assert (pool.usable, pool.incomplete) == (False, True)
    assert _allocate([_slice([{"name": "a"}], count=2)], _claim(_request())) is None


def test_devices_say_where_they_are_only_if_their_slice_leaves_it_to_them() -> None:
    """A slice that says nothing may do so in a way that is not known yet."""
    devices = [{"name": "a", "nodeName": "n1"}]
    silent = _slice(devices, nodeName=None)
    assert _allocate([silent], _claim(_request())) is None
    leaving = _slice(devices, nodeName=None, perDeviceNodeSelection=True)
    assert _names(_allocate([leaving], _claim(_request()))) == [["a"]]


@pytest.mark.parametrize("shareable", [True, False])
def test_only_further_shares_of_a_device_consume_no_counters(shareable: bool) -> None:
    """A device that may no longer be shared is paid for anew, and nothing is left for that."""
    consumption = {"counterSet": "set", "counters": {"memory": {"value": "1"}}}
    device = {"name": "a", "allowMultipleAllocations": shareable, "consumesCounters": [consumption]}
    counters = {"name": "set", "counters": {"memory": {"value": "1"}}}
    slices = [
        _slice([device], name="devices", count=2),
        _slice([], name="counters", count=2, sharedCounters=[counters]),
    ]
    share = {"request": "r", "driver": "d", "pool": "n1", "device": "a", "shareID": "one"}
    held = convert(AllocationResult, {"devices": {"results": [share]}})
    found = _allocate(slices, _claim(_request()), state=state_of([held], sharing=True))
    assert _names(found) == ([["a"]] if shareable else [])


@pytest.mark.parametrize(
    ("value", "asked", "consumed"),
    [
        ("1", {"x": "500m"}, "500m"),
        ("1", {"x": "1500m"}, None),
        ("1500u", {}, None),
    ],
)
def test_fractions_of_a_range_are_whole_steps(
    value: str, asked: dict[str, str], consumed: str | None
) -> None:
    """Steps of a thousandth; what cannot be said in thousandths is in no such range."""
    policy = {"validRange": {"min": "1m", "step": "1m"}}
    device = {
        "name": "a",
        "allowMultipleAllocations": True,
        "capacity": {"x": {"value": value, "requestPolicy": policy}},
    }
    claim = _claim(_request(capacity={"requests": asked}))
    found = _allocate([_slice([device])], claim, features=Features(fractional_capacity_range=True))
    amounts = [one.consumed_capacity["x"] for each in found or () for one in each.devices.results]
    assert amounts == ([] if consumed is None else [consumed])


@pytest.mark.parametrize(("name", "found"), [("d/n", True), ("other/n", False)])
def test_an_attribute_without_domain_is_of_the_driver(name: str, found: bool) -> None:
    """A constraint on one of another domain is not satisfied by it."""
    devices = [{"name": one, "attributes": {"n": {"int": 1}}} for one in ("a", "b")]
    claim = _claim(_request(count=2), constraints=[{"matchAttribute": name}])
    assert (_allocate([_slice(devices)], claim) is not None) is found


def test_a_derived_attribute_may_be_an_empty_list() -> None:
    """Of texts, since nothing tells what they would be."""
    program = derived_program("['a'].filter(one, false)", lists=True)
    assert derived_attribute(program, {}) == DeviceAttribute(strings=())


_SHARES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@given(_SHARES, st.integers(4, 12))
def test_shares_never_exceed_the_capacity(amounts: list[int], capacity: int) -> None:
    """Claim after claim, and inside one claim."""
    device = {
        "name": "a",
        "allowMultipleAllocations": True,
        "capacity": {"x": {"value": str(capacity)}},
    }
    state, used = AllocatedState(), 0
    for index, amount in enumerate(amounts):
        claim = _claim(_request(capacity={"requests": {"x": str(amount)}}), name=f"c{index}")
        found = _allocate([_slice([device])], claim, state=state)
        assert (found is not None) == (used + amount <= capacity)
        if found:
            used += amount
            state.add(found[0], sharing=True)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(1, 8))
def test_state_is_what_the_claims_hold(counts: list[int], devices: int) -> None:
    """Added and removed in any number, nothing is left and nothing is missing."""
    slices = [_slice([{"name": f"d{i}"} for i in range(devices)])]
    state, held = AllocatedState(), list[AllocationResult]()
    for wanted in counts:
        found = _allocate(slices, _claim(_request(count=wanted)), state=state)
        if found is None:
            assert sum(len(one.devices.results) for one in held) + wanted > devices
            continue
        state.add(found[0], sharing=True)
        held.append(found[0])
    assert state == state_of(held, sharing=True)
    for one in held:
        state.remove(one, sharing=True)
    assert state == AllocatedState()


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=2, max_size=5),
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 2))),
    st.integers(1, 3),
)
def test_nodes_of_one_kind_get_equal_devices(
    offers: list[list[int]], taken: set[tuple[int, int]], wanted: int
) -> None:
    """Only the names of their pools differ."""
    slices, nodes, state = [], [], AllocatedState()
    for number, values in enumerate(offers):
        name = f"n{number}"
        nodes.append(convert(Node, {"metadata": {"name": name}}))
        devices = [
            {"name": f"d{at}", "attributes": {"v": {"int": value}}}
            for at, value in enumerate(values)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        slices.append(_slice(devices, name=name, pool=pool, nodeName=name))
        for at in range(len(values)):
            if (number, at) in taken:
                result = {"request": "r", "driver": "d", "pool": name, "device": f"d{at}"}
                held = convert(AllocationResult, {"devices": {"results": [result]}})
                state.add(held, sharing=True)
    inventory = Inventory(slices, Features())
    kinds, allocator = (
        NodeKinds(inventory, state),
        Allocator(inventory, state, _CLASSES, new_id=str),
    )
    claim = _claim(_request(count=wanted), constraints=[{"matchAttribute": "d/v"}])
    found: dict[object, list[list[str]] | None] = {}
    for node in nodes:
        kind = kinds.of(node)
        assert kind != OWN
        allocated = allocator.allocate(node, [claim])
        devices_of = None if allocated is None else _names(allocated)
        assert found.setdefault(kind, devices_of) == devices_of


def test_a_node_that_reaches_devices_of_others_is_of_its_own_kind() -> None:
    """Or one that shares a device."""
    everywhere = _slice([{"name": "a"}], nodeName=None, allNodes=True)
    kinds = NodeKinds(Inventory([everywhere], Features()), AllocatedState())
    assert kinds.of(_NODE) == OWN
