"""Plans are carried out pod by pod, and given up where the cluster does not follow them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from packages.planning.tests.rebalancer.fragmented import (
    cordon,
    fragmented,
    on,
    own_clock,
    unplaced,
)

from numakube.kube.catalog import NODES, POD_DISRUPTION_BUDGETS
from numakube.kube.client import Client, merge_patch
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import evict_pod
from numakube.testing import refusal_of, until
from numakube.values.times import format_time
from numakube_lab.testing import LabCluster
from numakube_planning.defrag.defrag_plan import Move
from numakube_planning.rebalancer.pod_moving import CORDONED, Mover


@pytest.fixture
async def world() -> AsyncIterator[LabCluster]:
    """Two nodes, and two pods on the first that could go to the second."""
    async with fragmented() as found:
        yield found


def mover(
    world: LabCluster, told: list[str], patience: float = 120.0, client: Client | None = None
) -> Mover:
    """Return one that says what it does to *told*."""
    return Mover(client or world.client, patience=patience, tell=told.append)


async def carry_out(
    world: LabCluster,
    app: str,
    told: list[str],
    patience: float = 120.0,
    client: Client | None = None,
) -> str:
    """Move the pod of *app* from the first node to the second; return why not."""
    pods = {pod.metadata.key: pod for pod in world.pods.store}
    key = next(key for key, one in pods.items() if one.metadata.labels.get("app") == app)
    move, by = (
        Move(key, "node-0", "node-1", closed=("node-0",)),
        mover(world, told, patience, client),
    )
    async with by.cordons():
        return await by.carry_out(move, pods[key])


async def cordoned(world: LabCluster) -> set[str]:
    """Return which nodes take no pods."""
    nodes = (await world.client.list(NODES)).items
    return {node.metadata.name for node in nodes if node.spec.unschedulable}


async def test_a_pod_that_may_not_leave_or_has_no_place_ends_it(world: LabCluster) -> None:
    """In the words of the API server and of the scheduler; the pod is where it was then."""
    selector = {"matchLabels": {"app": "a"}}
    budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": selector}}
    await world.client.create(POD_DISRUPTION_BUDGETS, budget, namespace="default")
    departure = await carry_out(world, "a", [], patience=1.0)
    assert "may not be evicted" in departure
    assert "disruption budget" in departure
    assert (on(world, "node-0"), await cordoned(world)) == ({"a", "b"}, set())

    await cordon(world, "node-1", cordoned=True)
    async with own_clock(world) as (client, clock):
        moving = asyncio.create_task(carry_out(world, "b", [], 0.5, client))
        await world.until(lambda: any(map(refusal_of, unplaced(world))))
        await clock.sleepers()
        await clock.advance(0.5)
        assert "has no node: 0/2 nodes are available" in await moving
    await world.until(lambda: on(world, "node-0") == {"a", "b"})
    assert await cordoned(world) == {"node-1"}


async def test_a_move_whose_process_was_killed_is_ended_by_the_next_run(world: LabCluster) -> None:
    """The pod that it evicted still goes where it should; only then the node is opened again."""
    await world.running[0].end()
    left = {CORDONED: format_time(world.client.clock.now())}
    change = {"metadata": {"annotations": left}, "spec": {"unschedulable": True}}
    await world.client.patch(NODES, "node-0", merge_patch(change))
    one = next(pod for pod in world.pods.store if pod.metadata.labels.get("app") == "a")
    await evict_pod(world.client, ObjectKey("default", one.metadata.name), uid=one.metadata.uid)
    await world.until(lambda: on(world, "node-0") == {"b"} and bool(unplaced(world)))
    told: list[str] = []
    again = asyncio.create_task(mover(world, told).lift_leftovers())
    await until(lambda: told, lambda lines: any("has no node yet" in line for line in lines))
    assert await cordoned(world) == {"node-0"}
    await world.start()
    assert await again == []
    await world.until(lambda: "a" in on(world, "node-1"))
    assert await cordoned(world) == set()


async def test_a_node_that_somebody_else_cordoned_stays_cordoned(world: LabCluster) -> None:
    """A pod that leaves it does not open it to others."""
    await cordon(world, "node-0", cordoned=True)
    told: list[str] = []
    assert await carry_out(world, "a", told) == ""
    assert await cordoned(world) == {"node-0"}
    assert not [line for line in told if "cordoned" in line]


async def test_an_interrupted_move_leaves_no_node_cordoned(world: LabCluster) -> None:
    """Neither by cancellation, nor, once it is run again, by the end of its process."""
    await cordon(world, "node-1", cordoned=True)
    told: list[str] = []
    moving = asyncio.create_task(carry_out(world, "a", told))
    await until(lambda: told, lambda lines: any("evicted" in line for line in lines))
    moving.cancel()
    await asyncio.gather(moving, return_exceptions=True)
    assert await cordoned(world) == {"node-1"}
    await cordon(world, "node-1", cordoned=False)
    left = {"metadata": {"annotations": {CORDONED: "x"}}, "spec": {"unschedulable": True}}
    await world.client.patch(NODES, "node-0", merge_patch(left))
    assert await mover(world, told).lift_leftovers() == []
    assert await cordoned(world) == set()
    assert told[-1] == "node/node-0 uncordoned: left behind by an interrupted run"
