"""The flight recorder keeps the last attempts of each pod, and never more than it may."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.recorder import flight_recorder as notes
from numakube.scheduling.recorder.flight_recorder import (
    Flight,
    FlightRecorder,
    FlightSubject,
    Note,
    Queued,
    RefusedGroup,
    TriedNote,
)
from numakube.scheduling.snapshot.zone_belief import (
    KubeletRejection,
    MispredictionSeverity,
    ZoneUse,
)


def subject(number: int) -> FlightSubject:
    """Return one of many pods."""
    return FlightSubject(f"uid-{number}", "default", f"pod-{number}", "numakube-scheduler")


def refusal(groups: int = 1, text: str = "cannot align container") -> TriedNote:
    """Return an attempt in vain."""
    found = tuple(
        RefusedGroup("Numa", (f"{text} {one}",), 3, ("n1", "n2")) for one in range(groups)
    )
    return TriedNote(at=1.0, seconds=0.002, evaluated=3 * groups, groups=found, message=text)


def attempt(recorder: FlightRecorder, number: int, note: Note | None = None) -> None:
    """Record one attempt of a pod."""
    recorder.begin(subject(number), Queued(0.5, "created"))
    recorder.note(f"uid-{number}", note or refusal())


def flight(recorder: FlightRecorder, number: int) -> Flight:
    """Return what is kept of a pod, which must be there."""
    found = recorder.get(f"uid-{number}")
    assert found is not None
    return found


def test_the_last_attempts_of_a_pod_are_kept_and_all_are_counted() -> None:
    """The ring forgets the oldest."""
    recorder = FlightRecorder(attempts=3)
    for _ in range(8):
        attempt(recorder, 1)
    kept = flight(recorder, 1)
    assert [one.number for one in kept.attempts] == [6, 7, 8]
    assert kept.count == 8


def test_what_happens_later_belongs_to_the_newest_attempt() -> None:
    """And what happens to pods that are not known is left out."""
    recorder = FlightRecorder()
    attempt(recorder, 1)
    attempt(recorder, 1)
    assert recorder.note("uid-1", notes.BoundNote(2.0, "n1"))
    assert not recorder.note("uid-2", notes.BoundNote(2.0, "n1"))
    first, second = flight(recorder, 1).attempts
    assert len(first.notes) == 1
    assert isinstance(second.notes[-1], notes.BoundNote)


def test_the_pod_to_which_nothing_happened_for_longest_makes_room() -> None:
    """A pod that has just been heard of stays."""
    recorder = FlightRecorder(limit_bytes=20_000)
    attempt(recorder, 1)
    attempt(recorder, 2)
    recorder.note("uid-1", notes.BoundNote(2.0, "n1"))
    number = 3
    while "uid-2" in recorder:
        attempt(recorder, number)
        number += 1
    assert "uid-1" in recorder
    assert recorder.evicted == 1


def test_pods_of_the_same_name_are_told_apart() -> None:
    """A pod that was deleted and created again has two flights, the newer first."""
    recorder = FlightRecorder()
    for uid in ("old", "new"):
        recorder.begin(FlightSubject(uid, "default", "web"), Queued(0.0, "created"))
    attempt(recorder, 1)
    assert [one.subject.uid for one in recorder.called("default", "web")] == ["new", "old"]


def test_a_loop_within_one_attempt_is_cut_short() -> None:
    """What finds no place is counted."""
    recorder = FlightRecorder()
    attempt(recorder, 1)
    for _ in range(1000):
        recorder.note("uid-1", notes.NotBoundNote(1.0, "again"))
    (only,) = flight(recorder, 1).attempts
    assert len(only.notes) + only.dropped == 1001
    assert only.dropped > 0


def test_without_memory_nothing_is_recorded() -> None:
    """Zero switches it off."""
    recorder = FlightRecorder(limit_bytes=0)
    attempt(recorder, 1)
    assert (len(recorder), recorder.bytes) == (0, 0)


USES: st.SearchStrategy[ZoneUse | KubeletRejection] = st.one_of(
    st.builds(KubeletRejection, st.text(max_size=20), st.text(max_size=2000)),
    st.dictionaries(st.tuples(st.integers(0, 7)), st.just({"cpu": 4000}), max_size=8),
)
NOTES = st.one_of(
    st.tuples(st.integers(0, 40), st.text(max_size=3000)).map(lambda it: refusal(*it)),
    st.one_of(st.none(), USES).map(lambda use: notes.ReservedNote(1.0, "n1", use)),
    st.tuples(USES, USES).map(
        lambda it: notes.MispredictedNote(1.0, "n1", MispredictionSeverity.ZONES, *it)
    ),
    st.text(max_size=5000).map(lambda text: notes.NotBoundNote(1.0, text)),
    st.just(notes.ToldNote(1.0, "called", {"verb": "filter"})),
)
STEPS = st.lists(st.tuples(st.integers(0, 12), st.booleans(), NOTES), max_size=120)


@given(STEPS, st.integers(0, 30_000), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_limit_holds_whatever_is_recorded(
    steps: list[tuple[int, bool, Note]], limit: int, kept: int
) -> None:
    """After every step, and the books are right."""
    recorder = FlightRecorder(limit_bytes=limit, attempts=kept)
    for number, begins, note in steps:
        if begins:
            recorder.begin(subject(number), Queued(0.5, "created"))
        recorder.note(f"uid-{number}", note)
        assert recorder.bytes <= limit
        assert recorder.bytes == sum(one.size for one in recorder)
        for one in recorder:
            assert len(one.attempts) <= kept
            assert all(note.size > 0 for each in one.attempts for note in each.notes)


def test_the_process_takes_no_more_than_the_estimate() -> None:
    """Measured, with everything that an attempt can keep alive and nothing shared."""
    recorder = FlightRecorder(limit_bytes=4 << 20)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(2000):
            attempt(recorder, number, refusal(4, f"a text of its own, {number}"))
            use: ZoneUse = {
                (zone,): {"cpu": 4000 + number, "memory": number << 20} for zone in (0, 1)
            }
            recorder.note(f"uid-{number}", notes.ReservedNote(float(number), "n1", use))
            recorder.note(f"uid-{number}", notes.ObservedNote(float(number), "n1", dict(use)))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert recorder.bytes > 3 << 20
    assert used <= recorder.limit_bytes


# ------------------------------------------------------------------------------------------------
# How much memory notes take, by which the recorder keeps to its limit.

LONGER = 100
"""Characters or elements that are added."""


def group(reason: str = "", detail: str = "", examples: int = 0) -> notes.RefusedGroup:
    """Return a group of nodes."""
    refusal = AlignmentRefusal(kind=Kind.KUBELET, detail=detail)
    return notes.RefusedGroup("P", (reason,), 1, ("n",) * examples, refusal)


def candidates(nodes: int) -> notes.Candidates:
    """Return candidates that one plugin has rated."""
    scores = np.zeros(nodes, dtype=np.int64)
    return notes.Candidates(("n",) * nodes, scores, ("P",), (scores,))


SEVERE = MispredictionSeverity.ZONES


def zones(count: int) -> ZoneUse:
    """Return a use of so many zones."""
    return {(zone,): {"cpu": 1000} for zone in range(count)}


def nominated(victims: int) -> notes.Nominated:
    """Return a nomination with victims of names of one character."""
    return notes.Nominated("n1", ("v",) * victims)


@pytest.mark.parametrize(
    ("made", "bytes_each"),
    [
        (lambda n: group(reason="x" * n), 1),
        (lambda n: group(detail="x" * n), 1),
        (lambda n: group(examples=n), 8),
        (lambda n: notes.NotBoundNote(1.0, "x" * n), 1),
        (lambda n: notes.TriedNote(at=1.0, seconds=0.1, message="x" * n), 1),
        (lambda n: notes.TriedNote(at=1.0, seconds=0.1, groups=(group(),) * n), group().size),
        (lambda n: notes.EndedNote(1.0, "x" * n), 1),
        (lambda n: notes.ToldNote(1.0, "x" * n, {}), 1),
        (lambda n: notes.ToldNote(1.0, "", {"k": "x" * n}), 1),
        (lambda n: notes.RejectedNote(1.0, "n1", "x" * n, ""), 1),
        (lambda n: notes.RejectedNote(1.0, "n1", "", "x" * n), 1),
        (lambda n: notes.ToldNote(1.0, "", {f"{at}": 7 for at in range(n)}), 129),
        (lambda n: notes.ReservedNote(1.0, "n1", zones(n)), 512),
        (lambda n: notes.ReservedNote(1.0, "n1", KubeletRejection("x" * n, "")), 1),
        (lambda n: notes.ReservedNote(1.0, "n1", KubeletRejection("", "x" * n)), 1),
        (lambda n: notes.ReservedNote(1.0, "n1", None, (0,) * n), 8),
        (lambda n: notes.ObservedNote(1.0, "n1", zones(n)), 512),
        (lambda n: notes.MispredictedNote(1.0, "n1", SEVERE, zones(n), zones(0)), 512),
        (lambda n: notes.MispredictedNote(1.0, "n1", SEVERE, zones(0), zones(n)), 512),
        (lambda n: notes.TriedNote(at=1.0, seconds=0.1, nominated=nominated(n)), 65),
        (lambda n: notes.TriedNote(at=1.0, seconds=0.1, candidates=candidates(n)), 24),
        (lambda n: notes.Queued(1.0, "x" * n), 1),
        (candidates, 24),
    ],
)
def test_a_note_takes_as_much_more_as_there_is_more_in_it(
    made: Callable[[int], notes.RefusedGroup], bytes_each: int
) -> None:
    """Beyond what every note takes."""
    least = made(0).size
    assert least >= 100
    assert made(LONGER).size - least == bytes_each * LONGER
