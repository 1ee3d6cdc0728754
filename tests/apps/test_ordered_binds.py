"""Pods are bound in order on each node, and the outcome is always found out."""

from __future__ import annotations

import asyncio

from numakube.apps.ordered_binds import Lanes
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
