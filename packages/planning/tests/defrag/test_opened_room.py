"""Plans to make room hold: every move and every wanted pod is admitted by the kubelets."""

from __future__ import annotations

import msgspec
import pytest
from benchmarks.defrag_quality import NONE, SHAPE, admitted, crowd, fewest_moves, owned, planned

from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.pod import Pod
from numakube.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from numakube.insight.how_many_fit import copies
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL, REQUIRED_TOPOLOGY
from numakube.testing import World, pod
from numakube_planning.defrag.defrag_plan import MOVABLE, MovePlan
from numakube_planning.defrag.plan_making import gang_members, plan_for_waiting, plan_moves


def world_of(*nodes: tuple[Pod, ...]) -> World:
    """Return a cluster of nodes with two NUMA nodes, three CPUs each to give, and their pods."""
    world = World()
    for number, pods in enumerate(nodes):
        world.add_node(f"n{number}", machine=SHAPE)
        for one in pods:
            world.run(one, f"n{number}")
    return world


def plan_for(world: World, cpu: str = "3", count: int = 1) -> MovePlan:
    """Return the plan for pods with so many CPUs."""
    return plan_moves(engine_of(world.facts()), copies(pod("wanted", cpu=cpu), count))


def test_one_pod_moves_into_a_hole_elsewhere() -> None:
    """Each NUMA node of both has one CPU too few, or two."""
    plan = plan_for(world_of((owned("a"), owned("b")), (pod("c"), pod("d"))))
    assert plan.nodes == ["n0"]
    assert plan.moves == 1
    (move,) = plan.steps[0].moves
    assert (move.from_node, move.to_node) == ("n0", "n1")


def test_nothing_moves_where_there_is_room() -> None:
    """Moves are for what does not fit otherwise."""
    plan = plan_for(world_of((owned("a"),), (owned("b"),)), count=2)
    assert (plan.nodes, plan.steps, plan.why_not) == (["n0", "n1"], [], "")


@pytest.mark.parametrize("reason", ["no controller", "opted out", "priority", "budget"])
def test_pods_that_must_stay_are_left_alone(reason: str) -> None:
    """The plan says that nothing helps."""
    one = pod("a") if reason == "no controller" else owned("a")
    if reason == "opted out":
        one = owned("a", annotations={MOVABLE: "false"})
    if reason == "priority":
        one = owned("a", priority=5)
    stays = pod("b")
    world = world_of((one, stays), (pod("c"), pod("d")))
    if reason == "budget":
        selector = LabelSelector(match_labels={"app": "a"})
        world.objects.disruption_budgets["default/b"] = PodDisruptionBudget(
            metadata=ObjectMeta(name="b", namespace="default"),
            spec=PodDisruptionBudgetSpec(selector=selector),
            status=PodDisruptionBudgetStatus(disruptions_allowed=0),
        )
    plan = plan_for(world)
    assert (plan.nodes, plan.steps) == ([], [])
    assert plan.why_not.startswith("0/2 nodes are available")


def test_a_chain_of_moves_opens_room_where_no_single_move_does() -> None:
    """The pod of three CPUs can only leave when the one of two has gone to the third node."""
    world = world_of(
        (pod("x", "3"), owned("a", "3")),
        (pod("y", "3"), pod("u", "1"), owned("b")),
        (pod("z", "3"), pod("v")),
    )
    plan = plan_for(world, "4")
    assert plan.nodes == ["n0"]
    assert [(move.pod, move.to_node) for move in plan.steps[0].moves] == [
        ("default/b", "n2"),
        ("default/a", "n1"),
    ]


@pytest.mark.parametrize("seed", [0, 4, 5, 6, 122, 146])
def test_plans_hold_and_have_the_fewest_moves(seed: int) -> None:
    """Kubelets admit every move in its order, then the wanted pod; three clusters need swaps."""
    world, wanted = crowd(seed)
    plan = planned(world, wanted)
    kubelets = {name: model.clone() for name, model in world.kubelets.items()}
    pods = {f"default/{one.metadata.name}": one for one in world.pods}
    for move in (move for step in plan.steps for move in step.moves):
        assert move.from_node in move.closed
        one = pods[move.pod]
        kubelets[move.from_node].remove(one.metadata.uid)
        meta = msgspec.structs.replace(one.metadata, uid=f"{one.metadata.uid}-2")
        after = admitted(kubelets[move.to_node], msgspec.structs.replace(one, metadata=meta))
        assert after is not None
        kubelets[move.to_node] = after
    assert all(admitted(kubelets[node], wanted) for node in plan.nodes)
    assert (plan.moves if plan.nodes else NONE) == fewest_moves(world, wanted)


def test_a_pod_that_waits_gets_room_and_one_that_runs_needs_none() -> None:
    """What is planned is for the very pod, in its own place in the gang."""
    world = world_of((owned("a"), owned("b")), (pod("c"), pod("d")))
    waiting = pod("late", cpu="3")
    engine = engine_of(world.facts())
    plan = plan_for_waiting(engine, [waiting])
    assert (plan.nodes, plan.moves) == (["n0"], 1)
    again = plan_for_waiting(engine, [world.pods[0]])
    assert (again.wanted, again.nodes, again.steps) == (1, ["n0"], [])


def test_a_gang_gets_room_within_one_topology_domain() -> None:
    """There, each member counts on the moves for those before it."""
    labels = {NAME_LABEL: "g", MIN_LABEL: "2"}
    members = [
        pod(f"m{number}", cpu="4", labels=labels, annotations={REQUIRED_TOPOLOGY: "rack"})
        for number in range(2)
    ]
    world = World()
    for number, rack in enumerate("aabb"):
        world.add_node(f"n{number}", machine=SHAPE, labels={"rack": rack})
    for name, node in (("x", "n0"), ("y", "n1"), ("z", "n2"), ("v", "n3")):
        world.run(pod(name, "3"), node)
    for name, node in (("o", "n0"), ("p", "n2"), ("q", "n3")):
        world.run(owned(name, "1"), node)
    plan = plan_for_waiting(engine_of(world.facts()), members)
    assert {node[:2] for node in plan.nodes} == {"n0", "n1"}
    assert plan.moves == 1
    assert gang_members(members, "default", "g") == members
    assert gang_members(members, "default", "other") == []
