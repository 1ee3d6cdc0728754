"""Plans of every kind give what they promise, and move nobody who does not help."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import pytest
from benchmarks.defrag_quality import admitted, crowd, owned
from packages.planning.tests.defrag.test_defrag_plan import budget
from packages.planning.tests.defrag.test_end_states import moved, places, plan_for
from packages.planning.tests.defrag.test_opened_room import world_of

from numakube.api.pod import Pod, PodResourceClaim
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import GPU, World, pod
from numakube_planning.audit import audit
from numakube_planning.defrag.defrag_plan import MOVABLE, Move, MovePlan, on_known_zones
from numakube_planning.defrag.plan_making import (
    plan_alignment,
    plan_moves,
    reduce_stranded,
    replacement_of,
    stranded_in,
)


def moves_of(plan: MovePlan) -> list[Move]:
    return [move for step in plan.steps for move in step.moves]


def without(world: World, names: Iterable[str]) -> World:
    """Return a copy of the cluster in which kubelets go on without some pods."""
    copy = World(nodes=dict(world.nodes), objects=world.objects)
    copy.kubelets = {name: model.clone() for name, model in world.kubelets.items()}
    gone = set(names)
    copy.pods = [one for one in world.pods if one.metadata.name not in gone]
    for one in world.pods:
        if one.metadata.name in gone:
            copy.kubelets[one.spec.node_name].remove(one.metadata.uid)
    return copy


def carried_out(world: World, moves: Iterable[Move]) -> bool:
    """Have the kubelets carry out moves; tell whether they admitted every pod."""
    for move in moves:
        old = next(one for one in world.pods if one.metadata.key == move.pod)
        meta = msgspec.structs.replace(old.metadata, uid=f"{old.metadata.uid}+")
        if not admitted(world.kubelets[move.to_node], msgspec.structs.replace(old, metadata=meta)):
            return False
        moved(world, move)
    return True


@pytest.mark.parametrize("seed", range(0, 40, 3))
def test_no_move_can_be_left_out(seed: int) -> None:
    """Without it a later one is refused, or fewer of the wanted pods fit in the end."""
    world, wanted = crowd(seed)
    count = Random(seed).randint(1, 3)
    plan = plan_for(world, wanted, count)
    moves = moves_of(plan)
    for number in range(len(moves)):
        rest = without(world, ())
        if carried_out(rest, [*moves[:number], *moves[number + 1 :]]):
            assert min(count, places(rest, wanted)) < len(plan.nodes)


def test_some_of_these_clusters_need_several_moves() -> None:
    """Or the test above says little."""
    plans = [plan_for(*crowd(seed), Random(seed).randint(1, 3)) for seed in range(0, 40, 3)]
    assert sum(plan.moves > 0 for plan in plans) >= 4
    assert max(plan.moves for plan in plans) >= 2


@pytest.mark.parametrize("allowed", [0, 1, 2, 3])
def test_all_moves_of_a_plan_stay_within_the_budgets(allowed: int) -> None:
    """A chain counts as a whole: here three pods would move for three places."""
    world, wanted = (
        world_of(
            (owned("a"), owned("b")), (owned("c"), owned("d")), (pod("e", "1"), pod("f", "1"))
        ),
        pod("wanted", cpu="3"),
    )
    world.objects.disruption_budgets["default/a"] = budget("a", allowed, app="a")
    plan = plan_for(world, wanted, 4)
    assert plan.moves <= allowed
    assert len(plan.nodes) == {0: 1, 1: 2, 2: 2, 3: 3}[allowed]
    assert carried_out(world, moves_of(plan))
    assert min(4, places(world, wanted)) == len(plan.nodes)


@pytest.mark.parametrize(("priority", "moves"), [(0, 0), (4, 0), (5, 1), (9, 1)])
def test_no_pod_moves_for_a_less_important_one(priority: int, moves: int) -> None:
    world = world_of((owned("a", priority=5), owned("b", priority=5)), (pod("c"), pod("d")))
    plan = plan_moves(engine_of(world.facts()), [pod("wanted", cpu="3", priority=priority)])
    assert (plan.moves, len(plan.nodes)) == (moves, moves)


def test_full_nodes_are_told_from_pods_that_no_node_could_take() -> None:
    """Of the second kind nothing is to be expected, whoever leaves."""
    full = world_of((owned("a", "3"), pod("b", "3"), pod("c", "1")))
    plan = plan_for(full, pod("wanted", cpu="3"), 1)
    assert (plan.nodes, plan.steps, plan.is_hopeless) == ([], [], False)
    plan = plan_for(full, pod("wanted", cpu="9"), 1)
    assert (plan.nodes, plan.steps, plan.is_hopeless) == ([], [], True)
    assert plan.why_not.startswith("0/1 nodes are available")


def test_pods_that_wait_already_and_may_take_the_room_are_named() -> None:
    """Only if room is made: else nothing changes for them."""
    world = world_of((owned("a"), owned("b")), (pod("c"), pod("d")))
    rivals = [pod("rival", cpu="3"), pod("huge", cpu="9")]
    plan = plan_moves(engine_of(world.facts()), [pod("wanted", cpu="3")], waiting=rivals)
    assert (plan.moves, plan.takers) == (1, ["default/rival"])
    idle = plan_moves(engine_of(world_of(()).facts()), [pod("wanted")], waiting=rivals)
    assert (idle.moves, idle.takers) == (0, [])


def test_nodes_of_unknown_zones_are_kept_closed_during_each_move() -> None:
    """The scheduler would send the pod where nobody can say whether its kubelet takes it."""
    world = world_of((owned("a"), owned("b")), (pod("c"), pod("d")), ())
    facts = world.facts()
    del facts.topologies["n2"]  # type: ignore[attr-defined]
    wanted = pod("wanted", cpu="3")
    plan = on_known_zones(facts, [wanted], lambda known: plan_moves(engine_of(known), [wanted]))
    (move,) = moves_of(plan)
    assert (move.to_node, "n2" in move.closed) == ("n1", True)


def scattered(wide: Pod, *more: str) -> World:
    """Return a node on which *wide* is spread over both zones, an idle one, and *more* such."""
    world = World()
    for name in ("n0", "n1", *more):
        world.add_node(name, "best-effort")
    world.run(pod("one", cpu="5"), "n0")
    world.run(pod("two", cpu="5"), "n0")
    world.run(wide, "n0")
    return world


def alignment(world: World, name: str = "wide") -> MovePlan:
    facts = world.facts()
    one = next(each for each in world.pods if each.metadata.name == name)
    return plan_alignment(facts, engine_of(facts), one)


def test_a_pod_is_aligned_where_the_plan_says() -> None:
    """And nobody else moves for it."""
    world = scattered(owned("wide", cpu="4"), "n2")
    plan = alignment(world)
    (move,) = moves_of(plan)
    assert (move.pod, move.from_node, plan.nodes) == ("default/wide", "n0", [move.to_node])
    assert carried_out(world, [move])
    result = audit(world.facts(), world.pods)
    assert (result.wanting, result.aligned) == (3, 3)
    assert alignment(world).steps == []


def test_an_aligned_pod_stays_where_it_is() -> None:
    plan = alignment(scattered(owned("wide", cpu="4")), "one")
    assert (plan.nodes, plan.steps, plan.why_not) == (["n0"], [], "")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"annotations": {MOVABLE: "false"}}, "it may not be moved"),
        (
            {"resource_claims": (PodResourceClaim(name="c", resource_claim_name="c"),)},
            "it has resource claims, and its next ones do not exist yet",
        ),
    ],
)
def test_a_pod_that_cannot_come_again_is_not_moved(more: dict[str, Any], why: str) -> None:
    plan = alignment(scattered(owned("wide", cpu="4", **more)))
    assert (plan.nodes, plan.steps, plan.why_not) == ([], [], why)


def test_budgets_hold_for_alignment_too() -> None:
    world = scattered(owned("wide", cpu="4"))
    world.objects.disruption_budgets["default/a"] = budget("a", 0, app="a")
    assert alignment(world).why_not == "a disruption budget protects it"
    world.objects.disruption_budgets["default/a"] = budget("a", 1, app="a")
    assert alignment(world).moves == 1


def test_where_no_node_would_align_it_nothing_moves() -> None:
    world = scattered(owned("wide", cpu="4"))
    for name in ("x", "y"):
        world.run(pod(name, cpu="5"), "n1")
    plan = alignment(world)
    assert (plan.steps, plan.why_not) == ([], "no node would align it now")


def test_a_pod_of_which_nothing_is_known_is_left_alone() -> None:
    world = scattered(owned("wide", cpu="4"))
    facts = world.facts(exact=False)
    plan = plan_alignment(facts, engine_of(facts), world.pods[-1])
    assert (plan.steps, plan.why_not) == ([], "the node has no exact report")


def test_a_replacement_has_the_same_controller_and_is_new() -> None:
    world = world_of((owned("a"), owned("b")))
    before = world.facts()
    one = before.pods[0]
    assert replacement_of(one, before, before) is None
    world.run(pod("bare", cpu="1"), "n0")
    assert replacement_of(one, before, world.facts()) is None
    later = world.run(owned("c", cpu="1"), "n0")
    assert replacement_of(one, before, world.facts()) == later
    assert replacement_of(pod("bare"), before, world.facts()) is None


def littered(seed: int) -> World:
    """Return nodes with GPUs whose CPUs are taken by pods without GPUs."""
    rng, world = Random(seed), World()
    for number in range(3):
        name = f"n{number}"
        world.add_node(name, machine="1 socket, 8 cores, smt 1, 32Gi, gpu 4")
        for index in range(rng.randint(0, 4)):
            make = owned if rng.random() < 0.8 else pod
            one = make(f"{name}-{index}", cpu=str(rng.randint(1, 3)))
            if admitted(world.kubelets[name], one):
                world.run(one, name)
    return world


@pytest.mark.parametrize("seed", range(10))
def test_less_is_stranded_after_every_single_move(seed: int) -> None:
    """By what the kubelets have then; and as much less as was promised."""
    world = littered(seed)
    plan = reduce_stranded(engine_of(world.facts()), most=6)
    before = stranded_in(engine_of(world.facts()))
    assert plan.stranded == before
    assert plan.moves <= 6
    bare = {one.metadata.key for one in world.pods if one.metadata.controller is None}
    for move in moves_of(plan):
        assert move.pod not in bare
        assert move.from_node in move.closed
        assert carried_out(world, [move])
        after = stranded_in(engine_of(world.facts()))
        assert after.get(GPU, 0) <= before.get(GPU, 0)
        assert after != before
        before = after
    assert before == plan.stranded_after


def test_some_of_these_clusters_have_something_stranded() -> None:
    """Or the test above says little."""
    plans = [reduce_stranded(engine_of(littered(seed).facts()), most=6) for seed in range(10)]
    assert sum(plan.moves > 0 for plan in plans) >= 3


def most_littered() -> int:
    """Return which of these clusters needs most moves."""
    return max(
        range(10),
        key=lambda seed: reduce_stranded(engine_of(littered(seed).facts()), most=6).moves,
    )


@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_more_pods_move_than_are_allowed(most: int) -> None:
    """Each allowed move helps on this cluster."""
    world = littered(most_littered())
    assert reduce_stranded(engine_of(world.facts()), most=most).moves == most


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_budgets_hold_where_less_is_to_be_stranded(allowed: int) -> None:
    """All that may move is in one budget, and without it more would move."""
    world = littered(most_littered())
    assert reduce_stranded(engine_of(world.facts()), most=6).moves >= 2
    world.objects.disruption_budgets["default/a"] = budget("a", allowed, app="a")
    assert reduce_stranded(engine_of(world.facts()), most=6).moves == allowed
