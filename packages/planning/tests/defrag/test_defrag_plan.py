"""What a plan costs, what is left of it on the way, and which pods it may move."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from benchmarks.defrag_quality import owned

from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.pod import (
    ConfigMapVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    Pod,
    PodCondition,
    Volume,
)
from numakube.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_planning.defrag.defrag_plan import (
    MOVABLE,
    MovablePods,
    Move,
    MovePlan,
    MoveStep,
    costs_of,
    may_move,
)

PLAN = MovePlan(
    2,
    nodes=["n0", "n3"],
    steps=[
        MoveStep("n0", (Move("default/a", "n0", "n1"), Move("default/b", "n0", "n2"))),
        MoveStep("n3", (Move("default/c", "n3", "n1"),)),
    ],
)
CREATED = "2026-03-01T10:00:00Z"


def budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    """Return a budget for the pods with these labels that lets so many of them go."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def ready(one: Pod, at: str | None, created: str | None = CREATED) -> Pod:
    """Return a pod that was created and became ready at given times."""
    assert one.status
    condition = PodCondition(type="Ready", status="True", last_transition_time=at)
    meta = msgspec.structs.replace(one.metadata, creation_timestamp=created)
    status = msgspec.structs.replace(one.status, conditions=(condition,))
    return msgspec.structs.replace(one, metadata=meta, status=status)


def with_meta(one: Pod, **changes: Any) -> Pod:
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, **changes))


def mounting(**source: object) -> Pod:
    """Return a pod that could be moved, but for what it mounts."""
    return owned("a", volumes=(Volume(name="v", **source),))  # type: ignore[arg-type]


def controlled_by(kind: str) -> Pod:
    one = owned("a")
    (owner,) = one.metadata.owner_references
    return with_meta(one, owner_references=(msgspec.structs.replace(owner, kind=kind),))


def test_what_is_left_begins_with_the_next_move_and_promises_the_same() -> None:
    plan, order = PLAN, []
    while plan.steps:
        order.append((plan.moves, plan.next.pod, plan.steps[0].node))
        plan = plan.after_next()
        assert (plan.wanted, plan.nodes) == (PLAN.wanted, PLAN.nodes)
    assert order == [(3, "default/a", "n0"), (2, "default/b", "n0"), (1, "default/c", "n3")]
    assert PLAN.moves == 3


def test_restarts_are_counted_by_priority_and_budget() -> None:
    """A budget that protects none of the pods costs nothing; pods that have gone are left out."""
    world = World()
    world.add_node("n0")
    world.run(owned("a"), "n0")
    world.run(owned("b", priority=5), "n0")
    world.objects.disruption_budgets["default/all"] = budget("all", 1, app="a")
    world.objects.disruption_budgets["default/other"] = budget("other", 0, app="z")
    costs = costs_of(PLAN, world.facts())
    assert (costs.restarts, costs.priorities) == (2, {0: 1, 5: 1})
    assert costs.budgets == {"default/all": (2, 1)}


@pytest.mark.parametrize(
    ("at", "created", "seconds"),
    [
        ("2026-03-01T10:00:30Z", CREATED, 30.0),
        (None, CREATED, 0.0),
        ("2026-03-01T10:00:30Z", None, 0.0),
        ("2026-03-01T09:59:00Z", CREATED, 0.0),
        ("soon", CREATED, 0.0),
    ],
)
def test_a_restart_takes_as_long_as_the_last_one_did(
    at: str | None, created: str | None, seconds: float
) -> None:
    """As far as that is known; a clock that went backwards tells nothing."""
    world = World()
    world.add_node("n0")
    world.pods = [
        ready(world.run(owned(name), "n0"), at, created)
        if name == "a"
        else ready(world.run(owned(name), "n0"), "2026-03-01T10:00:10Z")
        for name in "ab"
    ]
    assert costs_of(PLAN, world.facts()).seconds == seconds + 10.0


@pytest.mark.parametrize(
    ("one", "may"),
    [
        (owned("a"), True),
        (pod("a"), False),
        (controlled_by("DaemonSet"), False),
        (owned("a", annotations={MOVABLE: "false"}), False),
        (owned("a", annotations={MOVABLE: "true"}), True),
        (
            owned("a", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
            False,
        ),
        (owned("a", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}), True),
        (mounting(empty_dir=EmptyDirVolumeSource()), False),
        (mounting(host_path=HostPathVolumeSource(path="/data")), False),
        (mounting(config_map=ConfigMapVolumeSource(name="c")), True),
        (with_meta(owned("a"), deletion_timestamp=CREATED), False),
    ],
)
def test_only_pods_that_come_again_without_a_loss_may_move(one: Pod, *, may: bool) -> None:
    assert may_move(PodInfo(one)) is may


def test_the_least_important_pods_move_first_and_more_important_ones_not_at_all() -> None:
    """Than the pod that needs the room; without one, all that may move are there."""
    world = World()
    world.add_node("n0")
    for name, priority in (("d", 0), ("c", 7), ("b", 0), ("a", 5)):
        world.run(owned(name, cpu="1", priority=priority), "n0")
    world.run(pod("stays", cpu="1"), "n0")
    node = engine_of(world.facts()).cluster.node("n0")
    assert node is not None
    movable = MovablePods(())
    assert [one.name for one in movable.on(node, priority=5)] == ["b", "d", "a"]
    assert [one.name for one in movable.on(node)] == ["b", "d", "a", "c"]


def test_a_budget_counts_all_pods_that_leave_together() -> None:
    pods = [PodInfo(owned(name)) for name in "abc"]
    movable = MovablePods([budget("all", 2, app="a")])
    assert movable.within_budgets(pods[:2])
    assert not movable.within_budgets(pods)
    assert MovablePods([budget("other", 0, app="z")]).within_budgets(pods)
