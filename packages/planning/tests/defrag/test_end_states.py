"""Plans promise what there is at their end: so many places at the same time."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from benchmarks.defrag_quality import crowd, owned

from numakube.api.affinity_and_taints import Affinity, PodAffinity, PodAffinityTerm
from numakube.api.meta import LabelSelector
from numakube.api.pod import Pod
from numakube.insight.how_many_fit import copies, room_for
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.testing import World, kubelet_settings, pod
from numakube_planning.defrag.defrag_plan import Move, MovePlan
from numakube_planning.defrag.plan_making import plan_for_waiting, plan_moves
from numakube_planning.defrag.what_if_cluster import WantedPods, WhatIfCluster

TELCO = "2 sockets, 16 cores, smt 2, 96Gi"

_MINE = LabelSelector(match_labels={"app": "w"})
_TERM = PodAffinityTerm(label_selector=_MINE, topology_key="kubernetes.io/hostname")
_APART = Affinity(pod_anti_affinity=PodAffinity(required=(_TERM,)))


def moved(world: World, move: Move) -> None:
    """Have the kubelets carry out a move."""
    old = next(one for one in world.pods if one.metadata.key == move.pod)
    assert old.spec.node_name == move.from_node
    world.kubelets[move.from_node].remove(old.metadata.uid)
    world.pods.remove(old)
    meta = msgspec.structs.replace(old.metadata, uid=f"{old.metadata.uid}+")
    spec = msgspec.structs.replace(old.spec, node_name="")
    world.run(msgspec.structs.replace(old, metadata=meta, spec=spec), move.to_node)


def places(world: World, wanted: Pod) -> int:
    """Return how many such pods fit, as `kubectl numa fits` counts them."""
    return sum(room_for(engine_of(world.facts()), wanted).values())


def plan_for(world: World, wanted: Pod, count: int) -> MovePlan:
    """Return the plan for so many pods."""
    return plan_moves(engine_of(world.facts()), copies(wanted, count))


def telco(*small: int) -> World:
    """Return nodes whose first zones hold one, two and three small pods, their second large ones.

    A kubelet puts a small pod into the first zone as long as it fits there. There are as many
    nodes, and as many small pods on each, as *small* says.
    """
    world = World()
    for number, count in enumerate(small or (1, 2, 3)):
        settings = kubelet_settings(
            scope="pod", reserved="0,32", cpu_options={"full-pcpus-only": "true"}
        )
        world.add_node(f"n{number}", machine=TELCO, settings=settings)
        world.run(pod(f"fill-{number}", cpu="30"), f"n{number}")
        for index in range(2):
            world.run(pod(f"large-{number}-{index}", cpu="12"), f"n{number}")
        fill = world.pods.pop(-3)
        world.kubelets[f"n{number}"].remove(fill.metadata.uid)
        for index in range(count):
            world.run(owned(f"small-{number}-{index}", cpu="4"), f"n{number}")
    return world


@pytest.mark.parametrize(("count", "promised", "moves"), [(1, 1, 0), (2, 2, 1), (3, 2, 1)])
def test_a_place_that_a_move_takes_away_again_is_not_promised(
    count: int, promised: int, moves: int
) -> None:
    """Small pods go to first zones, which is where the places are."""
    world, wanted = telco(), pod("wanted", cpu="24")
    plan = plan_for(world, wanted, count)
    assert (len(plan.nodes), plan.moves) == (promised, moves)
    for move in (move for step in plan.steps for move in step.moves):
        # The scheduler would like the emptiest node best, which has a place.
        assert "n0" in move.closed
        moved(world, move)
    assert min(count, places(world, wanted)) == promised


def test_any_number_of_nodes_with_places_is_passed_over() -> None:
    """A small pod goes to the fullest node, though the scheduler likes all others better."""
    plan = plan_for(telco(1, 1, 1, 1, 1, 2, 3), pod("wanted", cpu="24"), 6)
    assert (len(plan.nodes), plan.moves) == (6, 1)
    assert plan.next.to_node == "n6"


def test_a_place_is_gone_once_a_pod_has_come_to_its_node() -> None:
    """Of pods that keep apart it cannot be told node by node."""
    wanted = pod("wanted", cpu="24", labels={"app": "w"})
    for affinity, gone in ((None, True), (_APART, False)):
        spec = msgspec.structs.replace(wanted.spec, affinity=affinity)
        what_if = WhatIfCluster(engine_of(telco().facts()))
        pods = WantedPods(what_if, copies(msgspec.structs.replace(wanted, spec=spec), 2))
        assert (pods.nodes, pods.fewer_fit_on("n0")) == (["n0"], False)
        what_if.put(pod("small", cpu="4"), "n0")
        assert (pods.fewer_fit_on("n0"), pods.fewer_fit_on("n1")) == (gone, False)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6, 8, 9, 10, 12, 13, 14])
def test_as_many_fit_in_the_end_as_are_promised(seed: int) -> None:
    """By the count of all that fit on the cluster after the moves."""
    rng = Random(seed)
    (world, wanted), count = crowd(seed), rng.randint(2, 4)
    before = places(world, wanted)
    plan = plan_for(world, wanted, count)
    for move in (move for step in plan.steps for move in step.moves):
        moved(world, move)
    assert min(count, places(world, wanted)) == len(plan.nodes) >= min(count, before)
    assert not plan.steps or len(plan.nodes) > before


def test_members_of_a_gang_fit_at_the_same_time() -> None:
    """None of them comes before all do."""
    world, labels = telco(), {NAME_LABEL: "g", MIN_LABEL: "3"}
    members = [pod(f"m{number}", cpu="24", labels=labels) for number in range(3)]
    plan = plan_for_waiting(engine_of(world.facts()), members)
    assert (plan.wanted, len(plan.nodes)) == (3, 2)
    assert plan.why_not


def test_pods_that_keep_apart_are_counted_together() -> None:
    """A node that has one of them is no place for another, however much is free there."""
    world = World()
    for number, amounts in enumerate((("5", "5"), ("5", "1"), ())):
        world.add_node(f"n{number}")
        for index, cpu in enumerate(amounts):
            world.run(owned(f"a-{number}-{index}", cpu=cpu), f"n{number}")
    apart = pod("wanted", cpu="7", labels={"app": "w"}, affinity=_APART)
    plan = plan_for(world, apart, 3)
    for move in (move for step in plan.steps for move in step.moves):
        moved(world, move)
    engine = engine_of(world.facts())
    assert min(3, sum(room_for(engine, apart, most=3).values())) == len(plan.nodes)
    assert len(set(plan.nodes)) == len(plan.nodes)
