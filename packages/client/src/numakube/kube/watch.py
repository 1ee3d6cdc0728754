"""A watch: the changes of a collection, from a resource version on, as the server sends them.

Lines are split here, on bytes: aiohttp's own line reader gives up at half a megabyte, and a chunk
may end anywhere, inside a UTF-8 character too. What an event carries depends on its type (an ERROR
carries a ``Status``, a BOOKMARK little more than a resource version), so decoding takes two steps.
An ERROR is raised as the exception that the same refusal over HTTP would be: a 410 is `Expired`
either way.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar, cast

import msgspec
import structlog

from numakube.api.codec import Wire
from numakube.errors import MalformedObject
from numakube.kube.client import Client, given
from numakube.kube.connection.transport import Request, Stream
from numakube.kube.decode import (
    UNREADABLE,
    Codec,
    Malformed,
    ServerStatus,
    codec_of,
    error_from_status,
)
from numakube.kube.resource_types import Resource

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events."""

IDLE_SECONDS = 150.0
"""Silence after which a watch is taken for dead. Servers send bookmarks about once a minute."""

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ObjectEvent(Generic[T]):
    """An object came, changed or went; for one that went, its last state."""

    type: EventType
    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing changed up to this resource version, beyond what was sent.

    Attributes:
        resource_version: where a watch may go on.
        ends_initial_events: all objects that existed at the start have been sent.
    """

    resource_version: str
    ends_initial_events: bool = False


@dataclass(frozen=True, slots=True)
class GarbledEvent:
    """An event about an object whose shape is wrong."""

    type: EventType
    malformed: Malformed


WatchEvent: TypeAlias = ObjectEvent[T] | Bookmark | GarbledEvent


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _BookmarkMeta(Wire, frozen=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _BookmarkObject(Wire, frozen=True):
    metadata: _BookmarkMeta = _BookmarkMeta()


class LineSplitter:
    """Cuts a stream of bytes into lines of any length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that *chunk* completes; empty ones are left out."""
        first, newline, rest = chunk.partition(b"\n")
        self._parts.append(first)
        if not newline:
            return []
        *lines, unfinished = rest.split(b"\n")
        complete = [b"".join(self._parts), *lines]
        self._parts = [unfinished]
        return [line for line in complete if line and not line.isspace()]

    def rest(self) -> bytes:
        """Return what has no end yet."""
        return b"".join(self._parts)


class Watch(Generic[T]):
    """An open watch; iterate over it, or over its batches."""

    def __init__(self, stream: Stream, decoder: "EventDecoder[T]") -> None:
        self._stream = stream
        self._decoder = decoder

    async def batches(self) -> AsyncGenerator[list[WatchEvent[T]], None]:
        """Yield the events in groups, as they arrive together, until the server ends the watch.

        Raises:
            Expired: the resource version is too old; list again.
            ApiError: the server ended the watch for another reason.
            ClusterUnreachable: the connection broke.
        """
        splitter = LineSplitter()
        async with contextlib.aclosing(self._stream.chunks()) as chunks:
            async for chunk in chunks:
                lines = splitter.feed(chunk)
                if lines:
                    yield self._decoder.decode(lines)
        last = splitter.rest()
        if last.rstrip().endswith(b"}"):
            yield self._decoder.decode([last])

    async def __aiter__(self) -> AsyncIterator[WatchEvent[T]]:
        async with contextlib.aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event


@contextlib.asynccontextmanager
async def open_watch(
    client: Client,
    resource: Resource[T],
    *,
    since: str = "",
    namespace: str = "",
    labels: str = "",
    fields: str = "",
    initial_events: bool = False,
    timeout_seconds: int | None = None,
    idle_seconds: float | None = IDLE_SECONDS,
) -> AsyncIterator[Watch[T]]:
    """Open a watch; leaving the context ends it.

    Args:
        client: where.
        resource: what.
        since: the resource version after which changes are wanted.
        namespace: the namespace; empty means all.
        labels: a label selector.
        fields: a field selector.
        initial_events: first send all that exists, then a bookmark that says so.
        timeout_seconds: when the server is to end the watch.
        idle_seconds: silence after which the watch is taken for dead.
    """
    query = [
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("labelSelector", labels),
        ("fieldSelector", fields),
        ("resourceVersion", since),
        ("timeoutSeconds", "" if timeout_seconds is None else str(timeout_seconds)),
    ]
    if initial_events:
        query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
    request = Request(
        method="GET",
        path=resource.collection_path(namespace=namespace),
        query=given(query),
        compress=False,
        timeout=None,
        idle_timeout=idle_seconds,
    )
    async with client.stream(request) as stream:
        yield Watch(stream, EventDecoder(resource, str(request)))


class EventDecoder(Generic[T]):
    """Decodes the lines of a watch."""

    def __init__(self, resource: Resource[T], request: str) -> None:
        self._codec: Codec[T] = codec_of(resource.object_type)
        self._kind = resource.kind
        self._request = request

    def decode(self, lines: Iterable[bytes]) -> list[WatchEvent[T]]:
        """Return the events in *lines*, or raise the error that one of them is.

        The events before an error are lost with it; what follows an error is a new list or a watch
        from the last version seen, either of which gives them again.
        """
        events = (self._event(line) for line in lines)
        return [event for event in events if event is not None]

    def _event(self, line: bytes) -> WatchEvent[T] | None:
        try:
            event = _events.decode(line)
        except UNREADABLE as exc:
            raise MalformedObject(f"{self._request}: watch event", str(exc)) from exc
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                return self._object_event(event)
            case "BOOKMARK":
                return _bookmark(event.object)
            case "ERROR":
                raise error_from_status(_status(event.object), request=self._request)
            case unknown:
                _log.warning("unknown_watch_event", type=unknown, request=self._request)
                return None

    def _object_event(self, event: _Event) -> WatchEvent[T]:
        kind = cast("EventType", event.type)
        found = self._codec.one_or_malformed(event.object, kind=self._kind)
        return (
            GarbledEvent(kind, found) if isinstance(found, Malformed) else ObjectEvent(kind, found)
        )


def _bookmark(raw: msgspec.Raw) -> Bookmark:
    try:
        metadata = _bookmarks.decode(raw).metadata
    except UNREADABLE as exc:
        raise MalformedObject("BOOKMARK of a watch", str(exc)) from exc
    ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return Bookmark(metadata.resource_version, ends)


def _status(raw: msgspec.Raw) -> ServerStatus:
    try:
        return _statuses.decode(raw)
    except UNREADABLE as exc:
        raise MalformedObject("ERROR of a watch", str(exc)) from exc


_events = msgspec.json.Decoder(_Event)
_bookmarks = msgspec.json.Decoder(_BookmarkObject)
_statuses = msgspec.json.Decoder(ServerStatus)
