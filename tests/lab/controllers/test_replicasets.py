"""Replica sets keep the number of their pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.controllers.kit import bench, template, workload

from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.pod import Pod, PodCondition, PodSpec, PodStatus
from numakube.kube.catalog import PODS
from numakube.kube.clock import ManualClock
from numakube.values.times import format_time
from numakube_lab.controllers.common.controller_loop import (
    Create,
    Delete,
    Note,
    ObjectPlan,
    PlannedChange,
)
from numakube_lab.controllers.common.pod_states import owner_reference
from numakube_lab.controllers.object_types import (
    REPLICA_SETS,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
)
from numakube_lab.controllers.workloads.replica_set_controller import (
    BURST,
    ObservedReplicaSet,
    ReplicaSets,
    reconcile,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def replica_set(replicas: int = 1, **spec: int) -> ReplicaSet:
    """A replica set of pods labelled ``app=web``."""
    return ReplicaSet(
        metadata=ObjectMeta(name="web", namespace="default", uid="u", generation=2),
        spec=ReplicaSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "web"}),
            template=template(),
            **spec,
        ),
    )


def pod(
    name: str, *, phase: str = "Running", ready: bool = True, owned: bool = True, app: str = "web",
    age: int = 100, going: bool = False, ready_for: int = 50,
) -> Pod:  # fmt: skip
    """A pod."""
    since = format_time(NOW - timedelta(seconds=ready_for))
    condition = PodCondition(
        type="Ready", status="True" if ready else "False", last_transition_time=since
    )
    owner = (owner_reference(REPLICA_SETS, replica_set()),) if owned else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=name,
            labels={"app": app},
            owner_references=owner,
            creation_timestamp=format_time(NOW - timedelta(seconds=age)),
            deletion_timestamp=format_time(NOW) if going else None,
        ),
        spec=PodSpec(node_name="n"),
        status=PodStatus(phase=phase, conditions=(condition,)),
    )


def decide(rs: ReplicaSet, *pods: Pod, orphans: tuple[Pod, ...] = ()) -> ObjectPlan:
    """Reconcile."""
    return reconcile(ObservedReplicaSet(replica_set=rs, pods=pods, orphans=orphans, now=NOW))


def kinds(plan: ObjectPlan) -> list[type]:
    """Return what a plan does, without the report of the status."""
    return [
        type(action)
        for action in plan.actions
        if not (isinstance(action, PlannedChange) and action.subresource)
    ]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((), [Create, Create]),
        ((pod("a"),), [Create]),
        ((pod("a"), pod("b")), []),
        ((pod("a"), pod("b"), pod("c")), [Delete]),
        ((pod("a"), pod("b", phase="Failed")), [Create]),
        ((pod("a"), pod("b", phase="Succeeded")), [Create]),
        ((pod("a"), pod("b", going=True)), [Create]),
        ((pod("a"), pod("b", app="other")), [PlannedChange, Create]),
    ],
)
def test_the_plan_leads_to_the_wanted_number(pods: tuple[Pod, ...], expected: list[type]) -> None:
    """Finished, leaving and mislabelled pods do not count."""
    assert kinds(decide(replica_set(2), *pods)) == expected


def test_orphans_that_match_are_adopted_before_anything_is_created() -> None:
    """A pod without controller counts at once."""
    plan = decide(replica_set(1), orphans=(pod("a", owned=False), pod("b", owned=False, app="x")))
    assert kinds(plan) == [PlannedChange]
    (adoption, _) = plan.actions
    assert isinstance(adoption, PlannedChange)
    assert adoption.patch["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert adoption.patch["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_released_pod_keeps_its_other_owners() -> None:
    """Only the reference to the replica set goes."""
    stranger = pod("a", app="other")
    other = msgspec.structs.replace(
        stranger.metadata.owner_references[0], uid="other", controller=None
    )
    metadata = msgspec.structs.replace(
        stranger.metadata, owner_references=(*stranger.metadata.owner_references, other)
    )
    plan = decide(replica_set(0), msgspec.structs.replace(stranger, metadata=metadata))
    (release, *_) = plan.actions
    assert isinstance(release, PlannedChange)
    assert [reference["uid"] for reference in release.patch["metadata"]["ownerReferences"]] == [
        "other"
    ]


def test_a_replica_set_that_is_being_deleted_creates_nothing() -> None:
    """Its pods are the garbage collector's business."""
    rs = replica_set(3)
    metadata = msgspec.structs.replace(rs.metadata, deletion_timestamp=format_time(NOW))
    assert kinds(decide(msgspec.structs.replace(rs, metadata=metadata), pod("a"))) == []


def test_not_more_than_a_burst_is_created_at_once() -> None:
    """So that others get their turn."""
    assert len(kinds(decide(replica_set(2000)))) == BURST


def test_the_status_counts_ready_and_available_pods_and_says_when_to_look_again() -> None:
    """A pod that became ready a moment ago is available only later."""
    rs = replica_set(3, min_ready_seconds=60)
    plan = decide(rs, pod("a", ready_for=70), pod("b", ready_for=50), pod("c", ready=False))
    (change,) = plan.actions
    assert isinstance(change, PlannedChange)
    assert change.patch["status"] == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "observedGeneration": 2,
    }
    assert plan.again_after == 10


