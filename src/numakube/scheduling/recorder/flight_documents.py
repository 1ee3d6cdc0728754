"""Flights as plain data, for JSON: what ``/debug/attempts`` and ``/debug/pods`` serve.

The form is described in ``docs/reference/debug-endpoints.md`` and only ever grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, assert_never

from numakube.scheduling.recorder import flight_recorder as notes
from numakube.scheduling.snapshot.zone_belief import KubeletRejection
from numakube.values.resources import quantities_of, quantity_of
from numakube.values.times import format_micro_time

if TYPE_CHECKING:
    from datetime import datetime

    from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal
    from numakube.scheduling.recorder.flight_recorder import Flight, RecordedAttempt
    from numakube.scheduling.snapshot.zone_belief import ZoneUse

    Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WallTime:
    """Turns seconds of the monotonic clock into times of day.

    Attributes:
        now: the time of day when the monotonic clock shows ``seconds``.
    """

    now: datetime
    seconds: float

    def text(self, at: float) -> str:
        """Return the time of day at *at*."""
        return format_micro_time(self.now + timedelta(seconds=at - self.seconds))


def flight_document(flight: Flight, wall: WallTime) -> Document:
    """Return everything that is kept of a pod."""
    return {
        **summary_document(flight, wall),
        "attempts": [attempt_document(attempt, wall) for attempt in flight.attempts],
    }


def summary_document(flight: Flight, wall: WallTime) -> Document:
    """Return what became of a pod so far, in short."""
    last = flight.last
    newest = last.notes[-1] if last is not None and last.notes else None
    return {
        "pod": flight.subject.key,
        "uid": flight.subject.uid,
        "schedulerName": flight.subject.scheduler,
        "firstSeen": wall.text(flight.first_at),
        "attemptCount": flight.count,
        "attemptsKept": len(flight.attempts),
        "lastEvent": None if newest is None else note_document(newest, wall)["event"],
        "lastEventTime": None if newest is None else wall.text(newest.at),
        "node": node_of(flight),
    }


def node_of(flight: Flight) -> str:
    """Return the node of the last attempt, if it got as far."""
    last = flight.last
    for note in reversed(last.notes if last is not None else ()):
        if isinstance(note, notes.NotBoundNote):
            return ""
        if isinstance(
            note, notes.ReservedNote | notes.BoundNote | notes.AdmittedNote | notes.ObservedNote
        ):
            return note.node
    return ""


def attempt_document(attempt: RecordedAttempt, wall: WallTime) -> Document:
    """Return one attempt with everything that happened in it."""
    return {
        "number": attempt.number,
        "queued": {"time": wall.text(attempt.queued.at), "why": attempt.queued.why},
        "events": [note_document(note, wall) for note in attempt.notes],
        "eventsDropped": attempt.dropped,
    }


def note_document(note: notes.Note, wall: WallTime) -> Document:
    """Return one event."""
    event, values = _values(note)
    return {"time": wall.text(note.at), "event": event, **values}


def _values(note: notes.Note) -> tuple[str, Document]:
    match note:
        case notes.TriedNote():
            return "tried", _tried(note)
        case notes.ReservedNote():
            return "reserved", {
                "node": note.node,
                "predicted": use_document(note.predicted),
                "anywhereIn": list(note.anywhere),
            }
        case notes.BoundNote() | notes.AdmittedNote():
            event = "bound" if isinstance(note, notes.BoundNote) else "admitted"
            return event, {"node": note.node}
        case notes.NotBoundNote():
            return "notBound", {"reason": note.reason}
        case notes.RejectedNote():
            return "rejected", {"node": note.node, "reason": note.reason, "message": note.message}
        case notes.ObservedNote():
            return "observed", {"node": note.node, "zones": use_document(note.zones)}
        case notes.MispredictedNote():
            return "mispredicted", {
                "node": note.node,
                "severity": str(note.severity),
                "predicted": use_document(note.predicted),
                "reported": use_document(note.reported),
            }
        case notes.EndedNote():
            return "ended", {"how": note.how}
        case notes.ToldNote():
            return note.what, dict(note.values)
    assert_never(note)


def _tried(note: notes.TriedNote) -> Document:
    candidates = note.candidates
    return {
        "result": _result(note),
        "seconds": round(note.seconds, 6),
        "evaluated": note.evaluated,
        "feasible": note.feasible,
        "node": note.node,
        "message": note.message,
        "by": note.by,
        "remembered": note.remembered,
        "unfinished": note.unfinished,
        "refusals": [group_document(group) for group in note.groups],
        "refusalsDropped": note.others,
        "candidates": [] if candidates is None else _candidates(candidates),
        "nominated": _nominated(note.nominated),
    }


def _result(note: notes.TriedNote) -> str:
    if note.node:
        return "chosen"
    if note.by and note.feasible:
        return "feasible"
    return "refused" if note.groups or note.evaluated or note.remembered else "failed"


def _nominated(nominated: notes.Nominated | None) -> Document | None:
    if nominated is None:
        return None
    return {"node": nominated.node, "victims": list(nominated.victims)}


def group_document(group: notes.RefusedGroup) -> Document:
    """Return nodes that refused for the same reason."""
    return {
        "nodes": group.nodes,
        "plugin": group.plugin,
        "reasons": list(group.reasons),
        "examples": list(group.examples),
        "byKubeletModel": group.confirmed,
        "evictionHelps": not group.hopeless,
        "closest": None if group.refusal is None else refusal_document(group.refusal),
    }


def refusal_document(refusal: AlignmentRefusal) -> Document:
    """Return the refusal of a node with its values."""
    resource = refusal.resource
    single = bool(resource) and "," not in resource
    return {
        "kind": str(refusal.kind),
        "container": refusal.container,
        "role": None if refusal.role is None else refusal.role.value,
        "resource": resource,
        "zones": list(refusal.zones),
        "wanted": str(quantity_of(resource, refusal.wanted)) if single else None,
        "free": str(quantity_of(resource, refusal.free)) if single else None,
        "policy": refusal.policy,
        "scope": refusal.scope,
        "reason": refusal.reason,
        "detail": refusal.detail,
    }


def _candidates(candidates: notes.Candidates) -> list[Document]:
    """Return the best nodes, best first."""
    order = sorted(
        range(len(candidates.nodes)),
        key=lambda place: (-int(candidates.totals[place]), candidates.nodes[place]),
    )
    return [
        {
            "node": candidates.nodes[place],
            "total": int(candidates.totals[place]),
            "scores": {
                plugin: int(column[place])
                for plugin, column in zip(candidates.plugins, candidates.scores, strict=True)
            },
        }
        for place in order
    ]


def use_document(use: ZoneUse | KubeletRejection | None) -> Document | None:
    """Return what a pod holds on which NUMA nodes, or how it is refused."""
    if use is None:
        return None
    if isinstance(use, KubeletRejection):
        return {"refused": {"reason": use.reason, "message": use.message}}
    held = sorted(use.items())
    return {"zones": [{"ids": list(ids), "amounts": quantities_of(part)} for ids, part in held]}
