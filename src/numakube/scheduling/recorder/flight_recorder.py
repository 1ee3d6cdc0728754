"""What happens to each pod, as notes that are kept within a limit of bytes.

Every pod has a flight: a ring of its last attempts. Flights are kept until memory is needed for
others; then the one goes to which nothing has happened for longest. Nothing about a pod decides how
much is written down of it, so its author can neither switch the recorder on nor off.

The bytes are estimates (`Note.size`), generous enough that the process never takes more.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from numakube.scheduling.snapshot.zone_belief import (
    KubeletRejection,
    MispredictionSeverity,
    ZoneUse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal


# ------------------------------------------------------------------------------------------------
# What a flight recorder writes down: one value for each thing that happens to a pod.
#
# Notes hold references to values that exist anyway and are never bigger than a few kilobytes;
# texts and documents are made of them only when they are read (`flight_documents`). Every note
# tells about how many bytes it keeps alive, so that its owner can stay within a limit. Times are
# seconds of the process's monotonic clock.

_NOTE_BYTES: Final = 160
"""A small object with its slots, its numbers and its place in a list."""
_TEXT_BYTES: Final = 64
_ZONE_BYTES: Final = 512
"""One zone of a use: a tuple, a dict, and amounts that are not shared."""
_GROUP_BYTES: Final = 512
_NAME_BYTES: Final = 8
"""Names of nodes are those of the cluster's own objects."""
_ARRAY_BYTES: Final = 128


def bytes_of_text(text: str) -> int:
    """Return about how many bytes *text* takes."""
    return _TEXT_BYTES + len(text)


def bytes_of_use(use: ZoneUse | KubeletRejection | None) -> int:
    """Return about how many bytes a use of zones takes."""
    if use is None:
        return 0
    if isinstance(use, KubeletRejection):
        return 2 * _TEXT_BYTES + len(use.reason) + len(use.message)
    return _ZONE_BYTES * (1 + len(use))


class RefusedGroup(Struct, frozen=True, gc=False):
    """Nodes that refused the pod for the same reason.

    Attributes:
        nodes: how many.
        examples: names of the first few.
        refusal: the refusal as a value, with the numbers of the node that came closest.
        confirmed: whether the counts allowed it and only the final check, by the kubelet model,
            did not.
        hopeless: whether no eviction would help.
    """

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    examples: tuple[str, ...] = ()
    refusal: AlignmentRefusal | None = None
    confirmed: bool = False
    hopeless: bool = False

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        detail = self.refusal.detail if self.refusal is not None else ""
        texts = sum(map(len, self.reasons)) + len(detail)
        return _GROUP_BYTES + texts + _NAME_BYTES * len(self.examples)


class Candidates(Struct, frozen=True, gc=False):
    """The best of the nodes that could have taken the pod, in any order.

    Attributes:
        nodes: their names.
        totals: for each of them.
        plugins: who rated them.
        scores: of each plugin, weighted, for each of the nodes.
    """

    nodes: tuple[str, ...]
    totals: npt.NDArray[np.int64]
    plugins: tuple[str, ...]
    scores: Sequence[npt.NDArray[np.integer]]

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return _NOTE_BYTES + (_ARRAY_BYTES + 8 * len(self.nodes)) * (2 + len(self.plugins))


class Nominated(Struct, frozen=True, gc=False):
    """Where room is made for the pod, and whose."""

    node: str
    victims: tuple[str, ...]


class TriedNote(Struct, frozen=True, kw_only=True, gc=False):
    """The pod was tried on the nodes of the cluster.

    Attributes:
        seconds: how long deciding took.
        evaluated: nodes that were looked at.
        feasible: nodes that passed every filter.
        node: the chosen one; empty if there is none.
        groups: who refused it, and why.
        others: refusals that are not in ``groups``, of which there were too many.
        message: what was told to users.
        nominated: where room is being made.
        remembered: nothing had changed since a pod like this was refused; it was not tried again.
        unfinished: not every node was looked at; it is tried again soon.
        by: the call that asked, if another program decides.
    """

    at: float
    seconds: float
    evaluated: int = 0
    feasible: int = 0
    node: str = ""
    groups: tuple[RefusedGroup, ...] = ()
    others: int = 0
    candidates: Candidates | None = None
    message: str = ""
    nominated: Nominated | None = None
    remembered: bool = False
    unfinished: bool = False
    by: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        size = 2 * _NOTE_BYTES + len(self.message)
        for group in self.groups:
            size += group.size
        if self.candidates is not None:
            size += self.candidates.size
        if self.nominated is not None:
            size += _NOTE_BYTES + sum(map(bytes_of_text, self.nominated.victims))
        return size


