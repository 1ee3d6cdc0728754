"""Which events to write, which to count up and which to leave out: client-go's rules.

* The same event again (same source, object, type, reason and message) raises the count of the one
  that was written.
* More than nine different messages of the same kind within ten minutes are combined into one event
  whose message is the last one.
* One source may write 25 events about one object at once, and then one every five minutes.

Decisions only; `numakube.kube.event_recorder` carries them out.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from numakube.kube.clock import TokenBucket

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from numakube.api.meta import ObjectReference
    from numakube.kube.clock import Clock

CACHE_ENTRIES = 4096
MAX_DIFFERENT_MESSAGES = 10
COMBINING_SECONDS = 600.0
SPAM_BURST = 25
SPAM_RATE = 1 / 300
COMBINED = "(combined from similar events): "

# An object's name has at most 253 characters, and an event's name adds a time to it.
_LONGEST_NAME = 253 - 17

V = TypeVar("V")

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Something that happened to an object."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    action: str = ""
    related: ObjectReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event as it stands, or should stand, on the server.

    Attributes:
        key: what another occurrence must have in common with it to be counted with it.
    """

    key: Key = field(repr=False)
    name: str
    namespace: str
    occurrence: Occurrence
    count: int
    first: datetime
    last: datetime

    @property
    def is_new(self) -> bool:
        """Whether it has not been written before."""
        return self.count == 1


class Correlator:
    """Remembers what was recorded and decides about what comes."""

    def __init__(self, *, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._recorded: _Cache[Recorded] = _Cache()
        self._similar: _Cache[_Similar] = _Cache()
        self._budgets: _Cache[TokenBucket] = _Cache()

    def decide(self, occurrence: Occurrence, at: datetime | None = None) -> Recorded | None:
        """Return the event to create or to bring up to date, or None to leave it out.

        It happened *at* that time, or just now.
        """
        combined, key = self._combine(occurrence)
        recorded = self._count(combined, key, at or self._clock.now())
        return recorded if self._within_budget(occurrence) else None

    def rename(self, recorded: Recorded) -> Recorded:
        """Return *recorded* under another name, because its own is taken."""
        renamed = replace(recorded, name=self._name(recorded.occurrence.about))
        self._recorded.put(recorded.key, renamed)
        return renamed

    def _combine(self, occurrence: Occurrence) -> tuple[Occurrence, Key]:
        group = (*_identity(occurrence.about), occurrence.type, occurrence.reason)
        now = self._clock.monotonic()
        similar = self._similar.get(group)
        if similar is None or now - similar.last > COMBINING_SECONDS:
            similar = _Similar(set(), now)
        similar.messages.add(occurrence.message)
        similar.last = now
        self._similar.put(group, similar)
        if len(similar.messages) < MAX_DIFFERENT_MESSAGES:
            return occurrence, (*group, occurrence.about.field_path, occurrence.message)
        similar.messages.pop()
        return replace(occurrence, message=COMBINED + occurrence.message), group

    def _count(self, occurrence: Occurrence, key: Key, now: datetime) -> Recorded:
        known = self._recorded.get(key)
        if known is None:
            about = occurrence.about
            recorded = Recorded(
                key=key,
                name=self._name(about),
                namespace=about.namespace or "default",
                occurrence=occurrence,
                count=1,
                first=now,
                last=now,
            )
        else:
            recorded = replace(known, occurrence=occurrence, count=known.count + 1, last=now)
        self._recorded.put(key, recorded)
        return recorded

    def _within_budget(self, occurrence: Occurrence) -> bool:
        key = (*_identity(occurrence.about), occurrence.type)
        budget = self._budgets.get(key)
        if budget is None:
            budget = TokenBucket(rate=SPAM_RATE, burst=SPAM_BURST, clock=self._clock)
        self._budgets.put(key, budget)
        return budget.try_take()

    def _name(self, about: ObjectReference) -> str:
        """Return a name as client-go makes them: the object's, and the time in nanoseconds."""
        nanoseconds = int(self._clock.now().timestamp() * 1e6) * 1000 + self._rng.randrange(1000)
        return f"{about.name[:_LONGEST_NAME]}.{nanoseconds:x}"


def _identity(about: ObjectReference) -> Key:
    """Return what makes *about* the same object; its state does not matter."""
    return (about.api_version, about.kind, about.namespace, about.name, about.uid)


@dataclass(slots=True)
class _Similar:
    """The different messages of similar events, and when the last one came."""

    messages: set[str]
    last: float


class _Cache(Generic[V]):
    """The entries used last."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, V] = OrderedDict()

    def get(self, key: Key) -> V | None:
        return self._entries.get(key)

    def put(self, key: Key, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > CACHE_ENTRIES:
            self._entries.popitem(last=False)
