"""Record events about objects, as ``kubectl describe`` and ``kubectl events`` show them.

Recording never waits and never fails: an occurrence is put into a bounded queue, and when that is
full because the server is away, it is dropped and counted. `EventRecorder.run` writes the events,
in the form of core/v1 or of events.k8s.io/v1, repeated ones by raising a count. Events can give way
to requests that matter more; they have the time of what they tell about all the same. While many
wait, twice as many are written at once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import structlog

from numakube.api.meta import (
    CoreEvent,
    Event,
    EventSeries,
    EventSource,
    ObjectMeta,
    ObjectReference,
)
from numakube.errors import AlreadyExists, ApiError, ClusterUnreachable, NotFound, NumakubeError
from numakube.kube.catalog import CORE_EVENTS, EVENTS
from numakube.kube.client import merge_patch
from numakube.kube.clock import TokenBucket
from numakube.values.safe_text import printable, without_secrets
from numakube.values.times import format_micro_time, format_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from random import Random

    from numakube.kube.client import Client
    from numakube.kube.clock import Clock
    from numakube.kube.resource_types import KubeObject, Resource


# Which events to write, which to count up and which to leave out: client-go's rules.
#
# * The same event again (same source, object, type, reason and message) raises the count of the
#   one that was written.
# * More than nine different messages of the same kind within ten minutes are combined into one
#   event whose message is the last one.
# * One source may write 25 events about one object at once, and then one every five minutes.


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
class RecordedEvent:
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
        self._recorded: _RecentEntries[RecordedEvent] = _RecentEntries()
        self._similar: _RecentEntries[_Similar] = _RecentEntries()
        self._budgets: _RecentEntries[TokenBucket] = _RecentEntries()

    def decide(self, occurrence: Occurrence, at: datetime | None = None) -> RecordedEvent | None:
        """Return the event to create or to bring up to date, or None to leave it out.

        It happened *at* that time, or just now.
        """
        combined, key = self._combine(occurrence)
        recorded = self._count(combined, key, at or self._clock.now())
        return recorded if self._within_budget(occurrence) else None

    def rename(self, recorded: RecordedEvent) -> RecordedEvent:
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

    def _count(self, occurrence: Occurrence, key: Key, now: datetime) -> RecordedEvent:
        known = self._recorded.get(key)
        if known is None:
            about = occurrence.about
            recorded = RecordedEvent(
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


class _RecentEntries(Generic[V]):
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


CAPACITY = 1000
"""Occurrences that wait to be written; client-go's figure."""

ATTEMPTS = 12
"""How often an event is tried while the server is away; client-go's figure."""

RETRY_SECONDS = 10.0
"""How long apart; client-go's figure."""

MOST_HELD = 1000
"""Occurrences that give way to other requests; with more they are written all the same, and faster.
"""

MOST_HELD_SECONDS = 5.0
"""How long they give way."""

