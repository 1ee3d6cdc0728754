"""A pod's way in spans."""

from __future__ import annotations

import uuid

import pytest

from numakube.scheduling.recorder.flight_recorder import (
    AdmittedNote,
    BoundNote,
    EndedNote,
    FlightSubject,
    NotBoundNote,
    Note,
    ObservedNote,
    Queued,
    RecordedAttempt,
    RefusedGroup,
    RejectedNote,
    ReservedNote,
    TriedNote,
)
from numakube_tracing.attempt_spans import PATIENCE_SECONDS, is_over, spans_of, trace_id_of

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
POD = FlightSubject(UID, "team", "web", "numakube-scheduler")
CHOSEN = TriedNote(at=3.0, seconds=0.5, evaluated=9, feasible=2, node="node-1")
REFUSED = TriedNote(
    at=3.0,
    seconds=0.5,
    evaluated=9,
    groups=(RefusedGroup("NodeResourcesFit", ("Insufficient cpu",), 9, hopeless=True),),
    message="0/9 nodes are available",
)
RESERVED = ReservedNote(3.0, "node-1")
BOUND = BoundNote(3.2, "node-1")
ADMITTED = AdmittedNote(3.7, "node-1")


def attempt(*notes: Note, queued: float = 1.0, why: str = "") -> RecordedAttempt:
    return RecordedAttempt(4, Queued(queued, why), list(notes))


def test_a_pod_that_runs_is_one_span_with_its_parts_one_after_the_other() -> None:
    span = spans_of(POD, attempt(CHOSEN, RESERVED, BOUND, ADMITTED, why="NodeAdd"))
    assert (span.name, span.start, span.end, span.error) == ("schedule pod", 1.0, 3.7, "")
    assert [(child.name, child.start, child.end) for child in span.children] == [
        ("queue", 1.0, 2.5),
        ("decide", 2.5, 3.0),
        ("bind", 3.0, 3.2),
        ("kubelet", 3.2, 3.7),
    ]
    assert span.attributes == {
        "k8s.pod.uid": UID,
        "k8s.pod.name": "web",
        "k8s.namespace.name": "team",
        "k8s.node.name": "node-1",
        "numakube.scheduler": "numakube-scheduler",
        "numakube.attempt": 4,
        "numakube.outcome": "runs",
        "numakube.woken_by": "NodeAdd",
    }


def test_a_pod_that_fits_nowhere_is_no_error_and_says_who_refused_it() -> None:
    span = spans_of(POD, attempt(REFUSED))
    assert (span.attributes["numakube.outcome"], span.error) == ("fits nowhere", "")
    (event,) = span.children[1].events
    assert event.attributes == {
        "numakube.plugin": "NodeResourcesFit",
        "numakube.reason": "Insufficient cpu",
        "numakube.nodes": 9,
        "numakube.by_kubelet_model": False,
        "numakube.eviction_would_help": False,
    }


@pytest.mark.parametrize(
    ("last", "outcome", "error"),
    [
        (
            RejectedNote(4.0, "node-1", "TopologyAffinityError", "no"),
            "rejected by the kubelet",
            "TopologyAffinityError: no",
        ),
        (NotBoundNote(4.0, "conflict"), "not bound", "conflict"),
    ],
)
def test_what_goes_wrong_is_an_error_of_the_part_and_of_the_whole(
    last: Note, outcome: str, error: str
) -> None:
    span = spans_of(POD, attempt(CHOSEN, RESERVED, last))
    assert (span.attributes["numakube.outcome"], span.error) == (outcome, error)
    assert span.children[-1].error == error


def test_a_long_message_is_cut() -> None:
    span = spans_of(POD, attempt(RejectedNote(4.0, "node-1", "r", "x" * 5000)))
    assert len(span.error) == 1024


@pytest.mark.parametrize(
    ("notes", "over"),
    [
        ((), False),
        ((REFUSED,), True),
        ((CHOSEN, RESERVED), False),
        ((CHOSEN, RESERVED, BOUND), False),
        ((CHOSEN, RESERVED, BOUND, ADMITTED), False),
        ((CHOSEN, RESERVED, BOUND, ADMITTED, ObservedNote(4.0, "node-1", {})), True),
        ((CHOSEN, RESERVED, NotBoundNote(4.0, "no")), True),
        ((CHOSEN, RESERVED, BOUND, EndedNote(4.0, "deleted")), True),
    ],
)
def test_an_attempt_is_over_when_nothing_more_is_to_come(
    notes: tuple[Note, ...], over: bool
) -> None:
    assert is_over(attempt(*notes), now=5.0) is over


def test_a_report_that_never_comes_is_not_waited_for_long() -> None:
    waiting = attempt(CHOSEN, RESERVED, BOUND, ADMITTED)
    assert not is_over(waiting, now=ADMITTED.at + PATIENCE_SECONDS)
    assert is_over(waiting, now=ADMITTED.at + PATIENCE_SECONDS + 0.1)


def test_the_trace_of_a_pod_is_called_as_the_pod() -> None:
    assert trace_id_of(UID) == uuid.UUID(UID).int
    other = {trace_id_of("static-1"), trace_id_of("static-2"), trace_id_of("")}
    assert len(other) == 3
    assert all(0 < number < 1 << 128 for number in other)
    assert trace_id_of("00000000-0000-0000-0000-000000000000") > 0
