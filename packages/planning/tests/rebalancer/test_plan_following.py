"""Plans are followed move by move: each leads to the promised end, or nothing more is moved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from benchmarks.defrag_quality import crowd
from packages.planning.tests.defrag.test_end_states import moved, places, plan_for, telco

from numakube.api.pod import Pod
from numakube.insight.facts import ClusterFacts
from numakube.insight.how_many_fit import copies
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_planning.defrag.defrag_plan import Move, MovePlan
from numakube_planning.defrag.plan_making import plan_moves
from numakube_planning.defrag.what_if_cluster import again
from numakube_planning.rebalancer.pod_moving import (
    CORDONED,
    SETTLING_SECONDS,
    PlanFollower,
    without_cordons,
)


@dataclass
class Passing:
    """A clock by which only sleepers let time pass."""

    now: float = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass
class DiceMover:
    """Moves pods on kubelet models as a scheduler would that throws dice among equals."""

    world: World
    seed: int = 0
    dry_run: bool = False
    moves: list[Move] = field(default_factory=list)
    client: Any = field(default_factory=lambda: SimpleNamespace(clock=Passing()))

    @asynccontextmanager
    async def cordons(self) -> AsyncIterator[None]:
        """Nodes are cordoned as long as the dice roll."""
        yield

    async def carry_out(self, move: Move, one: Pod) -> str:
        """Place the pod again, wherever the scheduler likes, and refuse nothing."""
        engine = engine_of(self.world.facts())
        for name in move.closed:
            node = self.world.nodes[name]
            spec = msgspec.structs.replace(node.spec, unschedulable=True)
            engine.cluster.set_node(msgspec.structs.replace(node, spec=spec))
        engine.cluster.remove_pod(one.metadata.uid)
        info = PodInfo(again(PodInfo(one)))
        dice = np.random.default_rng(self.seed + len(self.moves))
        cycle = Cycle(engine.cluster, engine.nominations, dice)
        decision = cycle.decide(info, engine.runtime_for(info.scheduler_name))
        assert isinstance(decision, Chosen)
        moved(self.world, as_it_came_out(move, decision.node))
        self.moves.append(move)
        return ""


def as_it_came_out(move: Move, node: str) -> Move:
    """Return *move* as it came out."""
    return Move(move.pod, move.from_node, node, move.closed)


async def applied(world: World, wanted: Pod, count: int, seed: int) -> tuple[str, MovePlan, int]:
    """Carry out a plan; return why it was given up, the plan, and how many pods were evicted."""
    mover = DiceMover(world, seed)

    def plan(facts: ClusterFacts, most: int) -> MovePlan:
        del facts, most
        return plan_for(world, wanted, count)

    async def look() -> ClusterFacts:
        return world.facts()

    begun = plan_for(world, wanted, count)
    follower = PlanFollower(mover=mover, look=look, plan=plan)  # type: ignore[arg-type]
    departure = await follower.follow(begun, world.facts())
    return departure, begun, len(mover.moves)


async def test_running_it_again_evicts_nobody() -> None:
    """Once there are as many places as there can be, no move is planned any more."""
    world, wanted = telco(), pod("wanted", cpu="24")
    assert places(world, wanted) == 1
    assert [(await applied(world, wanted, 3, run))[2] for run in range(4)] == [1, 0, 0, 0]
    assert places(world, wanted) == 2


@pytest.mark.parametrize("seed", [0, 2, 4, 6, 9, 14])
async def test_every_eviction_leads_to_a_gain_or_to_a_stop(seed: int) -> None:
    """And however often it is run, it comes to an end."""
    (world, wanted), count = crowd(seed), Random(seed).randint(1, 3)
    for run in range(12):
        before = places(world, wanted)
        departure, plan, evicted = await applied(world, wanted, count, run)
        if not departure:
            assert evicted == plan.moves
            assert places(world, wanted) >= len(plan.nodes)
            assert not evicted or places(world, wanted) > before
        if not evicted:
            return
    pytest.fail("evicts for ever")


async def test_nobody_is_evicted_once_the_end_cannot_be_reached() -> None:
    """Something takes the room between the first move and the second."""
    world, wanted = telco(), pod("wanted", cpu="28")
    begun = plan_for(world, wanted, 1)
    assert begun.moves == 1
    world = telco()
    for number in range(3):
        world.run(pod(f"late-{number}", cpu="4"), f"n{number}")
    two = plan_for(world, wanted, 1)
    assert two.nodes == []

    async def look() -> ClusterFacts:
        return world.facts()

    mover = DiceMover(world)
    promised = MovePlan(2, nodes=["n0", "n1"], steps=[*begun.steps, *begun.steps])
    follower = PlanFollower(
        mover=mover,  # type: ignore[arg-type]
        look=look,
        plan=lambda _facts, _most: plan_for(world, wanted, 2),
    )
    departure = await follower.follow(promised, world.facts())
    assert departure.startswith("0 of 2 pods fit now, planned were 2: 0/3 nodes are available")
    assert (len(mover.moves), mover.client.clock.now > SETTLING_SECONDS) == (1, True)


def cordoned(world: World, name: str) -> None:
    """Have a node cordoned by a plan."""
    node = world.nodes[name]
    meta = msgspec.structs.replace(node.metadata, annotations={CORDONED: "x"})
    spec = msgspec.structs.replace(node.spec, unschedulable=True)
    world.nodes[name] = msgspec.structs.replace(node, metadata=meta, spec=spec)


def test_a_plan_is_made_for_the_cluster_with_its_own_cordons_lifted() -> None:
    """Those of others stay, with their taints."""
    world = World()
    for name in ("ours", "theirs"):
        world.add_node(name, unschedulable=True)
    cordoned(world, "ours")
    nodes = without_cordons(world.facts()).nodes
    assert [nodes[name].spec.unschedulable for name in ("ours", "theirs")] == [False, True]


async def test_what_is_left_is_planned_without_the_cordons_of_the_plan_itself() -> None:
    """Else the room that a move has opened on a node that is still cordoned would not count."""
    world, wanted = telco(), pod("wanted", cpu="24")
    begun = plan_for(world, wanted, 2)

    async def look() -> ClusterFacts:
        for name in begun.next.closed:
            cordoned(world, name)
        return world.facts()

    follower = PlanFollower(
        mover=DiceMover(world),  # type: ignore[arg-type]
        look=look,
        plan=lambda facts, _most: plan_moves(engine_of(facts), copies(wanted, 2)),
    )
    assert (begun.moves, await follower.follow(begun, world.facts())) == (1, "")
