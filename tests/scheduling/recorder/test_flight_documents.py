"""What a flight is as JSON: every kind of event, with all of its values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.recorder import flight_recorder as notes
from numakube.scheduling.recorder.flight_documents import (
    WallTime,
    flight_document,
    group_document,
    note_document,
    summary_document,
)
from numakube.scheduling.recorder.flight_recorder import Flight, FlightRecorder, FlightSubject
from numakube.scheduling.snapshot.zone_belief import (
    KubeletRejection,
    MispredictionSeverity,
    ZoneUse,
)

WALL = WallTime(datetime(2026, 1, 1, tzinfo=UTC), 10.0)
USE: ZoneUse = {(1,): {"memory": 1 << 30}, (0,): {"cpu": 1500}}
HELD = {
    "zones": [
        {"ids": [0], "amounts": {"cpu": "1500m"}},
        {"ids": [1], "amounts": {"memory": "1Gi"}},
    ]
}
GONE = KubeletRejection("TopologyAffinityError", "no room")
NOT_TRIED = {
    "seconds": 0.0,
    "evaluated": 0,
    "feasible": 0,
    "node": "",
    "message": "",
    "by": "",
    "remembered": False,
    "unfinished": False,
    "refusals": [],
    "refusalsDropped": 0,
    "candidates": [],
    "nominated": None,
}


def tried(**more: Any) -> notes.TriedNote:
    return notes.TriedNote(at=10.0, seconds=0.0, evaluated=more.pop("evaluated", 0), **more)


BEST = notes.Candidates(
    ("b", "a", "c"),
    np.array([90, 70, 90]),
    ("Fit", "Numa"),
    (np.array([60, 70, 50]), np.array([30, 0, 40])),
)
RANKED = [
    {"node": "b", "total": 90, "scores": {"Fit": 60, "Numa": 30}},
    {"node": "c", "total": 90, "scores": {"Fit": 50, "Numa": 40}},
    {"node": "a", "total": 70, "scores": {"Fit": 70, "Numa": 0}},
]
GROUP = notes.RefusedGroup("Fit", ("full",), 1)


@pytest.mark.parametrize(
    ("note", "event", "values"),
    [
        (notes.ReservedNote(10.0, "n"), "reserved", {"predicted": None, "anywhereIn": []}),
        (
            notes.ReservedNote(10.0, "n", USE, (0, 1)),
            "reserved",
            {"predicted": HELD, "anywhereIn": [0, 1]},
        ),
        (notes.BoundNote(10.0, "n"), "bound", {}),
        (notes.AdmittedNote(10.0, "n"), "admitted", {}),
        (notes.RejectedNote(10.0, "n", "R", "m"), "rejected", {"reason": "R", "message": "m"}),
        (notes.ObservedNote(10.0, "n", USE), "observed", {"zones": HELD}),
        (
            notes.MispredictedNote(10.0, "n", MispredictionSeverity.VERDICT, GONE, USE),
            "mispredicted",
            {
                "severity": str(MispredictionSeverity.VERDICT),
                "predicted": {"refused": {"reason": GONE.reason, "message": GONE.message}},
                "reported": HELD,
            },
        ),
    ],
)
def test_an_event_on_a_node_has_the_node_and_what_it_is_about(
    note: notes.Note, event: str, values: dict[str, Any]
) -> None:
    when = "2026-01-01T00:00:00.000000Z"
    assert note_document(note, WALL) == {"time": when, "event": event, "node": "n", **values}


@pytest.mark.parametrize(
    ("note", "event", "values"),
    [
        (notes.NotBoundNote(11.5, "late"), "notBound", {"reason": "late"}),
        (notes.EndedNote(11.5, "deleted"), "ended", {"how": "deleted"}),
        (notes.ToldNote(11.5, "gated", {"by": "g", "for": 3}), "gated", {"by": "g", "for": 3}),
    ],
)
def test_other_events_have_no_node(note: notes.Note, event: str, values: dict[str, Any]) -> None:
    when = "2026-01-01T00:00:01.500000Z"
    assert note_document(note, WALL) == {"time": when, "event": event, **values}


@pytest.mark.parametrize(
    ("note", "values"),
    [
        (tried(), {"result": "failed"}),
        (tried(remembered=True), {"result": "refused", "remembered": True}),
        (tried(evaluated=2), {"result": "refused", "evaluated": 2}),
        (tried(groups=(GROUP,)), {"result": "refused", "refusals": [group_document(GROUP)]}),
        (tried(by="/filter", feasible=1), {"result": "feasible", "by": "/filter", "feasible": 1}),
        (tried(by="/filter"), {"result": "failed", "by": "/filter"}),
        (tried(feasible=1), {"result": "failed", "feasible": 1}),
        (
            tried(node="b", feasible=3, candidates=BEST, evaluated=3),
            {"result": "chosen", "node": "b", "feasible": 3, "evaluated": 3, "candidates": RANKED},
        ),
        (
            tried(nominated=notes.Nominated("b", ("x", "y")), unfinished=True, others=4),
            {
                "result": "failed",
                "nominated": {"node": "b", "victims": ["x", "y"]},
                "unfinished": True,
                "refusalsDropped": 4,
            },
        ),
    ],
)
def test_an_attempt_tells_its_result_and_the_best_nodes_first(
    note: notes.TriedNote, values: dict[str, Any]
) -> None:
    shown = note_document(note, WALL)
    assert shown == {"time": shown["time"], "event": "tried", **NOT_TRIED, **values}


@pytest.mark.parametrize(
    ("resource", "wanted", "free"),
    [("cpu", "8", "6"), ("cpu,memory", None, None), ("", None, None)],
)
def test_of_one_resource_a_refusal_tells_how_much_lacked(
    resource: str, wanted: str | None, free: str | None
) -> None:
    refusal = AlignmentRefusal(kind=Kind.ALIGN, resource=resource, wanted=8000, free=6000)
    group = notes.RefusedGroup("Numa", ("no",), 2, ("n1",), refusal, confirmed=True, hopeless=True)
    shown = group_document(group)
    assert (shown["byKubeletModel"], shown["evictionHelps"]) == (True, False)
    assert (shown["closest"]["wanted"], shown["closest"]["free"]) == (wanted, free)
    assert group_document(GROUP)["closest"] is None


def flight(*events: notes.Note) -> Flight:
    """Return the flight of a pod that was tried once."""
    recorder = FlightRecorder(attempts=3)
    recorder.begin(FlightSubject("u", "default", "web"), notes.Queued(9.0, "created"))
    for event in events:
        recorder.note("u", event)
    (found,) = recorder
    return found


@pytest.mark.parametrize(
    ("events", "node", "last"),
    [
        ((), "", None),
        ((tried(),), "", "tried"),
        ((notes.ReservedNote(10.0, "n"),), "n", "reserved"),
        ((notes.ReservedNote(10.0, "n"), notes.NotBoundNote(11.0, "late")), "", "notBound"),
        ((notes.BoundNote(10.0, "n"), notes.EndedNote(11.0, "done")), "n", "ended"),
        ((notes.AdmittedNote(10.0, "n"),), "n", "admitted"),
        ((notes.ObservedNote(10.0, "n", USE),), "n", "observed"),
        ((notes.BoundNote(10.0, "n"), notes.RejectedNote(11.0, "n", "R", "m")), "n", "rejected"),
    ],
)
def test_the_node_of_a_pod_is_that_of_its_last_attempt_unless_it_was_given_up(
    events: tuple[notes.Note, ...], node: str, last: str | None
) -> None:
    one = flight(*events)
    summary = summary_document(one, WALL)
    assert (summary["node"], summary["lastEvent"]) == (node, last)
    assert summary["firstSeen"] == "2025-12-31T23:59:59.000000Z"
    assert (summary["lastEventTime"] is None) is (last is None)
    (attempt,) = flight_document(one, WALL)["attempts"]
    assert attempt["queued"] == {"time": summary["firstSeen"], "why": "created"}
    assert [event["event"] for event in attempt["events"]][-1:] == ([last] if last else [])
    assert (attempt["number"], attempt["eventsDropped"]) == (1, 0)
