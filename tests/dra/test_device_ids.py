"""A search ends in time, and what selectors of users leave behind is bounded."""

from __future__ import annotations

from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.allocator import Allocator
from numakube.dra.cel_selectors import MAX_BYTES, selector_program
from numakube.dra.device_ids import EVALUATION_SECONDS, AllocationError, SearchStopped, SearchTime
from numakube.dra.features import Features
from numakube.dra.pools import DeviceInventory

if TYPE_CHECKING:
    from collections.abc import Callable


NODE = convert(Node, {"metadata": {"name": "n1"}})
CLASSES = {"gpu": convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})}
ENDLESS = "lists.range(900).all(x, lists.range(900).all(y, x + y >= 0))"


def _inventory(devices: int) -> DeviceInventory:
    spec = {
        "driver": "d",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n1",
        "devices": [{"name": f"d{number}"} for number in range(devices)],
    }
    one = convert(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})
    return DeviceInventory([one], Features())


def _claim(expression: str) -> ResourceClaim:
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "count": 1}
    exactly["selectors"] = [{"cel": {"expression": expression}}]
    request = {"name": "r", "exactly": exactly}
    meta = {"name": "c", "namespace": "ns", "uid": "c"}
    return convert(ResourceClaim, {"metadata": meta, "spec": {"devices": {"requests": [request]}}})


def _allocator(
    inventory: DeviceInventory, expired: Callable[[], bool] = lambda: False, **more: Any
) -> Allocator:
    return Allocator(
        inventory, AllocatedState(), CLASSES, new_id=str, expired=lambda: expired, **more
    )


def test_a_search_looks_at_the_clock_while_it_judges_devices() -> None:
    """Hundreds of them are judged in one step."""
    looks = count()
    allocator = _allocator(_inventory(500), lambda: next(looks) >= 3)
    with pytest.raises(SearchStopped):
        allocator.allocate(NODE, [_claim("false")])
    assert _allocator(_inventory(500)).allocate(NODE, [_claim("false")]) is None


def test_an_expression_is_given_its_time_from_its_first_look_on() -> None:
    """Each of them; the search as a whole may end before."""
    now, over = [0.0], [False]
    time = SearchTime(lambda: over[0], lambda: now[0])
    for _ in range(3):
        is_late = time.evaluation()
        assert not is_late()
        now[0] += EVALUATION_SECONDS * 0.9
        assert not is_late()
        now[0] += EVALUATION_SECONDS * 0.2
        assert is_late()
    is_late = time.evaluation()
    over[0] = True
    assert is_late()
    with pytest.raises(SearchStopped):
        time.check()


def test_without_clocks_only_work_is_limited() -> None:
    """As for tools that ask what would be."""
    is_late = SearchTime().evaluation()
    assert not any(is_late() for _ in range(1000))


def test_time_that_is_over_in_an_expression_ends_the_search() -> None:
    """It is not taken for an error of the expression."""
    looks = count()
    allocator = _allocator(_inventory(1), lambda: next(looks) >= 3, cpu_seconds=lambda: 0.0)
    with pytest.raises(SearchStopped):
        allocator.allocate(NODE, [_claim(ENDLESS)])


def test_what_a_selector_said_is_remembered_for_some_selectors() -> None:
    """Also that it took too much, with the words of the first time."""
    inventory = _inventory(1)
    (candidate,) = inventory.pools_for(NODE)[0].candidates
    allocator = _allocator(inventory)
    messages = []
    for _ in range(2):
        with pytest.raises(AllocationError, match="actual cost limit exceeded") as error:
            allocator.allocate(NODE, [_claim(ENDLESS)])
        assert error.value.costly
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert isinstance(candidate.verdicts[ENDLESS], AllocationError)
    for number in range(200):
        assert allocator.allocate(NODE, [_claim(f"{number} == {number}")]) is not None
        assert len(candidate.verdicts) <= 64


def test_a_pause_of_the_process_is_not_held_against_a_selector() -> None:
    """The next attempt asks again, and gets an answer."""
    inventory = _inventory(1)
    clock = chain([0.0, 2 * EVALUATION_SECONDS], repeat(2 * EVALUATION_SECONDS))
    allocator = _allocator(inventory, cpu_seconds=lambda: next(clock))
    long = _claim("lists.range(3000).all(x, x >= 0)")
    with pytest.raises(AllocationError, match="it took too long") as error:
        allocator.allocate(NODE, [long])
    assert error.value.costly
    assert allocator.allocate(NODE, [long]) is not None


def test_an_error_that_took_no_time_is_found_again() -> None:
    """It says nothing of the device that would last."""
    inventory = _inventory(1)
    (candidate,) = inventory.pools_for(NODE)[0].candidates
    with pytest.raises(AllocationError, match="no such key: a") as error:
        _allocator(inventory).allocate(NODE, [_claim("device.attributes['d'].a == 1")])
    assert not error.value.costly
    assert str(error.value).startswith("claim ns/c: selector #0 on device d/n1/d0: CEL runtime")
    assert candidate.verdicts == {}


def test_an_expression_is_no_longer_than_the_api_allows() -> None:
    """What could not be compiled is known the next time."""
    text = "true" + " " * (MAX_BYTES - 4)
    assert selector_program(text).text == text
    for _ in range(2):
        with pytest.raises(AllocationError, match="longer than 10240 bytes"):
            selector_program(text + " ")
    with pytest.raises(AllocationError, match="must evaluate to bool"):
        selector_program("1")
