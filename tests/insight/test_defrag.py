"""Plans to make room hold: every move and every wanted pod is admitted by the kubelets."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import msgspec
import pytest

from numakube.api.meta import LabelSelector, ObjectMeta, OwnerReference
from numakube.api.pod import Pod
from numakube.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from numakube.insight.defrag import MOVABLE, Plan, plan_moves
from numakube.insight.scheduler_engine import engine_of
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.outcome import Rejected
from numakube.testing import World, pod

SHAPE = "2 sockets, 4 cores, smt 1, 16Gi"
OWNER = OwnerReference(
    api_version="apps/v1", kind="ReplicaSet", name="app", uid="app", controller=True
)


def owned(name: str, cpu: str = "2", **more: Any) -> Pod:
    """Return a pod that its controller makes again."""
    one = pod(name, cpu=cpu, labels={"app": "a"}, **more)
    meta = msgspec.structs.replace(one.metadata, owner_references=(OWNER,))
    return msgspec.structs.replace(one, metadata=meta)


def world_of(*nodes: tuple[Pod, ...]) -> World:
    """Return a cluster of nodes with two NUMA nodes, three CPUs each to give, and their pods."""
    world = World()
    for number, pods in enumerate(nodes):
        world.add_node(f"n{number}", machine=SHAPE)
        for one in pods:
            world.run(one, f"n{number}")
    return world


def plan_for(world: World, cpu: str = "3", count: int = 1) -> Plan:
    """Return the plan for pods with so many CPUs."""
    return plan_moves(engine_of(world.facts()), pod("wanted", cpu=cpu), count)


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


def crowd(rng: Random) -> World:
    """Return a cluster with random pods, some of which may move."""
    world = World()
    for number in range(3):
        name = f"n{number}"
        world.add_node(name, rng.choice(("single-numa-node", "restricted")), machine=SHAPE)
        for index in range(rng.randint(1, 4)):
            make = owned if rng.random() < 0.8 else pod
            one = make(f"{name}-{index}", cpu=str(rng.randint(1, 3)))
            if not isinstance(world.kubelets[name].clone().admit(one), Rejected):
                world.run(one, name)
    return world


@pytest.mark.parametrize("seed", range(12))
def test_kubelets_admit_whatever_a_plan_says(seed: int) -> None:
    """Moves in their order, then the wanted pods; and no plan for one pod has a move too many."""
    world = crowd(Random(seed))
    plan = plan_for(world, count=2)
    kubelets = {name: model.clone() for name, model in world.kubelets.items()}
    pods = {f"default/{one.metadata.name}": one for one in world.pods}
    for step in plan.steps:
        for move in step.moves:
            one = pods[move.pod]
            kubelets[move.from_node].remove(one.metadata.uid)
            assert not isinstance(kubelets[move.to_node].admit(renewed(one)), Rejected)
    for number, node in enumerate(plan.nodes):
        assert not isinstance(kubelets[node].admit(pod(f"w{number}", cpu="3")), Rejected)
    first = plan_for(world)
    fewest = fewest_moves(world)
    assert fewest is None if not first.nodes else first.moves <= (fewest or 0)


def renewed(one: Pod) -> Pod:
    """Return the pod that its controller makes next."""
    meta = msgspec.structs.replace(one.metadata, uid=f"{one.metadata.uid}-2")
    spec = msgspec.structs.replace(one.spec, node_name="")
    return msgspec.structs.replace(one, metadata=meta, spec=spec)


def fewest_moves(world: World) -> int | None:
    """Return how many pods of one node have to move at least, by trying all; at most three."""
    for size in range(4):
        for name in world.kubelets:
            there = [
                one
                for one in world.pods
                if one.spec.node_name == name and one.metadata.controller is not None
            ]
            if any(opens(world.kubelets, name, some) for some in combinations(there, size)):
                return size
    return None


def opens(kubelets: dict[str, KubeletNode], name: str, leaving: tuple[Pod, ...]) -> bool:
    """Tell whether the wanted pod fits, and those that leave fit on other nodes, in any way."""
    model = kubelets[name].clone()
    for one in leaving:
        model.remove(one.metadata.uid)
    if isinstance(model.admit(pod("wanted", cpu="3")), Rejected):
        return False
    others = {other: found.clone() for other, found in kubelets.items() if other != name}
    return rehoused(others, list(leaving))


def rehoused(kubelets: dict[str, KubeletNode], pods: list[Pod]) -> bool:
    """Tell whether all of *pods* fit on the nodes, wherever each goes."""
    if not pods:
        return True
    for name, model in kubelets.items():
        trial = model.clone()
        if not isinstance(trial.admit(renewed(pods[0])), Rejected) and rehoused(
            {**kubelets, name: trial}, pods[1:]
        ):
            return True
    return False
