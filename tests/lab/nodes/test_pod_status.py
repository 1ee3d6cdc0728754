"""Pod statuses as kubelets write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodCondition, PodReadinessGate, PodSpec, PodStatus
from numakube.kubelet.admission_outcome import Rejected
from numakube_lab.nodes.container_timeline import ContainerRun, Ended, PodRun, blocked
from numakube_lab.nodes.pod_status import (
    PodPlace,
    container_id,
    is_written,
    observed_status,
    phase_of,
    rejected_status,
    status_patch,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
PLACE = PodPlace(host_ip="172.16.0.2", pod_ip="10.128.0.2")
DONE = Ended(started=NOW, finished=NOW)
CRASHED = Ended(started=NOW, finished=NOW, exit_code=1)


def pod(*names: str, status: PodStatus | None = None) -> Pod:
    """A pod with containers of these names."""
    return Pod(
        metadata=ObjectMeta(name="a", namespace="x", uid="u", generation=1),
        spec=PodSpec(containers=tuple(Container(name=name, image="app:1") for name in names)),
        status=status,
    )


def observed(one: Pod, run: PodRun, now: datetime = NOW) -> PodStatus:
    """Its status."""
    return observed_status(one, run, place=PLACE, begun=NOW, now=now)


@pytest.mark.parametrize(
    ("runs", "phase"),
    [
        ((ContainerRun(), ContainerRun()), "Pending"),
        ((ContainerRun(started=NOW), ContainerRun()), "Pending"),
        ((ContainerRun(started=NOW), ContainerRun(ended=DONE)), "Running"),
        ((ContainerRun(last=CRASHED), ContainerRun(ended=DONE)), "Running"),
        ((ContainerRun(ended=DONE), ContainerRun(ended=DONE)), "Succeeded"),
        ((ContainerRun(ended=DONE), ContainerRun(ended=CRASHED)), "Failed"),
    ],
)
def test_the_phase_follows_from_the_containers(
    runs: tuple[ContainerRun, ContainerRun], phase: str
) -> None:
    """As the kubelet derives it."""
    run = PodRun(containers=dict(zip("ab", runs, strict=True)))
    assert phase_of(pod("a", "b"), run) == phase


def test_a_rejection_keeps_only_what_the_kubelet_keeps() -> None:
    """Phase, reason, message with its prefix, QoS class and start time."""
    status = rejected_status(pod("a"), Rejected("OutOfcpu", "no"), now=NOW)
    assert msgspec.to_builtins(status) == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: no",
        "qosClass": "BestEffort",
        "startTime": "2026-01-01T12:00:00Z",
        "observedGeneration": 1,
    }


def test_unready_containers_are_named() -> None:
    """In both conditions that depend on them."""
    run = PodRun(containers={"a": ContainerRun(started=NOW), "b": ContainerRun(last=CRASHED)})
    conditions = {
        condition.type: condition for condition in observed(pod("a", "b"), run).conditions
    }
    for kind in ("Ready", "ContainersReady"):
        assert conditions[kind].reason == "ContainersNotReady"
        assert conditions[kind].message == "containers with unready status: [b]"


def test_a_pod_is_ready_when_its_gates_are_open_too() -> None:
    """Its containers are ready all the same."""
    gates = (PodReadinessGate(condition_type="a"), PodReadinessGate(condition_type="b"))
    told = PodStatus(conditions=(PodCondition(type="a", status="False"),))
    one = pod("main", status=told)
    one = msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, readiness_gates=gates)
    )
    run = PodRun(containers={"main": ContainerRun(started=NOW)})
    conditions = {found.type: found for found in observed(one, run).conditions}
    assert conditions["ContainersReady"].status == "True"
    assert conditions["Ready"].status == "False"
    assert conditions["Ready"].reason == "ReadinessGatesNotReady"
    assert conditions["Ready"].message == (
        'the status of pod readiness gate "a" is not "True", but False, '
        'corresponding condition of pod readiness gate "b" does not exist.'
    )
    opened = PodStatus(
        conditions=(PodCondition(type="a", status="True"), PodCondition(type="b", status="True"))
    )
    one = msgspec.structs.replace(one, status=opened)
    conditions = {found.type: found for found in observed(one, run).conditions}
    assert conditions["Ready"].status == "True"


@pytest.mark.parametrize(
    ("step", "side", "missing"),
    [
        (ContainerRun(started=NOW), ContainerRun(), "step side"),
        (ContainerRun(ended=DONE), ContainerRun(), "side"),
        (ContainerRun(ended=DONE), ContainerRun(started=NOW), ""),
        (ContainerRun(ended=CRASHED), ContainerRun(), "step side"),
    ],
)
def test_a_pod_is_initialized_when_init_containers_are_done_and_sidecars_run(
    step: ContainerRun, side: ContainerRun, missing: str
) -> None:
    """An init container that runs is not done yet."""
    init = (Container(name="step"), Container(name="side", restart_policy="Always"))
    one = pod("a")
    one = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, init_containers=init))
    run = PodRun(containers={"a": ContainerRun()}, init={"step": step, "side": side})
    (found,) = (each for each in observed(one, run).conditions if each.type == "Initialized")
    assert found.status == ("False" if missing else "True")
    assert found.message == (missing and f"containers with incomplete status: [{missing}]")


def test_a_condition_that_stays_keeps_its_time() -> None:
    """Only a change of its status is a transition."""
    run = PodRun(containers={"a": ContainerRun(started=NOW)})
    first = observed(pod("a"), run)
    second = observed(pod("a", status=first), run, LATER)
    times = {condition.type: condition.last_transition_time for condition in second.conditions}
    assert set(times.values()) == {"2026-01-01T12:00:00Z"}
    assert is_written(pod("a", status=first), second)
    ended = PodRun(containers={"a": ContainerRun(ended=DONE)})
    third = observed(pod("a", status=first), ended, LATER)
    times = {condition.type: condition.last_transition_time for condition in third.conditions}
    assert times["Ready"] == "2026-01-01T12:01:00Z"
    assert times["Initialized"] == "2026-01-01T12:00:00Z"
    assert not is_written(pod("a", status=first), third)


def test_a_patch_erases_what_is_over() -> None:
    """Merging alone would keep the old reason for ever."""
    old = PodStatus(
        phase="Pending",
        reason="Odd",
        message="very odd",
        conditions=(PodCondition(type="Ready", status="False", reason="ContainersNotReady"),),
    )
    one = pod("a", status=old)
    run = PodRun(containers={"a": ContainerRun(started=NOW)})
    patch = status_patch(one, observed(one, run))
    assert patch["metadata"] == {"uid": "u"}
    assert patch["status"]["reason"] is None
    assert patch["status"]["message"] is None
    ready = next(each for each in patch["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", None)


def test_what_keeps_a_container_from_starting_is_shown() -> None:
    """With the kubelet's reason."""
    run = PodRun(containers={"a": ContainerRun(started=NOW)})
    stuck = blocked(run, "CreateContainerConfigError", "no device", again=LATER)
    status = observed(pod("a"), stuck)
    state = status.container_statuses[0].state
    assert status.phase == "Pending"
    assert state is not None
    assert state.waiting is not None
    assert (state.waiting.reason, state.waiting.message) == (
        "CreateContainerConfigError",
        "no device",
    )


def test_every_incarnation_of_a_container_has_an_id_of_its_own() -> None:
    """And always the same, so that a restarted kubelet writes nothing new."""
    assert container_id("u", "a", 0) == container_id("u", "a", 0)
    assert len({container_id("u", "a", number) for number in range(5)}) == 5
