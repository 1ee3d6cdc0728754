"""How much of a device a request takes, by the device's policy, and whether that is left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import AllocationResult, CapacityRequirements, ResourceClaim
from numakube.api.resource_slices import DeviceCapacity, DeviceClass, ResourceSlice
from numakube.dra.allocated_state import (
    AllocatedState,
    CompatibilityGroups,
    is_available,
    state_of,
    wanted_amounts,
)
from numakube.dra.allocator import Allocator
from numakube.dra.device_ids import AllocationError, DeviceId
from numakube.dra.features import Features
from numakube.dra.pools import DeviceInventory
from numakube.values.quantity import parse_quantity

MOST = 2**63 - 1


def capacity_of(value: str = "100", **policy: Any) -> dict[str, DeviceCapacity]:
    """Return what a device has of ``memory``."""
    tree: dict[str, Any] = {"value": value, "requestPolicy": policy or None}
    return {"memory": convert(DeviceCapacity, tree)}


def asking(**amounts: str) -> CapacityRequirements:
    """Return a request."""
    return convert(CapacityRequirements, {"requests": amounts})


def taken(
    asked: str | None, *, fractions: bool = False, value: str = "100", **policy: Any
) -> str | None:
    """Return what a request takes of a device."""
    request = None if asked is None else asking(memory=asked)
    found = wanted_amounts(request, capacity_of(value, **policy), fractions=fractions)
    return None if found is None else str(found["memory"])


RANGE = {"min": "10", "max": "50", "step": "4"}


@pytest.mark.parametrize(
    ("asked", "policy", "amount"),
    [
        (None, {}, "100"),
        (None, {"default": "7"}, "7"),
        ("3", {}, "3"),
        ("3", {"default": "7"}, "3"),
        ("3", {"validValues": ["2", "4", "8"]}, "4"),
        ("4", {"validValues": ["2", "4", "8"]}, "4"),
        ("9", {"validValues": ["2", "4", "8"]}, "9"),
        ("9", {"validRange": RANGE}, "10"),
        ("10", {"validRange": RANGE}, "10"),
        ("11", {"validRange": RANGE}, "14"),
        ("14", {"validRange": RANGE}, "14"),
        ("60", {"validRange": RANGE}, "62"),
        ("11", {"validRange": {"min": "10"}}, "11"),
        ("11", {"validRange": {"max": "50", "step": "4"}}, "11"),
    ],
)
def test_a_request_takes_what_the_policy_makes_of_it(
    asked: str | None, policy: dict[str, Any], amount: str
) -> None:
    """All of it if nothing is asked for; else the next value or step that is enough."""
    assert taken(asked, **policy) == amount


@pytest.mark.parametrize(
    ("asked", "fractions", "amount"),
    [
        ("1100m", True, "1250m"),
        ("1250m", True, "1250m"),
        ("1600m", True, "1750m"),
        ("1800m", True, "2"),
        ("500m", True, "1"),
    ],
)
def test_steps_may_be_thousandths_if_the_feature_is_on(
    asked: str, fractions: bool, amount: str
) -> None:
    """A whole number is written as one."""
    valid = {"min": "1", "step": "250m"}
    assert taken(asked, fractions=fractions, validRange=valid) == amount


def test_without_the_feature_numbers_are_rounded_up_to_whole_ones() -> None:
    """The minimum, the step and the request, as Go's Value() does."""
    assert taken("2500m", validRange={"min": "1", "step": "2"}) == "3"
    assert taken("3500m", validRange={"min": "1", "step": "2"}) == "5"


