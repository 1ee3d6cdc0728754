"""The allocator: the first solution in order, and nothing left behind by a search that turned."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.affinity_and_taints import NodeSelector
from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.api.resource_slices import DeviceAttribute, DeviceClass, ResourceSlice
from numakube.dra.alike_nodes import OWN, NodeKinds
from numakube.dra.allocated_state import AllocatedState, state_of
from numakube.dra.allocator import Allocator, preference_score
from numakube.dra.cel_selectors import derived_attribute, derived_program
from numakube.dra.device_ids import AllocationError, SearchStopped
from numakube.dra.features import Features, features_of
from numakube.dra.pools import DeviceInventory, selects
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
    inventory = DeviceInventory(slices, features or Features())
    allocator = Allocator(
        inventory, state or AllocatedState(), _CLASSES, new_id=lambda: f"id-{next(ids)}"
    )
    return allocator.allocate(_NODE, claims)


def _names(allocations: list[AllocationResult] | None) -> list[list[str]]:
    return [[device.device for device in each.devices.results] for each in allocations or ()]


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
    inventory = DeviceInventory([_slice(devices)], Features())
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
    (pool,) = DeviceInventory(slices, Features()).pools_for(_NODE)
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
    inventory = DeviceInventory([_slice([{"name": "a"}], count=2)], Features())
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
    amounts = [
        device.consumed_capacity["x"] for each in found or () for device in each.devices.results
    ]
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
            assert sum(len(result.devices.results) for result in held) + wanted > devices
            continue
        state.add(found[0], sharing=True)
        held.append(found[0])
    assert state == state_of(held, sharing=True)
    for result in held:
        state.remove(result, sharing=True)
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
    inventory = DeviceInventory(slices, Features())
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
    kinds = NodeKinds(DeviceInventory([everywhere], Features()), AllocatedState())
    assert kinds.of(_NODE) == OWN


# ------------------------------------------------------------------------------------------------
# What is written of an allocation: the nodes that can use it, and who configures the devices.

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
    inventory = DeviceInventory(list(slices), Features())
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
    told = [(configuration.source, tuple(configuration.requests)) for configuration in found]
    assert ("FromClaim", ("none",)) not in told
    assert told.count(("FromClaim", ())) == 1
    assert told.count(("FromClaim", ("r0",))) == 1
    assert [source for source, _ in told].count("FromClass") == 1


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        (
            {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]},
            '[0].matchExpressions[0].operator: Unsupported value: "Near": supported values: '
            '"DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"',
        ),
        (
            {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
            '[0].matchFields[0].operator: Unsupported value: "Exists": supported values: '
            '"In", "NotIn"',
        ),
        (
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
            '[0].matchFields[0].values: Invalid value: []string{"a", "b"}: must have one element',
        ),
    ],
)
def test_a_selector_that_cannot_be_read_is_told_by_its_part(
    requirement: dict[str, Any], problem: str
) -> None:
    """Whatever node is asked about."""
    selector = convert(NodeSelector, {"nodeSelectorTerms": [requirement]})
    with pytest.raises(AllocationError) as told:
        selects(selector, NODE)
    assert str(told.value).endswith(f": {problem}")


@pytest.mark.parametrize(
    ("term", "selected"),
    [
        ({}, False),
        ({"matchFields": HERE}, True),
        ({"matchFields": HERE, "matchExpressions": [ZONE]}, True),
        ({"matchFields": [{**HERE[0], "operator": "NotIn"}], "matchExpressions": [ZONE]}, False),
        ({"matchFields": HERE, "matchExpressions": [{**ZONE, "operator": "NotIn"}]}, False),
        ({"matchFields": [{**HERE[0], "key": "metadata.uid"}]}, False),
    ],
)
def test_a_term_holds_if_all_of_it_does(term: dict[str, Any], selected: bool) -> None:
    """An empty one never does; of a node only the name can be asked for as a field."""
    assert selects(convert(NodeSelector, {"nodeSelectorTerms": [term]}), NODE) is selected


# ------------------------------------------------------------------------------------------------
# Nodes where requests get what they name first are better.


def test_alternatives_count_by_their_place_in_the_list() -> None:
    """Also those of a claim that was allocated before; the others are allocated in order."""
    alternatives = [{"name": one, "deviceClassName": "gpu"} for one in ("best", "good", "poor")]

    def allocated(alternative: str) -> dict[str, Any]:
        result = {"request": f"r/{alternative}", "driver": "d", "pool": "n1", "device": "a"}
        return {"devices": {"results": [result]}}

    request = {"name": "r", "firstAvailable": alternatives}
    tree = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    fresh = convert(ResourceClaim, tree)
    held = convert(ResourceClaim, {**tree, "status": {"allocation": allocated("poor")}})
    served = convert(AllocationResult, allocated("good"))
    assert preference_score([held, fresh], [served]) == 6 + 7
