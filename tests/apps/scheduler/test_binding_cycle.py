"""From a decision to a bound pod: whatever comes of it, nothing is left half done."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.apps.scheduler.parts import Parts

from numakube.api.pod import PodStatus
from numakube.scheduling.framework.status import SUCCESS, Code, Status, unschedulable
from numakube.scheduling.scheduling_queue import Place
from numakube.testing import World, pod, turns


@pytest.fixture
def parts() -> Parts:
    """A scheduler of one idle node."""
    world = World()
    world.add_node("n0")
    return Parts(world)


def counted(parts: Parts) -> set[str]:
    """Return the pods that count on the node."""
    node = parts.engine.cluster.node("n0")
    assert node is not None
    return set(node.pods)


async def test_a_bound_pod_leaves_the_queue_and_is_under_way_no_longer(parts: Parts) -> None:
    """Users are told, the recorder notes it, and it goes on counting on its node."""
    parts.gate.open.clear()
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
        await turns(5)
        assert "a" in parts.bindings
        assert counted(parts) == {"a"}
        parts.gate.open.set()
    assert "a" not in parts.bindings
    assert "a" not in parts.queue
    assert counted(parts) == {"a"}
    assert parts.told.of("scheduled") == [("a", "n0")]


async def test_a_pod_without_permission_gives_its_room_back_and_is_tried_again(
    parts: Parts,
) -> None:
    """It is told who kept it back."""
    parts.gate.permission = unschedulable("not today"), 0.0
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
    assert counted(parts) == set()
    assert parts.place_of("a") is Place.BACKOFF
    ((name, message, *_),) = parts.told.of("refused")
    assert (name, message) == ("a", "binding to n0 failed: DefaultBinder: not today")
    assert parts.gate.bound == []


async def test_a_pod_waits_for_permission_as_long_as_it_may(parts: Parts) -> None:
    """Then its room is given back."""
    parts.gate.permission = Status(Code.WAIT), 7.0
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
        await parts.clock.timeouts()
        await parts.clock.advance(6.9)
        assert "a" in parts.bindings
        await parts.clock.advance(0.2)
    assert "a" not in parts.bindings
    assert counted(parts) == set()
    assert parts.place_of("a") is Place.BACKOFF


async def test_a_pod_that_waits_is_expected_on_its_node_until_that_fails(parts: Parts) -> None:
    """Its status says where it will go (KEP-5278); the room that it has is not kept twice."""
    parts.gate.permission = Status(Code.WAIT), 7.0
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
        await parts.clock.timeouts()
        assert parts.told.of("nominated") == [("a", "n0")]
        parts.waits(replace(pod("a"), status=PodStatus(nominated_node_name="n0")))
        assert parts.engine.nominations.node_of("a") is None
        await parts.clock.advance(7.1)
    assert parts.told.of("nominated") == [("a", "n0"), ("a", "")]


async def test_a_pod_that_is_bound_at_once_is_nominated_nowhere(parts: Parts) -> None:
    """It would take a request more for each pod."""
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
    assert parts.told.of("nominated") == []


async def test_a_pod_that_was_not_bound_is_under_way_no_longer(parts: Parts) -> None:
    """So that news of it take it off the queue again."""
    parts.gate.answer = unschedulable("no answer")
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
    assert "a" not in parts.bindings
    assert parts.place_of("a") is Place.BACKOFF
    assert counted(parts) == set()


async def test_a_scheduler_is_busy_while_eight_pods_are_being_bound() -> None:
    """Events give way to bindings then; of seven it takes no notice."""
    world = World()
    for number in range(8):
        # Pods of one node are bound one after the other, so each gets a node of its own.
        world.add_node(f"n{number}", machine="1 socket, 4 cores, smt 1, 16Gi")
    parts = Parts(world)
    parts.gate.open.clear()
    async with asyncio.TaskGroup() as tasks:
        for number in range(8):
            assert not parts.scheduler.is_busy
            parts.bindings.start(parts.placement(pod(f"p{number}", "3")), tasks)
            await turns(5)
        assert parts.scheduler.is_busy
        parts.gate.open.set()
    assert not parts.scheduler.is_busy


@pytest.mark.parametrize("held_by", ["PreBind", "Permit"])
async def test_a_pod_that_waits_before_it_is_bound_holds_up_nobody_on_its_node(
    parts: Parts, held_by: str
) -> None:
    """Its claim may take ten minutes to be ready; pods of others are bound meanwhile."""
    if held_by == "PreBind":
        parts.gate.awaited["waits"] = asyncio.Event()
    else:
        parts.gate.permission = Status(Code.WAIT), 600.0
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("waits")), tasks)
        await turns(5)
        parts.gate.permission = SUCCESS, 0.0
        parts.bindings.start(parts.placement(pod("comes-later")), tasks)
        await turns(5)
        assert parts.gate.bound == [("comes-later", "n0")]
        assert counted(parts) == {"waits", "comes-later"}
        parts.permits.allow("waits")
        for ready in parts.gate.awaited.values():
            ready.set()
    assert parts.gate.bound == [("comes-later", "n0"), ("waits", "n0")]


async def test_any_number_of_pods_that_wait_hold_up_nobody_on_another_node() -> None:
    """They do not count as requests under way, nor do they make the scheduler busy."""
    world = World()
    for number in range(70):
        world.add_node(f"n{number}", machine="1 socket, 4 cores, smt 1, 16Gi")
    parts = Parts(world)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(69):
            parts.gate.awaited[f"p{number}"] = ready
            parts.bindings.start(parts.placement(pod(f"p{number}", "3")), tasks)
        await turns(5)
        assert not parts.bindings.is_busy
        parts.bindings.start(parts.placement(pod("another", "3")), tasks)
        await turns(5)
        assert [name for name, _ in parts.gate.bound] == ["another"]
        ready.set()
    assert len(parts.gate.bound) == 70


async def test_a_pod_that_has_waited_is_not_bound_to_a_node_that_is_gone(parts: Parts) -> None:
    """It is tried again, and its status says no longer where it will go."""
    parts.gate.awaited["a"] = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
        await turns(5)
        parts.engine.cluster.remove_node("n0")
        parts.gate.awaited["a"].set()
    assert parts.gate.bound == []
    assert parts.place_of("a") is Place.BACKOFF
    assert parts.told.of("nominated") == [("a", "n0"), ("a", "")]


async def test_a_scheduler_that_was_replaced_while_a_pod_waited_leaves_it_to_the_next(
    parts: Parts,
) -> None:
    """Another one leads by then, and may have given the room away."""
    parts.gate.awaited["a"] = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("a")), tasks)
        await turns(5)
        parts.queue.leads = False
        parts.gate.awaited["a"].set()
    assert parts.gate.bound == []
    assert counted(parts) == set()