_LOOK_SECONDS = 0.05
_SERVER_ERROR = 500
# Limits of events.k8s.io/v1.
_LONGEST_NOTE = 1024
_LONGEST_WORD = 128

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class EventRecorder:
    """Records events of one component.

    Attributes:
        dropped: occurrences that were lost because the queue was full or the server refused.
    """

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str,
        form: Literal["core", "events"] = "core",
        capacity: int = CAPACITY,
        writers: int = 1,
        gives_way: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare a recorder; `run` it in a task of its own.

        Args:
            client: where to write; its clock and random source are used.
            component: who reports, such as ``numakube-scheduler``.
            instance: which one of them, such as the pod's or the node's name.
            form: core/v1, which every tool shows, or events.k8s.io/v1.
            capacity: how many occurrences may wait.
            writers: how many are written at once; events of one object may then overtake.
            gives_way: whether more urgent requests are under way for now.
        """
        self.dropped = 0
        self._client = client
        self._component = component
        self._instance = instance
        self._form = form
        self._capacity = capacity
        self._writers = writers
        self._gives_way = gives_way
        self._waiting: asyncio.Queue[tuple[Occurrence, datetime]] = asyncio.Queue()
        self._many_wait = asyncio.Event()
        self._correlator = Correlator(clock=client.clock, rng=client.rng)

    def normal(
        self, about: ObjectReference, reason: str, message: str, *, action: str = ""
    ) -> None:
        """Record that something happened as it should."""
        self.record(
            Occurrence(
                about=about, type="Normal", reason=reason, message=_told(message), action=action
            )
        )

    def warning(
        self, about: ObjectReference, reason: str, message: str, *, action: str = ""
    ) -> None:
        """Record that something may need attention."""
        self.record(
            Occurrence(
                about=about, type="Warning", reason=reason, message=_told(message), action=action
            )
        )

    def record(self, occurrence: Occurrence) -> None:
        """Record *occurrence*; returns at once and never fails."""
        if self._waiting.qsize() >= self._capacity:
            self._overflow(occurrence)
        else:
            self._waiting.put_nowait((occurrence, self._client.clock.now()))
            if self._waiting.qsize() > MOST_HELD:
                self._many_wait.set()

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._writers):
                tasks.create_task(self._write_all())
                tasks.create_task(self._help_while_many_wait())

    async def _write_all(self) -> None:
        while True:
            await self._write_next()

    async def _help_while_many_wait(self) -> None:
        while await self._many_wait.wait():
            while self._waiting.qsize() > MOST_HELD // 2:
                await self._write_next()
            self._many_wait.clear()

    async def _write_next(self) -> None:
        occurrence, at = await self._waiting.get()
        try:
            while self._gives_way() and self._may_wait(at):
                await self._client.clock.sleep(_LOOK_SECONDS)
            recorded = self._correlator.decide(occurrence, at)
            if recorded is not None:
                await self._write_patiently(recorded)
        finally:
            self._waiting.task_done()

    def _may_wait(self, at: datetime) -> bool:
        held = self._client.clock.now() - at
        return self._waiting.qsize() < MOST_HELD and held.total_seconds() < MOST_HELD_SECONDS

    async def flush(self) -> None:
        """Return as soon as everything recorded so far is written; bound it with a timeout."""
        await self._waiting.join()

    async def _write_patiently(self, recorded: RecordedEvent) -> None:
        """Write *recorded*, waiting for a server that is away; give up on one that refuses.

        A write without an answer may have had its effect: the name is taken by the event itself.
        """
        unanswered = False
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._write(recorded)
            except AlreadyExists:
                if unanswered:
                    return
                recorded = self._correlator.rename(recorded)
            except (ApiError, ClusterUnreachable) as exc:
                unanswered = True
                if isinstance(exc, ApiError) and exc.code < _SERVER_ERROR:
                    self._drop(recorded.occurrence, str(exc))
                    return
                _log.warning("event_not_written", error=str(exc), attempt=attempt)
                # The first wait is spread, so that all components do not come back together.
                spread = self._client.rng.random() if attempt == 1 else 1.0
                await self._client.clock.sleep(RETRY_SECONDS * spread)
            except NumakubeError as exc:
                self._drop(recorded.occurrence, str(exc))
                return
            else:
                return
        self._drop(recorded.occurrence, "the server was away for too long")

    async def _write(self, recorded: RecordedEvent) -> None:
        if recorded.is_new:
            await self._create(recorded)
            return
        try:
            await self._count_up(recorded)
        except NotFound:
            # The server forgets events after an hour.
            await self._create(recorded)

    async def _create(self, recorded: RecordedEvent) -> None:
        if self._form == "core":
            await self._client.create(CORE_EVENTS, self._core_event(recorded))
        else:
            await self._client.create(EVENTS, self._event(recorded))

    async def _count_up(self, recorded: RecordedEvent) -> None:
        if self._form == "core":
            change: dict[str, object] = {
                "count": recorded.count,
                "lastTimestamp": format_time(recorded.last),
                "message": recorded.occurrence.message,
            }
            await self._client.patch(
                CORE_EVENTS, recorded.name, merge_patch(change), namespace=recorded.namespace
            )
        else:
            series = {"series": _series(recorded)}
            await self._client.patch(
                EVENTS, recorded.name, merge_patch(series), namespace=recorded.namespace
            )

    def _core_event(self, recorded: RecordedEvent) -> CoreEvent:
        occurrence = recorded.occurrence
        return CoreEvent(
            metadata=ObjectMeta(name=recorded.name, namespace=recorded.namespace),
            involved_object=occurrence.about,
            reason=occurrence.reason,
            message=occurrence.message,
            type=occurrence.type,
            source=EventSource(component=self._component, host=self._instance),
            first_timestamp=format_time(recorded.first),
            last_timestamp=format_time(recorded.last),
            count=recorded.count,
            action=occurrence.action,
            related=occurrence.related,
            reporting_component=self._component,
            reporting_instance=self._instance,
        )

    def _event(self, recorded: RecordedEvent) -> Event:
        occurrence = recorded.occurrence
        return Event(
            metadata=ObjectMeta(name=recorded.name, namespace=recorded.namespace),
            event_time=format_micro_time(recorded.first),
            reporting_controller=self._component,
            reporting_instance=self._instance[:_LONGEST_WORD],
            action=(occurrence.action or occurrence.reason)[:_LONGEST_WORD],
            reason=occurrence.reason[:_LONGEST_WORD],
            regarding=occurrence.about,
            related=occurrence.related,
            note=_shortened(occurrence.message),
            type=occurrence.type,
            series=None if recorded.is_new else _series(recorded),
        )

    def _overflow(self, occurrence: Occurrence) -> None:
        """Drop *occurrence*; a burst is logged once, not event by event."""
        if self.dropped % self._capacity == 0:
            self._drop(occurrence, f"more than {self._capacity} events wait to be written")
        else:
            self.dropped += 1

    def _drop(self, occurrence: Occurrence, why: str) -> None:
        self.dropped += 1
        about = occurrence.about
        _log.warning(
            "event_dropped",
            about=f"{about.kind} {about.namespace}/{about.name}",
            reason=occurrence.reason,
            error=why,
        )


def reference_to(resource: Resource[Any], obj: KubeObject) -> ObjectReference:
    """Return the reference with which an event names *obj*."""
    metadata = obj.metadata
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _series(recorded: RecordedEvent) -> EventSeries:
    return EventSeries(count=recorded.count, last_observed_time=format_micro_time(recorded.last))


def _told(message: str) -> str:
    """Return *message* as it can be shown wherever people read events."""
    return printable(without_secrets(message))


def _shortened(note: str) -> str:
    """Return *note* cut to what the server accepts, counted in bytes."""
    encoded = note.encode()
    if len(encoded) <= _LONGEST_NOTE:
        return note
    return encoded[: _LONGEST_NOTE - 3].decode(errors="ignore") + "..."
