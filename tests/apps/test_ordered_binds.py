"""Pods are bound in order on each node, and the outcome is always found out."""

from __future__ import annotations

import asyncio

from numakube.apps.ordered_binds import Lanes, Turn
from numakube.testing import turns


async def test_pods_of_one_node_are_bound_in_the_order_of_their_decisions() -> None:
    """The kubelet admits in that order."""
    lanes, order = Lanes(), list[str]()

    async def work(node: str, name: str, yields: int) -> None:
        async with lanes.on(node):
            await turns(yields)
            order.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(work("n1", "first", 20))
        group.create_task(work("n1", "second", 1))
        group.create_task(work("n2", "elsewhere", 1))
        group.create_task(work("n1", "third", 0))
    assert order == ["elsewhere", "first", "second", "third"]


async def test_no_more_than_so_many_bindings_are_under_way() -> None:
    """A burst must not flood the server."""
    lanes, most, now = Lanes(at_once=3), 0, 0

    async def work(number: int) -> None:
        nonlocal most, now
        async with lanes.on(f"n{number}"):
            now += 1
            most = max(most, now)
            await turns()
            now -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(work(number))
    assert most == 3


async def test_a_lane_survives_a_binding_that_was_cancelled() -> None:
    """The next pod gets its turn."""
    lanes = Lanes()

    async def stuck() -> None:
        async with lanes.on("n1"):
            await asyncio.Event().wait()

    task = asyncio.create_task(stuck())
    await turns()
    task.cancel()
    async with lanes.on("n1"):
        had_its_turn = True
    assert had_its_turn


async def test_a_turn_is_had_from_the_moment_in_which_it_is_asked_for() -> None:
    """Whichever of the tasks that wait for theirs runs first."""
    lanes, order = Lanes(), list[str]()
    first, second = lanes.on("n1"), lanes.on("n1")

    async def work(turn: Turn, name: str) -> None:
        async with turn:
            order.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(work(second, "second"))
        group.create_task(work(first, "first"))
    assert order == ["first", "second"]


async def test_who_leaves_without_a_turn_holds_up_nobody() -> None:
    """Such as a binding that is given up before it starts; leaving twice does no harm."""
    lanes = Lanes()
    first, second, third = (lanes.on("n1") for _ in range(3))
    second.leave()
    first.leave()
    first.leave()
    async with third:
        assert not lanes.on("n1").came.is_set()


async def test_who_is_cancelled_while_waiting_for_a_free_slot_holds_up_nobody() -> None:
    """Neither those on its node nor the others."""
    lanes = Lanes(at_once=1)
    async with lanes.on("n1"):
        waits = asyncio.create_task(have_a_turn(lanes, "n2"))
        await turns()
        waits.cancel()
        await turns()
    await have_a_turn(lanes, "n2")


async def have_a_turn(lanes: Lanes, node: str) -> None:
    """Have a turn on *node*."""
    async with lanes.on(node):
        await turns()
