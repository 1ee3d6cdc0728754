"""Devices that share counters: what is left for each, and which go together."""

from __future__ import annotations

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.allocator import Allocator
from numakube.dra.counters import Groups
from numakube.dra.features import Features
from numakube.dra.pools import Inventory

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
    groups = Groups()
    for one in there:
        groups = groups.joined(one)
    assert groups.admits(comes) is goes


def test_a_device_without_groups_changes_nothing_for_those_that_have_some() -> None:
    """It may be there from before groups were written down."""
    assert Groups(AB).joined(NONE) == Groups(AB)
    assert Groups(NONE).joined(A) == Groups(NONE)


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
    allocator = Allocator(Inventory(slices, Features()), state, classes, new_id=str)
    found = allocator.allocate(NODE, [convert(ResourceClaim, tree)])
    return None if found is None else [one.device for one in found[0].devices.results]


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
