"""What a process that decides on pods knows besides the API server's objects.

A scheduler or extender offers an `Inside` to the dashboard that it serves; a bundle has what they
told when it was made. Pages of a dashboard without one say so, and show what can be told from the
objects alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numakube.insight.pod_timeline import steps_of, use_text
from numakube.scheduling.recorder.flight_documents import flight_document, use_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.debugging.annex_endpoints import DecidingProgram
    from numakube.insight import ClusterFacts
    from numakube.insight.pod_timeline import TimelineStep
    from numakube.kube import Clock
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.zone_belief import NumaBelief

    Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A pod in the queue.

    Attributes:
        place: which part of the queue it is in.
        retry_in_seconds: how long it backs off yet.
        gate: why it must not be tried yet, if so.
        gang: the gang that it waits with, as ``/debug/queue`` tells of it.
    """

    pod: str
    place: str
    attempts: int
    retry_in_seconds: float = 0.0
    gate: str = ""
    gang: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMoment:
    """One step on a pod's way.

    Attributes:
        at: when, as RFC 3339.
        what: the step in a word or two.
        detail: what came of it.
        good: ``False`` for a setback.
    """

    at: str
    what: str
    detail: str = ""
    good: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A prediction that did not come true."""

    at: str
    node: str
    pod: str
    severity: str
    predicted: str
    reported: str


class Inside(Protocol):
    """What such a process lets the dashboard see."""

    @property
    def role(self) -> str:
        """What the process is, such as ``scheduler``."""
        ...

    def waiting(self) -> Sequence[Waiting]:
        """Return the queue; empty if there is none."""
        ...

    def moments(self, namespace: str, name: str) -> Sequence[TimelineMoment]:
        """Return what was done about a pod, as far as it is remembered, oldest first."""
        ...

    def mispredictions(self) -> Sequence[Missed]:
        """Return the latest predictions that did not come true, newest first."""
        ...

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of a node, reservations included."""
        ...

    def objects(self) -> ClusterObjects | None:
        """Return volumes, services and the like, which decisions depend on; a copy."""
        ...

    @property
    def config(self) -> KubeSchedulerConfiguration | None:
        """The configuration that decisions are made by, if it is a scheduler's."""
        ...


def moments_of(flight: Document) -> Iterator[TimelineMoment]:
    """Yield the steps of one pod as the flight recorder kept them, oldest first.

    Its documents are what ``/debug/attempts`` serves and bundles contain, so a bundle shows the
    same timeline as the scheduler that it was taken from.
    """
    yield from map(moment_of, steps_of(flight))


def moment_of(step: TimelineStep) -> TimelineMoment:
    """Return a step for a page."""
    detail = "; ".join((step.text, *step.details))
    return TimelineMoment(at=step.at, what=step.what, detail=detail, good=step.good)


def missed_in(flight: Document) -> Iterator[Missed]:
    """Yield the predictions about one pod that did not come true."""
    for attempt in flight.get("attempts") or ():
        for event in attempt.get("events") or ():
            if event.get("event") == "mispredicted":
                yield Missed(
                    at=str(event.get("time", "")),
                    node=str(event.get("node", "")),
                    pod=str(flight.get("pod", "")),
                    severity=str(event.get("severity", "")),
                    predicted=use_text(event.get("predicted")),
                    reported=use_text(event.get("reported")),
                )


# The inside of the schedulers of a bundle: what they told when it was made.


T = TypeVar("T")


class Recorded:
    """Lets the dashboard see the documents of schedulers in a bundle.

    Attributes:
        role: who they are.
        config: none; an explanation takes it from the facts.
    """

    config = None

    def __init__(self, facts: ClusterFacts) -> None:
        self.role = "bundle of " + ", ".join(sorted(facts.schedulers))
        self._facts = facts

    def waiting(self) -> list[Waiting]:
        """Return the queues."""
        return [
            Waiting(
                pod=str(entry.get("pod", "")),
                place=str(entry.get("place", "")),
                attempts=_count(entry.get("attempts")),
                retry_in_seconds=_seconds(entry.get("retryInSeconds")),
                gate=str(entry.get("gate") or ""),
                gang=_gang(entry.get("gang")),
            )
            for entry in self._items("queue", "pods")
        ]

    def moments(self, namespace: str, name: str) -> list[TimelineMoment]:
        """Return what was done about a pod."""
        key = f"{namespace}/{name}"
        return [
            moment
            for flight in self._items("attempts", "items")
            if flight.get("pod") == key
            for moment in _read(moments_of, flight)
        ]

    def mispredictions(self) -> list[Missed]:
        """Return all mispredictions, newest first."""
        flights = self._items("attempts", "items")
        found = [missed for flight in flights for missed in _read(missed_in, flight)]
        return sorted(found, key=lambda one: one.at, reverse=True)

    def belief(self, node: str) -> None:
        """Return nothing: beliefs are not in a bundle."""

    def objects(self) -> ClusterObjects:
        """Return what was read of other kinds."""
        return self._facts.objects

    def _items(self, document: str, field: str) -> Iterator[dict[str, Any]]:
        for scheduler in self._facts.schedulers.values():
            found = scheduler.documents.get(document)
            items = found.get(field) if isinstance(found, dict) else None
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict):
                    yield item


def _read(read: Callable[[dict[str, Any]], Iterator[T]], flight: dict[str, Any]) -> list[T]:
    """Return what a document says; nothing if it is not a recorder's: bundles may be odd."""
    try:
        return list(read(flight))
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def _gang(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and "name" in value else None


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# The inside of a scheduler or extender, for the dashboard that it serves.


class Decider:
    """Lets the dashboard see what a program believes and has decided.

    Attributes:
        role: what the program is.
        config: the configuration that it decides by, if it is a scheduler.
    """

    def __init__(self, program: DecidingProgram, clock: Clock) -> None:
        self.role = program.speaker.kind
        self.config = program.config
        self._program = program
        self._clock = clock

    def waiting(self) -> list[Waiting]:
        """Return the queue."""
        now = self._clock.monotonic()
        return [
            Waiting(
                pod=entry.pod.key,
                place=entry.place.value,
                attempts=entry.attempts,
                retry_in_seconds=max(entry.retry_at - now, 0.0),
                gate=entry.gate.message,
                gang=self._program.gang_of(entry.pod),
            )
            for entry in self._program.queue
        ]

    def moments(self, namespace: str, name: str) -> list[TimelineMoment]:
        """Return what was done about the pods that had that name, oldest first."""
        recording = self._program.recording
        wall, flights = recording.wall(), recording.recorder.called(namespace, name)
        return [
            moment
            for flight in reversed(flights)
            for moment in moments_of(flight_document(flight, wall))
        ]

    def mispredictions(self) -> list[Missed]:
        """Return the latest mispredictions, newest first."""
        wall = self._program.recording.wall()
        return [
            Missed(
                at=wall.text(at),
                node=one.node,
                pod=one.pod,
                severity=one.severity.value,
                predicted=use_text(use_document(one.predicted)),
                reported=use_text(use_document(one.reported)),
            )
            for at, one in reversed(self._program.recording.mispredictions)
        ]

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of a node."""
        info = self._program.mirror.cluster.node(node)
        return None if info is None else info.numa

    def objects(self) -> ClusterObjects:
        """Return a copy of what decisions depend on besides nodes and pods."""
        return self._program.objects()