@pytest.mark.parametrize(
    ("asked", "valid", "fractions", "problem"),
    [
        (str(MOST + 1), {"min": "1", "step": "2"}, False, "exceeds MaxInt64"),
        (str(MOST), {"min": "0", "step": "2"}, False, "passes MaxInt64"),
        ("1500u", {"min": "1m", "step": "1m"}, True, "not a representable milli value"),
        (str(MOST // 1000), {"min": "1m", "step": "3"}, True, "passes the milli-value range"),
    ],
)
def test_what_the_arithmetic_cannot_express_is_an_error(
    asked: str, valid: dict[str, str], fractions: bool, problem: str
) -> None:
    """With the name of the capacity."""
    with pytest.raises(AllocationError, match=rf'^capacity "memory": .*{problem}'):
        taken(asked, fractions=fractions, value=str(MOST), validRange=valid)


def test_the_largest_number_is_no_error() -> None:
    """The last step that ends within the range."""
    assert taken(str(MOST), value=str(MOST), validRange={"min": "1", "step": "2"}) == str(MOST)
    last = MOST // 1000
    assert taken(
        str(last), fractions=True, value=str(MOST), validRange={"min": "1", "step": "1"}
    ) == str(last)


def test_a_device_without_what_is_asked_for_is_not_taken() -> None:
    """Nor is a negative amount."""
    assert wanted_amounts(asking(cores="1"), capacity_of(), fractions=False) is None
    assert wanted_amounts(None, {}, fractions=False) == {}
    assert taken("0") == "0"
    with pytest.raises(AllocationError, match="capacity value is negative"):
        taken("-1")


@pytest.mark.parametrize(
    ("amount", "consumed", "fits"),
    [
        ("100", (), True),
        ("101", (), False),
        ("60", ("40",), True),
        ("60", ("41",), False),
        ("60", ("20", "20"), True),
        ("60", ("20", "21"), False),
    ],
)
def test_amounts_fit_beside_what_is_consumed(
    amount: str, consumed: tuple[str, ...], fits: bool
) -> None:
    """By others and by the same search."""
    amounts = {"memory": parse_quantity(amount)}
    others = tuple({"memory": parse_quantity(one), "cores": parse_quantity(1)} for one in consumed)
    assert is_available(amounts, capacity_of(), ({}, *others), fractions=False) is fits


@pytest.mark.parametrize(
    ("amount", "policy", "fractions", "fits"),
    [
        ("3", {"validValues": ["2", "4"]}, False, False),
        ("4", {"validValues": ["2", "4"]}, False, True),
        ("3", {"validValues": []}, False, True),
        ("3", {"default": "3", "validValues": ["2", "4"]}, False, True),
        ("3000m", {"default": "3", "validValues": ["2", "4"]}, False, False),
        ("3", {"default": "3000m", "validValues": ["2", "4"]}, False, False),
        ("14", {"validRange": RANGE}, False, True),
        ("15", {"validRange": RANGE}, False, False),
        ("50", {"validRange": RANGE}, False, True),
        ("54", {"validRange": RANGE}, False, False),
        ("51", {"validRange": {"min": "10", "max": "50"}}, False, False),
        ("50", {"validRange": {"min": "10", "max": "50"}}, False, True),
        ("1250m", {"validRange": {"min": "1", "step": "250m"}}, True, True),
        ("1300m", {"validRange": {"min": "1", "step": "250m"}}, True, False),
        ("1100u", {"validRange": {"min": "1", "step": "250m"}}, True, False),
        ("3", {"validRange": {"min": "1", "step": "2"}}, False, True),
        ("4", {"validRange": {"min": "1", "step": "2"}}, False, False),
        ("4", {"validRange": {"step": "2"}}, False, True),
    ],
)
def test_amounts_keep_to_the_policy_or_are_its_default(
    amount: str, policy: dict[str, Any], fractions: bool, fits: bool
) -> None:
    """Values are the only ones; a default counts only as it is written, as Go compares it."""
    amounts = {"memory": parse_quantity(amount)}
    assert is_available(amounts, capacity_of(**policy), (), fractions=fractions) is fits


@pytest.mark.parametrize(("policy", "fits"), [({}, True), ({"validValues": ["2"]}, False)])
def test_a_default_beyond_the_largest_number_is_never_the_same(
    policy: dict[str, Any], fits: bool
) -> None:
    """Go keeps such a number elsewhere, and compares where."""
    large = "10000000000000000000"
    told = {"default": large, **policy} if policy else {}
    amounts = {"memory": parse_quantity(large)}
    assert is_available(amounts, capacity_of(f"{large}0", **told), (), fractions=False) is fits


def test_a_range_may_begin_near_the_largest_number() -> None:
    """What is left above the minimum counts, not what is below it."""
    most = {"min": str(MOST - 10), "step": "4"}
    assert taken(str(MOST - 5), value=str(MOST), validRange=most) == str(MOST - 2)
    with pytest.raises(AllocationError, match="passes MaxInt64"):
        taken(str(MOST - 1), value=str(MOST), validRange=most)
    thousandths = {"min": f"{MOST - 10}m", "step": "4m"}
    with pytest.raises(AllocationError, match="passes the milli-value range"):
        taken(f"{MOST - 1}m", fractions=True, value=str(MOST), validRange=thousandths)


# ------------------------------------------------------------------------------------------------
# Devices that share counters: what is left for each, and which go together.

A, B, AB, NONE = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset[str]()


@pytest.mark.parametrize(
    ("there", "comes", "goes"),
    [
        ((), NONE, True),
        ((), A, True),
        ((NONE,), NONE, True),
        ((NONE,), A, False),
        ((A,), NONE, False),
        ((A,), A, True),
        ((A,), B, False),
        ((AB,), B, True),
        ((AB, A), B, False),
        ((AB, A), A, True),
    ],
)
def test_devices_of_a_counter_set_have_a_group_in_common_or_none_has_any(
    there: tuple[frozenset[str], ...], comes: frozenset[str], goes: bool
) -> None:
    """The first device may be of any group."""
    groups = CompatibilityGroups()
    for one in there:
        groups = groups.joined(one)
    assert groups.admits(comes) is goes


def test_a_device_without_groups_changes_nothing_for_those_that_have_some() -> None:
    """It may be there from before groups were written down."""
    assert CompatibilityGroups(AB).joined(NONE) == CompatibilityGroups(AB)
    assert CompatibilityGroups(NONE).joined(A) == CompatibilityGroups(NONE)


NODE = convert(Node, {"metadata": {"name": "n1"}})


def slices_of(*devices: tuple[str, dict[str, str]], **counters: str) -> list[ResourceSlice]:
    """Return devices that each consume some of the *counters* that they share."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": "d", "pool": pool, "nodeName": "n1"}
    offered = [
        {
            "name": name,
            "consumesCounters": [
                {
                    "counterSet": "all",
                    "counters": {key: {"value": value} for key, value in consumed.items()},
                }
            ],
        }
        for name, consumed in devices
    ]
    amounts = {key: {"value": value} for key, value in counters.items()}
    shared = [{"name": "all", "counters": amounts}]
    return [
        convert(ResourceSlice, {"metadata": {"name": name}, "spec": {**common, **spec}})
        for name, spec in (("devices", {"devices": offered}), ("sets", {"sharedCounters": shared}))
    ]


def allocated(slices: list[ResourceSlice], count: int = 1, *taken: str) -> list[str] | None:
    """Return the devices that a claim gets while others have those *taken*."""
    state = AllocatedState()
    for name in taken:
        result = {"request": "r", "driver": "d", "pool": "n1", "device": name}
        held = convert(AllocationResult, {"devices": {"results": [result]}})
        state.add(held, sharing=True)
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    tree = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {"devices": {"requests": [request]}},
    }
    classes = {"gpu": convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})}
    allocator = Allocator(DeviceInventory(slices, Features()), state, classes, new_id=str)
    found = allocator.allocate(NODE, [convert(ResourceClaim, tree)])
    return None if found is None else [device.device for device in found[0].devices.results]


def test_devices_take_from_the_counters_that_they_name() -> None:
    """One that takes nothing of a counter is not kept back by it."""
    slices = slices_of(
        ("big", {"memory": "8Gi"}),
        ("half", {"memory": "4Gi"}),
        ("other", {"memory": "4Gi"}),
        ("core", {"cores": "1"}),
        memory="8Gi",
        cores="1",
    )
    assert allocated(slices) == ["big"]
    assert allocated(slices, 2) == ["big", "core"]
    assert allocated(slices, 3) == ["half", "other", "core"]
    assert allocated(slices, 4) is None
    assert allocated(slices, 1, "half") == ["other"]
    assert allocated(slices, 2, "half") == ["other", "core"]
    assert allocated(slices, 1, "big") == ["core"]
    assert allocated(slices, 1, "big", "core") is None


def test_of_counters_that_are_overdrawn_nothing_is_given() -> None:
    """Also no device that takes of another counter: the driver has to set it right first."""
    slices = slices_of(
        ("big", {"memory": "8Gi"}),
        ("half", {"memory": "4Gi"}),
        ("core", {"cores": "1"}),
        memory="8Gi",
        cores="1",
    )
    assert allocated(slices, 1, "big", "half") is None


_SHARES = st.one_of(st.none(), st.tuples(st.sampled_from("xyz"), st.integers(0, 3)))
_RESULTS = st.lists(st.tuples(st.sampled_from("ab"), _SHARES, st.booleans()), max_size=3)


def _allocation(
    number: int, results: list[tuple[str, tuple[str, int] | None, bool]]
) -> AllocationResult:
    """Return an allocation of devices, shares of devices, or access to administer them."""
    listed = []
    for device, share, admin in results:
        one = {"driver": "d", "pool": "p", "device": device, "request": "r", "adminAccess": admin}
        if share is not None:
            one["shareID"] = f"{share[0]}{number}"
            one["consumedCapacity"] = {"m": str(share[1])} if share[1] else {}
        listed.append(one)
    return convert(AllocationResult, {"devices": {"results": listed}})


@given(st.lists(_RESULTS, max_size=5), st.booleans(), st.data())
def test_a_state_forgets_what_is_given_back_and_nothing_else(
    results: list[list[tuple[str, tuple[str, int] | None, bool]]],
    sharing: bool,
    data: st.DataObject,
) -> None:
    """Whole devices, shares, capacity and pools; a copy goes its own way."""
    allocations = [_allocation(number, one) for number, one in enumerate(results)]
    state = state_of(allocations, sharing=sharing)
    before, twin = state.copy(), state.copy()
    left = []
    for one in allocations:
        if data.draw(st.booleans()):
            twin.remove(one, sharing=sharing)
        else:
            left.append(one)
    assert state == before == state_of(allocations, sharing=sharing)
    assert twin == state_of(left, sharing=sharing)
    for name in "ab":
        device = DeviceId("d", "p", name)
        whole = [one for result in results for one in result if one[0] == name and not one[2]]
        shared = [one for one in whole if one[1] is not None and sharing]
        assert state.holds(device) is bool(whole)
        assert state.is_shared(device) is bool(shared)
