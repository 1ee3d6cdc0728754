"""The story of a pod as an operator reads it."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import dedent

import numpy as np

from numakube.insight.pod_timeline import timeline, use_text
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.recorder import flight_recorder as notes
from numakube.scheduling.recorder.flight_documents import WallTime, flight_document
from numakube.scheduling.recorder.flight_recorder import (
    Candidates,
    FlightRecorder,
    FlightSubject,
    Nominated,
    Queued,
    RefusedGroup,
    TriedNote,
)
from numakube.scheduling.snapshot.zone_belief import MispredictionSeverity, ZoneUse

WALL = WallTime(datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC), 10.0)
ZONE_0: ZoneUse = {(0,): {"cpu": 4000, "memory": 1 << 30}}
ZONE_1: ZoneUse = {(1,): {"cpu": 4000}}


def told(recorder: FlightRecorder) -> str:
    """Return the story of the only pod."""
    (flight,) = recorder
    return "\n".join(timeline(flight_document(flight, WALL), source="sched-1")) + "\n"


def recorder_with(*events: notes.Note, why: str = "created", attempts: int = 10) -> FlightRecorder:
    """Return a recorder with one attempt."""
    recorder = FlightRecorder(attempts=attempts)
    recorder.begin(FlightSubject("u1", "default", "web"), Queued(0.0, why))
    for event in events:
        recorder.note("u1", event)
    return recorder


def test_a_pod_that_is_refused_and_then_placed() -> None:
    """Why not, what woke it, where it went and what it got."""
    refusal = AlignmentRefusal(
        kind=Kind.KUBELET,
        resource="cpu",
        wanted=4000,
        free=3000,
        detail="CPUs 4-7 are held by x",
    )
    text = "cannot align container (cpu: best zone has 3 of 4)"
    groups = (
        RefusedGroup(
            "NodeResourceTopologyMatch", (text,), 7, ("n1", "n2"), refusal, confirmed=True
        ),
        RefusedGroup("TaintToleration", ("node(s) had untolerated taint(s)",), 1, ("n9",)),
    )
    refused = TriedNote(at=1.0, seconds=0.0021, evaluated=8, groups=groups)
    recorder = recorder_with(refused)
    recorder.begin(FlightSubject("u1", "default", "web"), Queued(3.0, "pod-deleted of a/b on n2"))
    best = Candidates(
        ("n2", "n1"), np.array([90, 70]), ("A", "B"), (np.array([60, 70]), np.array([30, 0]))
    )
    chosen = TriedNote(at=4.0, seconds=0.001, evaluated=8, feasible=2, node="n2", candidates=best)
    for note in (
        chosen,
        notes.ReservedNote(4.0, "n2", ZONE_0),
        notes.BoundNote(4.25, "n2"),
        notes.AdmittedNote(5.0, "n2"),
        notes.ObservedNote(5.5, "n2", ZONE_0),
    ):
        recorder.note("u1", note)
    assert told(recorder) == dedent("""\
        default/web (uid u1), first seen 2026-01-01T12:00:00.000000Z, recorded by sched-1
        attempt 1
          12:00:00.000  queued       created
          12:00:01.000  tried        none of 8 nodes fits, in 2.1 ms
                                   7 x cannot align container (cpu: best zone has 3 of 4) \
(the kubelet model, NodeResourceTopologyMatch: n1, n2, ...)
                                       CPUs 4-7 are held by x
                                   1 x node(s) had untolerated taint(s) (TaintToleration: n9)
        attempt 2
          12:00:03.000  queued       pod-deleted of a/b on n2
          12:00:04.000  tried        chose n2; 2 of 8 nodes fit, in 1.0 ms
                                   *n2 scores 90: A 60, B 30
                                    n1 scores 70: A 70
          12:00:04.000  reserved     on n2: predicted zone 0: cpu 4, memory 1Gi
          12:00:04.250  bound        to n2
          12:00:05.000  admitted     by the kubelet of n2
          12:00:05.500  observed     on n2: zone 0: cpu 4, memory 1Gi, as predicted
        """)


def test_a_pod_that_fares_badly() -> None:
    """A misprediction has both views; a rejection has the kubelet's words."""
    recorder = recorder_with(
        notes.ReservedNote(1.0, "n1", ZONE_0),
        notes.MispredictedNote(2.0, "n1", MispredictionSeverity.ZONES, ZONE_0, ZONE_1),
        notes.RejectedNote(3.0, "n1", "TopologyAffinityError", "Resources cannot be allocated"),
        notes.NotBoundNote(4.0, "the node is gone"),
        notes.EndedNote(5.0, "deleted"),
        notes.ToldNote(6.0, "prioritized", {"nodes": 3, "best": "n1"}),
    )
    lines = told(recorder).splitlines()[3:]
    assert [line[16:] for line in lines] == [
        "reserved     on n1: predicted zone 0: cpu 4, memory 1Gi",
        "MISPREDICTED on n1: predicted zone 0: cpu 4, memory 1Gi, got zone 1: cpu 4",
        "rejected     by the kubelet of n1: TopologyAffinityError: Resources cannot be allocated",
        "not bound    the node is gone",
        "ended        deleted",
        "prioritized  nodes 3, best n1",
    ]


def test_what_is_not_known_is_said() -> None:
    """Counts only, failures, victims, and attempts that are not kept any more."""
    nominated = Nominated("n1", ("default/low",))
    recorder = recorder_with(
        TriedNote(at=1.0, seconds=0.0, evaluated=1, nominated=nominated, remembered=True, others=4),
        TriedNote(at=1.0, seconds=0.0, message="Spread: out of order"),
        TriedNote(at=1.0, seconds=0.001, evaluated=9, feasible=3, by="filter"),
        notes.ReservedNote(2.0, "n1", anywhere=(0, 1)),
        notes.ReservedNote(2.0, "n1"),
        attempts=1,
    )
    text = told(recorder)
    assert "nothing had changed since the last refusal" in text
    assert "room is made on n1 by evicting default/low" in text
    assert "4 more nodes refused for other reasons" in text
    assert "failed: Spread: out of order" in text
    assert "filter: 3 of 9 nodes fit" in text
    assert "counts only, somewhere in zones 0+1" in text
    assert "nothing is known of its zones" in text
    recorder.begin(FlightSubject("u1", "default", "web"), Queued(3.0, "again"))
    assert "2 attempts; the last 1 are kept" in told(recorder)


def test_uses_are_told_in_one_line() -> None:
    """Also refusals and nothing at all."""
    assert use_text(None) == "nothing known"
    assert use_text({"refused": {"reason": "SMTAlignmentError"}}) == "refusal (SMTAlignmentError)"
    assert use_text({"zones": []}) == "nothing exclusively"
