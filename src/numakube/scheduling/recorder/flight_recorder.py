"""Keeps the notes of the last attempts of each pod, within a limit of bytes.

Every pod has a flight: a ring of its last attempts. Flights are kept until memory is needed for
others; then the one goes to which nothing has happened for longest. Nothing about a pod decides how
much is written down of it, so its author can neither switch the recorder on nor off.

The bytes are estimates (`Note.size`), generous enough that the process never takes more.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.recorder.flight_notes import Note, Queued, Subject

MEMORY_BYTES: Final = 32 << 20
ATTEMPTS: Final = 10
"""Attempts that are kept of each pod."""
_NOTES: Final = 64
"""Notes of one attempt; more than a handful come only if something goes round in circles."""
_FLIGHT_BYTES: Final = 1024
_ATTEMPT_BYTES: Final = 512


@dataclass(slots=True)
class Attempt:
    """What was noted of one attempt.

    Attributes:
        number: how many attempts of the pod came before it, and itself.
        dropped: notes that had no place.
    """

    number: int
    queued: Queued
    notes: list[Note] = field(default_factory=list)
    dropped: int = 0
    size: int = _ATTEMPT_BYTES


@dataclass(slots=True)
class Flight:
    """What was noted of one pod.

    Attributes:
        first_at: when it was first heard of.
        count: attempts, those that are not kept any more included.
    """

    subject: Subject
    first_at: float
    attempts: list[Attempt] = field(default_factory=list)
    count: int = 0
    size: int = 0

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None


class FlightRecorder:
    """Flights of pods by uid, the one that changed last at the end."""

    def __init__(self, *, limit_bytes: int = MEMORY_BYTES, attempts: int = ATTEMPTS) -> None:
        """Prepare a recorder.

        Args:
            limit_bytes: what all flights may take together; 0 records nothing.
            attempts: how many are kept of each pod.
        """
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self.evicted = 0
        """Flights that were given up for others."""
        self._attempts = max(1, attempts)
        self._flights: OrderedDict[str, Flight] = OrderedDict()

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight]:
        """Yield the flights, the one that changed last first."""
        return iter(reversed(self._flights.values()))

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def get(self, uid: str) -> Flight | None:
        """Return the flight of the pod with that uid."""
        return self._flights.get(uid)

    def called(self, namespace: str, name: str) -> list[Flight]:
        """Return the flights of all pods that had that name, the one that changed last first."""
        return [
            flight
            for flight in self
            if (flight.subject.name, flight.subject.namespace) == (name, namespace)
        ]

    def begin(self, subject: Subject, queued: Queued, *, number: int = 0) -> None:
        """Open a new attempt of a pod.

        Args:
            subject: the pod.
            queued: why it is tried.
            number: of the attempt; the next one if it is not given.
        """
        if not self.limit_bytes:
            return
        flight = self._flights.get(subject.uid)
        if flight is None:
            size = _FLIGHT_BYTES + 2 * (len(subject.namespace) + len(subject.name))
            flight = self._flights[subject.uid] = Flight(subject, queued.at, size=size)
            self.bytes += size
        else:
            self._flights.move_to_end(subject.uid)
        flight.count = number or flight.count + 1
        attempt = Attempt(flight.count, queued)
        attempt.size += queued.size
        flight.attempts.append(attempt)
        self._grow(flight, attempt.size)
        if len(flight.attempts) > self._attempts:
            self._drop_oldest(flight)
        self._shrink(flight)

    def note(self, uid: str, note: Note) -> bool:
        """Add to the newest attempt of a pod; tell whether there is one."""
        flight = self._flights.get(uid)
        if flight is None or not flight.attempts:
            return False
        attempt = flight.attempts[-1]
        self._flights.move_to_end(uid)
        if len(attempt.notes) >= _NOTES:
            attempt.dropped += 1
            return True
        attempt.notes.append(note)
        size = note.size
        attempt.size += size
        flight.size += size
        self.bytes += size
        if self.bytes > self.limit_bytes:
            self._shrink(flight)
        return True

    def _grow(self, flight: Flight, size: int) -> None:
        flight.size += size
        self.bytes += size

    def _drop_oldest(self, flight: Flight) -> None:
        self._grow(flight, -flight.attempts.pop(0).size)

    def _shrink(self, current: Flight) -> None:
        """Give up the flights that nothing has happened to for longest, *current* last of all."""
        while self.bytes > self.limit_bytes and len(self._flights) > 1:
            _, oldest = self._flights.popitem(last=False)
            self.bytes -= oldest.size
            self.evicted += 1
        while self.bytes > self.limit_bytes and current.attempts:
            self._drop_oldest(current)
        if self.bytes > self.limit_bytes:
            self._flights.clear()
            self.bytes = 0
            self.evicted += 1
