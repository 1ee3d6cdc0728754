"""What the rebalancer works towards: the most important pods first, within what it may do."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from benchmarks.defrag_quality import owned
from packages.planning.tests.defrag.test_defrag_plan import budget
from packages.planning.tests.defrag.test_opened_room import world_of

from numakube.api.pod import Pod, PodCondition
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.testing import GPU, World, pod
from numakube_planning.defrag.defrag_plan import MovePlan
from numakube_planning.rebalancer.goals import (
    Goal,
    HourlyBudget,
    QuietHours,
    Restraint,
    chosen,
    quiet_hours,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def refused(one: Pod, created: str = "2026-03-01T10:00:00Z", reason: str = "Unschedulable") -> Pod:
    """Return a pod of which a scheduler has said that it fits nowhere."""
    assert one.status
    condition = PodCondition(type="PodScheduled", status="False", reason=reason)
    meta = msgspec.structs.replace(one.metadata, creation_timestamp=created)
    status = msgspec.structs.replace(one.status, conditions=(condition,))
    return msgspec.structs.replace(one, metadata=meta, status=status)


def full(*waiting: Pod) -> World:
    """Return two nodes on which one move makes room for a pod of three CPUs, and pods that wait."""
    world = world_of((owned("a"), owned("b")), (pod("c"), pod("d")))
    world.pods += waiting
    return world


def choice(world: World, most: int = 6, **goals: bool) -> tuple[Goal, MovePlan] | None:
    return chosen(world.facts(), most, **{"waiting": True, "stranded": False, **goals})


def why(found: tuple[Goal, MovePlan] | None) -> str:
    return found[0].why if found is not None else ""


def test_the_most_important_pod_comes_first_then_the_one_that_has_waited_longest() -> None:
    late = refused(pod("late", "3"), "2026-03-01T12:00:00Z")
    early = refused(pod("early", "3"), "2026-03-01T11:00:00Z")
    urgent = refused(pod("urgent", "3", priority=5), "2026-03-01T13:00:00Z")
    assert why(choice(full(late, early, urgent))) == "default/urgent fits"
    found = choice(full(late, early))
    assert found is not None
    goal, plan = found
    assert (goal.why, goal.about, plan.moves) == ("default/early fits", early, 1)


def test_a_pod_for_which_nothing_helps_does_not_keep_others_waiting() -> None:
    hopeless = refused(pod("hopeless", "9", priority=9))
    assert why(choice(full(hopeless, refused(pod("late", "3"))))) == "default/late fits"


@pytest.mark.parametrize(
    "one",
    [
        pod("untried", "3"),
        refused(pod("other-reason", "3"), reason="SchedulingGated"),
        msgspec.structs.replace(
            refused(pod("going", "3")),
            metadata=msgspec.structs.replace(
                pod("going").metadata, deletion_timestamp="2026-03-01T10:00:00Z"
            ),
        ),
    ],
    ids=lambda one: one.metadata.name,
)
def test_nobody_is_evicted_for_a_pod_that_no_scheduler_has_refused(one: Pod) -> None:
    assert choice(full(one)) is None


def test_a_plan_needs_no_more_moves_than_are_allowed_now() -> None:
    world = full(refused(pod("late", "3")))
    assert choice(world, 1) is not None
    assert choice(world, 0) is None


def test_a_plan_within_the_budgets_or_none() -> None:
    world = full(refused(pod("late", "3")))
    world.objects.disruption_budgets["default/a"] = budget("a", 0, app="a")
    assert choice(world) is None


def test_a_gang_moves_others_only_if_all_of_it_fits_then() -> None:
    """And is one goal, however many of its members wait."""
    labels = {NAME_LABEL: "g", MIN_LABEL: "2"}
    gang = [refused(pod(f"m{number}", "3", labels=labels)) for number in range(2)]
    assert choice(full(*gang)) is None
    world = world_of(
        (owned("a"), owned("b")), (pod("c"), pod("d")), (owned("e"), owned("f")), (pod("g"),)
    )
    world.pods += gang
    found = choice(world)
    assert found is not None
    goal, plan = found
    assert (goal.why, plan.wanted, len(plan.nodes)) == ("the gang default/g fits", 2, 2)


def test_a_large_gang_that_cannot_be_helped_takes_one_try() -> None:
    """Only so many goals are tried in one turn."""
    labels = {NAME_LABEL: "g", MIN_LABEL: "6"}
    gang = [refused(pod(f"m{number}", "3", labels=labels, priority=1)) for number in range(6)]
    assert why(choice(full(*gang, refused(pod("late", "3"))))) == "default/late fits"


def test_the_plan_for_what_is_left_is_about_the_pod_as_it_is_then() -> None:
    """Nothing is left to do for a pod that has gone, or that has its node."""
    late = refused(pod("late", "3"))
    found = choice(full(late))
    assert found is not None
    goal, _ = found
    assert goal.plan(full().facts(), 6).steps == []
    world = world_of((pod("x", "1"),), ())
    there = world.run(pod("late", "3"), "n1")
    assert goal.plan(world.facts(), 6).nodes == [there.spec.node_name]


def stranded() -> World:
    """Return nodes with GPUs of which a move makes two usable."""
    world = World()
    for number, pods in enumerate((("1", "2"), ("1",))):
        world.add_node(f"n{number}", machine="1 socket, 4 cores, smt 1, 16Gi, gpu 2")
        for index, cpu in enumerate(pods):
            world.run(owned(f"n{number}-{index}", cpu=cpu), f"n{number}")
    return world


def test_what_is_stranded_comes_after_what_waits_and_each_only_if_it_is_asked_for() -> None:
    found = choice(stranded(), stranded=True)
    assert found is not None
    goal, plan = found
    assert (goal.why, goal.about, plan.moves) == ("less is stranded", None, 1)
    assert (plan.stranded or {})[GPU] > (plan.stranded_after or {}).get(GPU, 0)
    assert choice(stranded(), stranded=False) is None
    world = full(refused(pod("late", "3")))
    assert why(choice(world, stranded=True)) == "default/late fits"
    assert choice(world, waiting=False) is None


def test_nothing_moves_for_a_while_after_a_plan_was_given_up() -> None:
    restraint = Restraint(QuietHours(), HourlyBudget(3), pause_seconds=60.0)
    assert restraint.moves_allowed(0.0, NOON) == 3
    restraint.pause(10.0)
    assert [restraint.moves_allowed(now, NOON) for now in (10.0, 69.9, 70.0)] == [0, 0, 3]


def test_every_rule_holds_whatever_the_others_say() -> None:
    restraint = Restraint(quiet_hours("11:00-13:00"), HourlyBudget(1), pause_seconds=60.0)
    evening = NOON.replace(hour=20)
    assert restraint.moves_allowed(0.0, NOON) == 0
    assert restraint.moves_allowed(0.0, evening) == 1
    restraint.budget.spend(0.0)
    assert restraint.moves_allowed(1.0, evening) == 0
    assert restraint.moves_allowed(3601.0, evening) == 1
