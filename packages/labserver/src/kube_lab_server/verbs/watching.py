"""Watches: a stream of the changes of a collection.

A watch first sends what is asked of the past (the present state, or the changes since a version),
then every change as it happens. What a selector does not select is not seen: an object that begins
to match is ``ADDED``, one that ceases to match is ``DELETED``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import msgspec

from kube_lab_server.handling.call import StreamedAnswer
from kube_lab_server.handling.object_views import EventView, event_text, included
from kube_lab_server.store.store import ChangeType, StoreChange, Stored, VersionCompacted
from kube_lab_server.verbs.reading import Selection, parse_version, selection_of
from kube_lab_server.wire.negotiation import STREAM_TYPES
from kube_lab_server.wire.refusals import expired, internal_error, not_acceptable
from kube_lab_server.wire.request_options import ListOptions, list_options

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from kube_lab_server.handling.call import Call, ServerState

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
DEFAULT_TIMEOUT: Final = 1800.0
"""A watch without timeout lasts between once and twice this many seconds."""

BOOKMARK_INTERVAL: Final = 60.0
BOOKMARK_BEFORE_END: Final = 2.0
"""A watch that ends gets a last bookmark this many seconds before."""

MAX_EVENTS_AT_ONCE: Final = 500
"""How many events are written together: enough to be quick, few enough to spare memory."""

MAX_BACKLOG: Final = 20_000
"""How many events a client may lag behind before its watch is ended."""


def watch(state: ServerState, call: Call) -> StreamedAnswer:
    """Handle the watch of a collection."""
    options = list_options(call.query, watch=True)
    selection = selection_of(call, options)
    version = parse_version(options.resource_version)
    included(call)
    if call.representation.yaml:
        known = ", ".join(STREAM_TYPES)
        raise not_acceptable(f"only the following media types are accepted: {known}")
    feed = Feed(selection, call.namespace, EventView(call))
    feed.begin(state, call, options, version)
    if options.timeout_seconds is not None and options.timeout_seconds < 0:
        feed.overdue()
    # From here on no change may be missed, although the client does not read yet.
    stop = state.store.subscribe(call.resource.shelf, feed.put)
    state.feeds.add(call.resource.shelf, feed)

    def release() -> None:
        stop()
        state.feeds.discard(call.resource.shelf, feed)

    return StreamedAnswer(_Chunks(_events(state, options, feed), release))


class _Chunks:
    """The events of a watch; closing it ends the watch, also one that was never read."""

    def __init__(self, events: AsyncGenerator[bytes, None], release: Callable[[], None]) -> None:
        self._events = events
        self._release = release

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._events)

    async def aclose(self) -> None:
        """End the watch."""
        try:
            await self._events.aclose()
        finally:
            self._release()


@dataclass
class Feed:
    """The events of a watch that have not been sent yet.

    Attributes:
        version: the version up to which everything has been put in.
        since: the version up to which the client wants to hear nothing; it may lie in the future.
        ended: no more events will come.
    """

    selection: Selection
    namespace: str
    view: EventView
    pending: deque[bytes] = field(default_factory=deque)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    version: int = 0
    since: int = 0
    ended: bool = False
    annotate_bookmark: bool = False

    def begin(self, state: ServerState, call: Call, options: ListOptions, version: int) -> None:
        """Put in what is asked of the past."""
        self.version = state.store.version
        self.since = version
        if options.send_initial_events or (version == 0 and options.send_initial_events is None):
            for stored in state.store.listed(call.resource.shelf, self.namespace):
                self._add(ChangeType.ADDED, stored)
            self.annotate_bookmark = options.bookmarks
            if options.send_initial_events and options.bookmarks:
                self.bookmark()
            return
        if version == 0:
            return
        self.catch_up(state, call.resource.shelf, version)

    def catch_up(self, state: ServerState, shelf: str, version: int) -> None:
        """Put in what happened since *version*."""
        changes = state.store.changes_since(shelf, version)
        if isinstance(changes, VersionCompacted):
            self._expire(version, changes.oldest)
            return
        for change in changes:
            self.put(change)

    def put(self, change: StoreChange) -> None:
        """Put in what *change* means to this watch."""
        self.version = max(self.version, change.version)
        if change.version <= self.since:
            return
        if self.namespace and change.now.key.namespace != self.namespace:
            return
        if len(self.pending) >= MAX_BACKLOG:
            self.end()
            return
        selects = self.selection
        after = change.type is not ChangeType.DELETED and selects.matches(change.now)
        before = change.before is not None and selects.matches(change.before)
        if after:
            self._emit(ChangeType.MODIFIED if before else ChangeType.ADDED, change.now)
        elif before and change.before is not None:
            self._emit(ChangeType.DELETED, _last_seen(change, change.before))

    def bookmark(self) -> None:
        """Put in a bookmark of the present version."""
        annotated, self.annotate_bookmark = self.annotate_bookmark, False
        annotations = {INITIAL_EVENTS_END: "true"} if annotated else None
        self._push(self.view.bookmark(self.version, annotations))

    def end(self) -> None:
        """Let the watch end after what is pending."""
        self.ended = True
        self.ready.set()

    def take(self) -> bytes:
        """Return what is pending, or the first part of it if that is a lot."""
        count = min(len(self.pending), MAX_EVENTS_AT_ONCE)
        text = b"".join([self.pending.popleft() for _ in range(count)])
        if not self.pending:
            self.ready.clear()
        return text

    def _add(self, kind: ChangeType, stored: Stored) -> None:
        if self.selection.matches(stored):
            self._emit(kind, stored)

    def _emit(self, kind: ChangeType, stored: Stored) -> None:
        text = self.view.event(kind, stored)
        if text is None:
            self.end()
        else:
            self._push(text)

    def overdue(self) -> None:
        """Tell a client that asked for a watch which is over before it begins."""
        self.pending.clear()
        status = internal_error("").status
        status["message"] = "context deadline exceeded"
        del status["details"]
        self._push(event_text("ERROR", msgspec.json.encode(status)))
        self.end()

    def _push(self, text: bytes) -> None:
        self.pending.append(text)
        self.ready.set()

    def _expire(self, version: int, oldest: int) -> None:
        status = expired(f"too old resource version: {version} ({oldest})").status
        self._push(event_text("ERROR", msgspec.json.encode(status)))
        self.end()


def _last_seen(change: StoreChange, before: Stored) -> Stored:
    """Return the object that a DELETED event shows: as it last matched, at the new version."""
    if change.type is ChangeType.DELETED:
        return change.now
    metadata = {**before.obj["metadata"], "resourceVersion": str(change.version)}
    return Stored(before.key, {**before.obj, "metadata": metadata}, change.version, before.form)


async def _events(
    state: ServerState, options: ListOptions, feed: Feed
) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    timeout = options.timeout_seconds or DEFAULT_TIMEOUT * (1 + state.rng.random())
    deadline = loop.time() + timeout
    bookmark_at = _next_bookmark(loop.time(), deadline) if options.bookmarks else deadline
    with contextlib.closing(_Alarm(feed.ready)) as alarm:
        while True:
            while feed.pending:
                yield feed.take()
            if feed.ended or loop.time() >= deadline:
                return
            if options.bookmarks and loop.time() >= bookmark_at:
                feed.version = state.store.version
                feed.bookmark()
                bookmark_at = _next_bookmark(loop.time(), deadline)
                continue
            alarm.set_for(min(bookmark_at, deadline))
            await feed.ready.wait()


class _Alarm:
    """Sets *ready* at a time; a timer for every wait would cost more than most events do."""

    def __init__(self, ready: asyncio.Event) -> None:
        self._ready = ready
        self._timer: asyncio.TimerHandle | None = None

    def set_for(self, when: float) -> None:
        """Ring at *when*, unless it is set for an earlier time and has not rung yet."""
        self._ready.clear()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(when, self._ring)

    def close(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        self._ready.set()


def _next_bookmark(now: float, deadline: float) -> float:
    last = deadline - BOOKMARK_BEFORE_END
    return min(now + BOOKMARK_INTERVAL, last) if now < last else deadline + 1