class ReservedNote(Struct, frozen=True, gc=False):
    """The pod was booked on a node.

    Attributes:
        predicted: the zones that the kubelet is expected to give it; ``None`` without exact data.
        anywhere: NUMA nodes on which it may be, if that is all that is known.
    """

    at: float
    node: str
    predicted: ZoneUse | KubeletRejection | None = None
    anywhere: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_use(self.predicted) + _NAME_BYTES * len(self.anywhere)


class BoundNote(Struct, frozen=True, gc=False):
    """The API server accepted the binding."""

    at: float
    node: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES


class NotBoundNote(Struct, frozen=True, gc=False):
    """The pod was not bound after all, or the attempt failed for another reason."""

    at: float
    reason: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.reason)


class AdmittedNote(Struct, frozen=True, gc=False):
    """The kubelet took the pod."""

    at: float
    node: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES


class RejectedNote(Struct, frozen=True, gc=False):
    """The kubelet rejected the pod."""

    at: float
    node: str
    reason: str
    message: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.reason) + bytes_of_text(self.message)


class ObservedNote(Struct, frozen=True, gc=False):
    """A report of the node contains the pod for the first time, with the zones that it got."""

    at: float
    node: str
    zones: ZoneUse

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_use(self.zones)


class MispredictedNote(Struct, frozen=True, gc=False):
    """The pod got something else than was predicted: both views."""

    at: float
    node: str
    severity: MispredictionSeverity
    predicted: ZoneUse | KubeletRejection
    reported: ZoneUse | KubeletRejection

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_use(self.predicted) + bytes_of_use(self.reported)


class EndedNote(Struct, frozen=True, gc=False):
    """The pod has ended, or was deleted."""

    at: float
    how: str

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.how)


class ToldNote(Struct, frozen=True, gc=False):
    """Something else that is worth knowing, with its values."""

    at: float
    what: str
    values: Mapping[str, str | int]

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        texts = (bytes_of_text(str(value)) for value in self.values.values())
        return _NOTE_BYTES + bytes_of_text(self.what) + 64 * len(self.values) + sum(texts)


Note: TypeAlias = (
    TriedNote
    | ReservedNote
    | BoundNote
    | NotBoundNote
    | AdmittedNote
    | RejectedNote
    | ObservedNote
    | MispredictedNote
    | EndedNote
    | ToldNote
)


class FlightSubject(Struct, frozen=True, gc=False):
    """The pod that a flight is of."""

    uid: str
    namespace: str
    name: str
    scheduler: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Queued(Struct, frozen=True, gc=False):
    """Why an attempt was made.

    Attributes:
        at: when the pod came to the queue, or was woken.
        why: what brought it there.
    """

    at: float
    why: str = ""

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive."""
        return _NOTE_BYTES + bytes_of_text(self.why)


# ------------------------------------------------------------------------------------------------
# Keeps the notes of the last attempts of each pod, within a limit of bytes.

MEMORY_BYTES: Final = 32 << 20
ATTEMPTS: Final = 10
"""Attempts that are kept of each pod."""
_NOTES: Final = 64
"""Notes of one attempt; more than a handful come only if something goes round in circles."""
_FLIGHT_BYTES: Final = 1024
_ATTEMPT_BYTES: Final = 512


@dataclass(slots=True)
class RecordedAttempt:
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

    subject: FlightSubject
    first_at: float
    attempts: list[RecordedAttempt] = field(default_factory=list)
    count: int = 0
    size: int = 0

    @property
    def last(self) -> RecordedAttempt | None:
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

    def begin(self, subject: FlightSubject, queued: Queued, *, number: int = 0) -> None:
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
        attempt = RecordedAttempt(flight.count, queued)
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
