"""The fate of simulated containers as a function of time."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec
from numakube_lab.nodes.container_timeline import (
    PREFIX,
    ContainerRun,
    PodRun,
    Stop,
    observe,
    problems_of,
)

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def pod(*, restart: str = "Always", sidecar: bool = False, **script: object) -> Pod:
    """A pod with a script."""
    annotations = {f"{PREFIX}{key.replace('_', '-')}": str(text) for key, text in script.items()}
    init = (Container(name="side", restart_policy="Always"),) if sidecar else ()
    return Pod(
        metadata=ObjectMeta(name="a", uid="u", annotations=annotations),
        spec=PodSpec(
            containers=(Container(name="main"),), init_containers=init, restart_policy=restart
        ),
    )


def at(seconds: float) -> datetime:
    """A moment after the beginning."""
    return BEGUN + timedelta(seconds=seconds)


def run_at(one: Pod, seconds: float, stop: Stop | None = None) -> PodRun:
    """How it is doing then."""
    return observe(one, begun=BEGUN, now=at(seconds), stop=stop)


def main_at(one: Pod, seconds: float, stop: Stop | None = None) -> ContainerRun:
    """How its container is doing then."""
    return run_at(one, seconds, stop).containers["main"]


def test_without_a_script_a_pod_runs_for_ever() -> None:
    """It starts when it is admitted, and nothing is to be expected."""
    run = run_at(pod(), 1e6)
    assert run.containers["main"].started == BEGUN
    assert run.next_change is None


def test_start_and_end_are_announced() -> None:
    """A reader who waits for the next change misses nothing."""
    one = pod(restart="Never", start_seconds=5, run_seconds=10)
    assert run_at(one, 0).next_change == at(5)
    assert run_at(one, 5).next_change == at(15)
    assert run_at(one, 15).next_change is None
    assert run_at(one, 15).finished


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_the_restart_policy_decides_who_starts_again(policy: str, code: int, again: bool) -> None:
    """The first restart comes at once."""
    run = main_at(pod(restart=policy, run_seconds=3, exit_code=code), 4)
    assert (run.started is not None) is again
    assert run.restarts == again


def test_pauses_between_restarts_double_up_to_five_minutes() -> None:
    """0, 10, 20, 40, 80, 160, 300, 300 seconds."""
    one = pod(run_seconds=1, exit_code=1)
    starts: list[datetime] = []
    now = BEGUN
    while len(starts) < 9:
        run = observe(one, begun=BEGUN, now=now)
        started = run.containers["main"].started
        if started is not None and started not in starts:
            starts.append(started)
        assert run.next_change is not None
        now = run.next_change
    gaps = [(b - a).total_seconds() - 1 for a, b in itertools.pairwise(starts)]
    assert gaps == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_container_that_ran_long_is_restarted_at_once_again() -> None:
    """Ten minutes of running forgive the crashes before."""
    one = pod(run_seconds=601)
    assert main_at(one, 601 * 5 + 1).restarts == 5


def test_a_waiting_container_tells_its_pause_and_its_last_end() -> None:
    """The back-off is seen, and the restart counts only once it has happened."""
    run = main_at(pod(run_seconds=1, exit_code=7), 3)
    assert (run.started, run.back_off, run.restarts) == (None, 10.0, 1)
    assert run.last is not None
    assert run.last.exit_code == 7


def test_a_stop_ends_a_container_in_its_own_time() -> None:
    """Not before it was told, and with code 0."""
    one = pod(termination_seconds=5)
    stop = Stop(since=at(100), grace_seconds=30)
    assert run_at(one, 104, stop).next_change == at(105)
    ended = main_at(one, 200, stop).ended
    assert ended is not None
    assert (ended.finished, ended.exit_code) == (at(105), 0)


def test_grace_is_the_longest_a_stop_may_take() -> None:
    """Afterwards the container is killed, which its exit code shows."""
    ended = main_at(pod(termination_seconds=500), 200, Stop(since=at(100), grace_seconds=30)).ended
    assert ended is not None
    assert (ended.finished, ended.exit_code) == (at(130), 137)


def test_a_container_may_end_by_itself_while_it_is_told_to() -> None:
    """Then its own exit code counts, and nothing restarts it."""
    one = pod(run_seconds=102, exit_code=4, termination_seconds=20)
    ended = main_at(one, 1000, Stop(since=at(100), grace_seconds=30)).ended
    assert ended is not None
    assert (ended.finished, ended.exit_code) == (at(102), 4)


def test_what_never_started_need_not_end() -> None:
    """A pod stopped before its start has nothing running."""
    run = run_at(pod(start_seconds=50), 60, Stop(since=at(10), grace_seconds=30))
    assert run.stopped
    assert run.containers["main"].ended is None


def test_a_sidecar_ends_with_the_app_containers() -> None:
    """It runs beside them and not longer."""
    one = pod(restart="Never", sidecar=True, run_seconds=10)
    assert run_at(one, 5).init["side"].started == BEGUN
    ended = run_at(one, 20).init["side"].ended
    assert ended is not None
    assert ended.finished == at(10)


def pod_of(containers: str, *, init: str = "", restart: str = "Never", **script: object) -> Pod:
    """A pod of several containers; those that are called ``side`` are sidecars."""
    plain = pod(restart=restart)
    spec = PodSpec(
        containers=tuple(Container(name=name) for name in containers.split()),
        init_containers=tuple(
            Container(name=name, restart_policy="Always" if name == "side" else "")
            for name in init.split()
        ),
        restart_policy=restart,
    )
    annotations = {f"{PREFIX}{_annotation(key)}": str(text) for key, text in script.items()}
    metadata = msgspec.structs.replace(plain.metadata, annotations=annotations)
    return msgspec.structs.replace(plain, metadata=metadata, spec=spec)


def _annotation(key: str) -> str:
    """``run_seconds_of_a`` is ``run-seconds.a``."""
    return key.replace("_of_", ".").replace("_", "-")


def test_containers_of_a_pod_may_fare_differently() -> None:
    """What is said of one by name counts more than what is said of all."""
    one = pod_of("a b c", run_seconds=9, run_seconds_of_a=2, exit_code_of_b=3)
    run = run_at(one, 2)
    assert run.containers["a"].ended is not None
    assert run.containers["b"].started == BEGUN
    assert run.next_change == at(9)
    ends = {name: found.ended for name, found in run_at(one, 9).containers.items()}
    assert {name: end and end.exit_code for name, end in ends.items()} == {"a": 0, "b": 3, "c": 0}


def test_init_containers_take_their_turns() -> None:
    """Each starts when the one before has succeeded, and the app containers come last."""
    one = pod_of("main", init="a b", run_seconds_of_a=2, run_seconds_of_b=3, start_seconds=1)
    assert run_at(one, 0).next_change == at(1)
    assert run_at(one, 1).init["a"].started == at(1)
    assert run_at(one, 1).init["b"] == ContainerRun()
    assert run_at(one, 3).init["b"].started == at(3)
    assert run_at(one, 3).containers["main"] == ContainerRun()
    assert run_at(one, 3).next_change == at(6)
    assert run_at(one, 6).containers["main"].started == at(6)


def test_an_init_container_that_fails_is_tried_again_unless_nothing_is() -> None:
    """And the app containers wait for it."""
    always, never = (
        pod_of("main", init="side a", restart=policy, run_seconds_of_a=2, exit_code_of_a=1)
        for policy in ("Always", "Never")
    )
    tried, given_up = run_at(always, 3), run_at(never, 3)
    assert (tried.init["a"].started, tried.init["a"].restarts) == (at(2), 1)
    assert given_up.init["a"].ended is not None
    assert given_up.stopped
    for run in (tried, given_up):
        assert run.containers["main"] == ContainerRun()


def test_a_pod_that_is_told_to_end_while_it_initializes_starts_nothing_more() -> None:
    """Its init container ends, its sidecar with it, and that is all."""
    one = pod_of("main", init="side a", run_seconds_of_a=50, termination_seconds_of_a=4)
    stop = Stop(since=at(10), grace_seconds=30)
    assert run_at(one, 13, stop).init["side"].started == BEGUN
    run = run_at(one, 14, stop)
    assert run.stopped
    assert run.containers["main"] == ContainerRun()
    ended = run.init["side"].ended
    assert ended is not None
    assert ended.finished == at(14)


def test_a_sidecar_outlives_all_but_the_last_app_container() -> None:
    """It is needed as long as one of them runs."""
    one = pod_of("a b", init="side", run_seconds_of_a=2, run_seconds_of_b=5)
    assert run_at(one, 3).init["side"].started == BEGUN
    ended = run_at(one, 6).init["side"].ended
    assert ended is not None
    assert ended.finished == at(5)


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "1e400"])
def test_annotations_that_make_no_sense_are_left_out_and_named(text: str) -> None:
    """A typing error must not break a lab."""
    one = pod(run_seconds=text)
    assert run_at(one, 1e6).containers["main"].started == BEGUN
    (problem,) = problems_of(one)
    assert f"run-seconds: {text!r} is not usable" in problem


@pytest.mark.parametrize("text", ["256", "1.5"])
def test_exit_codes_are_whole_numbers_up_to_255(text: str) -> None:
    """Others do not exist."""
    assert problems_of(pod(exit_code=text))


def test_scripts_of_containers_that_are_not_there_are_named() -> None:
    """As are those of sidecars, which end with the pod; what is not ours is nobody's problem."""
    one = pod_of("a", init="side b", run_seconds_of_a=1, run_seconds_of_b=1, other="x")
    assert problems_of(one) == ()
    wrong = pod_of("a", init="side", run_seconds_of_b=1, exit_code_of_side=1, start_seconds_of_a=1)
    assert [text.split(":")[0] for text in problems_of(wrong)] == [
        f"annotation {PREFIX}exit-code.side",
        f"annotation {PREFIX}run-seconds.b",
        f"annotation {PREFIX}start-seconds.a",
    ]


@given(
    run_seconds=st.integers(0, 700),
    start_seconds=st.integers(0, 20),
    init_seconds=st.integers(0, 20),
    exit_code=st.sampled_from([0, 1]),
    restart=st.sampled_from(["Always", "OnFailure", "Never"]),
    moments=st.tuples(st.floats(0, 5000), st.floats(0, 5000)),
)
def test_nothing_changes_before_the_announced_moment(
    run_seconds: int,
    start_seconds: int,
    init_seconds: int,
    exit_code: int,
    restart: str,
    moments: tuple[float, float],
) -> None:
    """A kubelet that sleeps until the next change sees what one sees that looks all the time."""
    one = pod_of(
        "main",
        init="side a",
        restart=restart,
        run_seconds=run_seconds,
        start_seconds=start_seconds,
        run_seconds_of_a=init_seconds,
        exit_code=exit_code,
    )
    first, second = sorted(moments)
    run = run_at(one, first)
    if run.next_change is None or at(second) < run.next_change:
        assert run_at(one, second) == run
