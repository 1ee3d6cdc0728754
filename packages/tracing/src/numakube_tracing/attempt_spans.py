"""What a flight recorder has noted of a pod, as spans: values that any tracer can export. Pure.

One attempt is one span with children: ``queue``, ``decide``, ``bind`` and ``kubelet``. They are
made when nothing more is to come of the attempt, from the times that were noted; nothing is
measured for them, so a scheduler that traces decides as fast as one that does not.

The trace of a pod is named by its uid: whoever knows the pod finds all of its attempts, by every
scheduler and extender that had to do with it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.scheduling.recorder import (
    AdmittedNote,
    BoundNote,
    EndedNote,
    MispredictedNote,
    NotBoundNote,
    Note,
    ObservedNote,
    RejectedNote,
    ReservedNote,
    ToldNote,
    TriedNote,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.recorder import FlightSubject, RecordedAttempt

PATIENCE_SECONDS: Final = 60.0
"""How long the span of a bound pod waits for the kubelet's verdict and its report."""
_GROUPS: Final = 20
"""Refusals that a span tells of; the others are counted."""
_TEXT: Final = 1024
"""Characters of a message; collectors cut or refuse longer ones."""

Value: TypeAlias = str | int | float | bool
Attributes: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one moment of a span."""

    name: str
    at: float
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a pod's way; times are those of the recorder's clock.

    Attributes:
        error: what went wrong; empty if nothing did. A pod that fits nowhere is no error.
    """

    name: str
    start: float
    end: float
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    children: tuple[Span, ...] = ()
    error: str = ""


def trace_id_of(uid: str) -> int:
    """Return the id of a pod's trace: its uid, as it is where it is a UUID."""
    try:
        number = uuid.UUID(uid).int
    except ValueError:
        number = 0
    return number or int.from_bytes(hashlib.sha256(uid.encode()).digest()[:16]) or 1


def is_over(attempt: RecordedAttempt, now: float) -> bool:
    """Tell whether nothing more is to come of an attempt, or nobody waits for it any more."""
    notes = attempt.notes
    if not notes:
        return False
    seen = {type(note) for note in notes}
    if seen & {NotBoundNote, RejectedNote, EndedNote, ObservedNote}:
        return True
    if BoundNote in seen or ReservedNote in seen or ToldNote in seen:
        return now - notes[-1].at > PATIENCE_SECONDS
    return TriedNote in seen


def spans_of(subject: FlightSubject, attempt: RecordedAttempt) -> Span:
    """Return an attempt with everything that was noted of it."""
    notes = attempt.notes
    start = attempt.queued.at
    end = max((note.at for note in notes), default=start)
    attributes: dict[str, Value] = {
        "k8s.pod.uid": subject.uid,
        "k8s.pod.name": subject.name,
        "k8s.namespace.name": subject.namespace,
        "numakube.scheduler": subject.scheduler,
        "numakube.attempt": attempt.number,
        "numakube.outcome": _outcome(notes),
    }
    if attempt.queued.why:
        attributes["numakube.woken_by"] = _cut(attempt.queued.why)
    if attempt.dropped:
        attributes["numakube.dropped_notes"] = attempt.dropped
    node = next((note.node for note in reversed(notes) if isinstance(note, _ON_NODE)), "")
    if node:
        attributes["k8s.node.name"] = node
    errors = (_error(note) for note in notes)
    return Span(
        name="schedule pod",
        start=start,
        end=end,
        attributes=attributes,
        events=tuple(_events(notes)),
        children=tuple(_children(start, notes)),
        error=next(filter(None, errors), ""),
    )


_ON_NODE: Final = (ReservedNote, BoundNote, AdmittedNote, RejectedNote, ObservedNote)


def _outcome(notes: list[Note]) -> str:
    for note in reversed(notes):
        match note:
            case RejectedNote():
                return "rejected by the kubelet"
            case NotBoundNote():
                return "not bound"
            case ObservedNote() | AdmittedNote():
                return "runs"
            case BoundNote():
                return "bound"
            case TriedNote(node=""):
                return "no node yet" if note.unfinished else "fits nowhere"
            case _:
                continue
    return "unknown"


def _error(note: Note) -> str:
    match note:
        case RejectedNote():
            return _cut(f"{note.reason}: {note.message}")
        case NotBoundNote():
            return _cut(note.reason)
        case _:
            return ""


def _children(queued_at: float, notes: list[Note]) -> Iterator[Span]:
    """Yield the parts of an attempt, in order; each ends where the next may begin."""
    reserved_at = bound_at = None
    first = True
    for note in notes:
        match note:
            case TriedNote():
                started = max(queued_at, note.at - note.seconds)
                if first:
                    yield Span(name="queue", start=queued_at, end=started)
                first = False
                yield _decision(note, started)
            case ReservedNote():
                reserved_at = note.at
            case BoundNote():
                yield Span(name="bind", start=_known(reserved_at, note.at), end=note.at)
                bound_at = note.at
            case NotBoundNote() if reserved_at is not None:
                yield Span(name="bind", start=reserved_at, end=note.at, error=_cut(note.reason))
            case AdmittedNote() | RejectedNote():
                verdict = "rejected" if isinstance(note, RejectedNote) else "admitted"
                yield Span(
                    name="kubelet",
                    start=_known(bound_at, note.at),
                    end=note.at,
                    attributes={"k8s.node.name": note.node, "numakube.verdict": verdict},
                    error=_error(note),
                )
            case _:
                continue


def _decision(note: TriedNote, started: float) -> Span:
    refusals = (
        SpanEvent(
            "nodes refused",
            note.at,
            {
                "numakube.plugin": group.plugin,
                "numakube.reason": _cut("; ".join(group.reasons)),
                "numakube.nodes": group.nodes,
                "numakube.by_kubelet_model": group.confirmed,
                "numakube.eviction_would_help": not group.hopeless,
            },
        )
        for group in note.groups[:_GROUPS]
    )
    attributes: dict[str, Value] = {
        "numakube.nodes.evaluated": note.evaluated,
        "numakube.nodes.feasible": note.feasible,
        "numakube.remembered": note.remembered,
    }
    if note.node:
        attributes["k8s.node.name"] = note.node
    if note.message:
        attributes["numakube.message"] = _cut(note.message)
    if note.nominated is not None:
        attributes["numakube.nominated"] = note.nominated.node
        attributes["numakube.victims"] = len(note.nominated.victims)
    return Span(
        name="decide", start=started, end=note.at, attributes=attributes, events=tuple(refusals)
    )


def _events(notes: list[Note]) -> Iterator[SpanEvent]:
    """Yield what happened besides the parts."""
    for note in notes:
        match note:
            case ReservedNote() if note.predicted is not None or note.anywhere:
                yield SpanEvent("kubelet predicted", note.at, {"k8s.node.name": note.node})
            case ObservedNote():
                yield SpanEvent("seen in the node's report", note.at, {"k8s.node.name": note.node})
            case MispredictedNote():
                yield SpanEvent(
                    "kubelet mispredicted", note.at, {"numakube.severity": str(note.severity)}
                )
            case EndedNote():
                yield SpanEvent("pod ended", note.at, {"numakube.how": _cut(note.how)})
            case ToldNote():
                yield SpanEvent(_cut(note.what), note.at, dict(note.values))
            case _:
                continue


def _known(at: float | None, default: float) -> float:
    return default if at is None else at


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