def test_a_status_that_is_right_is_not_written_again() -> None:
    """Reconciling twice changes nothing."""
    status = ReplicaSetStatus(
        replicas=1,
        fully_labeled_replicas=1,
        ready_replicas=1,
        available_replicas=1,
        observed_generation=2,
    )
    rs = msgspec.structs.replace(replica_set(1), status=status)
    assert decide(rs, pod("a")) == ObjectPlan()


POD_STATES = st.builds(
    pod,
    st.uuids().map(str),
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
    ready=st.booleans(),
    owned=st.booleans(),
    app=st.sampled_from(("web", "other")),
    age=st.integers(0, 10_000),
    going=st.booleans(),
)


@given(replicas=st.integers(0, 6), pods=st.lists(POD_STATES, max_size=12))
def test_any_state_converges_in_two_steps(replicas: int, pods: list[Pod]) -> None:
    """Performing the plan gives a state in which the only thing left to do is reporting."""
    rs = replica_set(replicas)
    world = {one.metadata.name: one for one in pods}
    for _ in range(2):
        plan = _look(rs, world)
        _perform(plan, world)
    assert kinds(_look(rs, world)) == []
    mine = [one for one in world.values() if one.metadata.controller]
    active = [one for one in mine if one.status and one.status.phase in ("Pending", "Running")]
    assert sum(one.metadata.deletion_timestamp is None for one in active) == replicas


def _look(rs: ReplicaSet, world: dict[str, Pod]) -> ObjectPlan:
    owned = [one for one in world.values() if one.metadata.controller]
    orphans = [one for one in world.values() if not one.metadata.controller]
    return reconcile(ObservedReplicaSet(replica_set=rs, pods=owned, orphans=orphans, now=NOW))


def _perform(plan: ObjectPlan, world: dict[str, Pod]) -> None:
    for number, action in enumerate(plan.actions):
        match action:
            case Create():
                name = f"new-{len(world)}-{number}"
                world[name] = pod(name, phase="Pending", ready=False)
            case Delete(key=key):
                del world[key.name]
            case PlannedChange(key=key, patch=patch, subresource=""):
                old = world[key.name]
                owned = bool(patch["metadata"]["ownerReferences"])
                owners = (owner_reference(REPLICA_SETS, replica_set()),) if owned else ()
                metadata = msgspec.structs.replace(old.metadata, owner_references=owners)
                world[key.name] = msgspec.structs.replace(old, metadata=metadata)
            case PlannedChange() | Note():
                pass


async def test_pods_are_created_and_reported() -> None:
    """A new replica set gets its pods, and its status counts them."""
    async with bench(ReplicaSets) as lab:
        await lab.apply(REPLICA_SETS, workload("web", replicas=3))
        rs = await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.available_replicas == 3)
        pods = lab.pods.in_namespace("default")
        assert len(pods) == 3
        assert {one.metadata.controller.name for one in pods if one.metadata.controller} == {"web"}
        assert rs.status.observed_generation == 1


async def test_scaling_down_and_up_again() -> None:
    """The number of pods follows the wanted one both ways."""
    async with bench(ReplicaSets) as lab:
        await lab.apply(REPLICA_SETS, workload("web", replicas=4))
        await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.available_replicas == 4)
        await lab.change(REPLICA_SETS, "web", {"spec": {"replicas": 1}}, "scale")
        await lab.until(PODS, lambda: len(lab.pods.store) == 1)
        await lab.change(REPLICA_SETS, "web", {"spec": {"replicas": 2}}, "scale")
        await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.available_replicas == 2)


async def test_a_deleted_pod_is_replaced() -> None:
    """By one with another name."""
    async with bench(ReplicaSets) as lab:
        await lab.apply(REPLICA_SETS, workload("web", replicas=1))
        await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.available_replicas == 1)
        (old,) = lab.pods.in_namespace("default")
        await lab.client.delete(PODS, old.metadata.name, namespace="default")
        await lab.until(PODS, lambda: old.metadata.name not in _names(lab.pods.store))
        await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.available_replicas == 1)


async def test_a_relabelled_pod_is_let_go_and_replaced() -> None:
    """It lives on without a controller, as people do to debug a pod."""
    async with bench(ReplicaSets) as lab:
        await lab.apply(REPLICA_SETS, workload("web", replicas=1))
        await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.available_replicas == 1)
        (old,) = lab.pods.in_namespace("default")
        await lab.change(PODS, old.metadata.name, {"metadata": {"labels": {"app": "debug"}}})
        await lab.until(PODS, lambda: len(lab.pods.store) == 2)
        freed = await lab.sees(PODS, old.metadata.name, lambda one: not one.metadata.controller)
        assert freed.metadata.owner_references == ()


async def test_availability_comes_with_time_alone() -> None:
    """No event is needed for a pod to have been ready for long enough."""
    clock = ManualClock()
    async with bench(ReplicaSets, clock=clock) as lab:
        await lab.apply(REPLICA_SETS, workload("web", replicas=1, minReadySeconds=30))
        await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.ready_replicas == 1)
        assert lab.get(REPLICA_SETS, "web").status.available_replicas == 0
        await clock.advance(31)
        await lab.sees(REPLICA_SETS, "web", lambda rs: rs.status.available_replicas == 1)


def _names(pods: object) -> set[str]:
    return {one.metadata.name for one in pods}  # type: ignore[attr-defined]
