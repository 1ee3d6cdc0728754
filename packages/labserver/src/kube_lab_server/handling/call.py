"""A request and its answer, free of any HTTP library.

What all requests share: the store, the resources, the clock and the source of chance.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from kube_lab_server.catalogue.served_resources import OpenApi, from_stored, is_converted, to_stored
from kube_lab_server.store.store import Key, NotKept
from kube_lab_server.wire.negotiation import JSON_TYPE, PLAIN, Representation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
    from random import Random

    from multidict import MultiMapping

    from kube_lab_server.access.authentication import Signer, TokenAuthenticator, User
    from kube_lab_server.access.authorization import Authorizer
    from kube_lab_server.catalogue.resource_rules import Rules
    from kube_lab_server.catalogue.resources import VersionedResource
    from kube_lab_server.catalogue.served_resources import Registry, Served
    from kube_lab_server.kind_names import GVK, Json
    from kube_lab_server.store.store import Stored, VersionedStore
    from kube_lab_server.wire.request_options import RequestInfo
    from numakube.api.kubelet_config import KubeletConfiguration


def _epoch() -> datetime:
    return datetime.fromtimestamp(0, UTC)


@dataclass
class Call:
    """A request whose sender is known.

    Attributes:
        warnings: what the answer's Warning headers will say.
        now: tells the time; set by the router. A watch is answered for as long as it lasts.
        resource: the resource that the request is about; only for requests that are about one.
        rules: the rules of the resource's kind.
    """

    method: str
    info: RequestInfo
    query: MultiMapping[str]
    headers: Mapping[str, str]
    body: bytes
    user: User
    served: Served | None = None
    representation: Representation = PLAIN
    warnings: list[str] = field(default_factory=list)
    now: Callable[[], datetime] = _epoch
    resource: VersionedResource = field(init=False, repr=False)
    rules: Rules = field(init=False, repr=False)

    def serve(self, served: Served) -> None:
        """Note what the request is about."""
        self.served, self.resource, self.rules = served, served.resource, served.rules

    @property
    def namespace(self) -> str:
        """The namespace that objects of this request are in; empty for cluster-wide ones."""
        return self.info.namespace if self.resource.namespaced else ""

    def read(self, stored: Stored) -> Json:
        """Return a stored object as one of the request's kind and version."""
        if not self.resource.custom:
            return from_stored(self.resource, stored.obj)
        named = {**stored.obj, "apiVersion": self.resource.kind.api_version}
        return named if stored.form is self.rules else self.rules.complete(named)

    def write(self, obj: Json) -> tuple[Json, object]:
        """Return an object of the request's kind and version as it is stored, and its form."""
        if not self.resource.custom:
            return to_stored(self.resource, obj), None
        named = {**obj, "apiVersion": self.resource.stored_as.api_version}
        stored_by = self.served.stored_by if self.served else None
        if stored_by is None:
            return named, self.rules
        # What the version of storage does not know is lost before anybody can read it.
        return stored_by.complete(named), stored_by

    def shown(self, stored: Stored, *, bare: bool = False) -> Json:
        """Return a stored object in the version of the request; *bare* without its kind."""
        converted = self.read(stored)
        named = {} if bare else self.named()
        rest = {k: v for k, v in converted.items() if k not in ("kind", "apiVersion")}
        return {**named, **rest}

    def encoded(self, stored: Stored, *, bare: bool = False) -> bytes:
        """Return the JSON text of `shown`, made once for each stored version of an object."""
        tail = stored.tail(self.form, lambda: self.read(stored))
        return b"{" + tail if bare else _opening(self.resource.kind) + tail

    @property
    def form(self) -> object:
        """What the request's version of an object is written in; None if that is as stored."""
        return self.rules if self.resource.custom or is_converted(self.resource) else None

    def named(self) -> Json:
        """Return the kind and version of the request's objects."""
        return {"kind": self.resource.kind.kind, "apiVersion": self.resource.kind.api_version}

    @property
    def user_agent_manager(self) -> str:
        """The field manager of a client that names none: its program's name."""
        return self.headers.get("User-Agent", "").split("/", 1)[0][:128]


@lru_cache(maxsize=1024)
def _opening(kind: GVK) -> bytes:
    """Return how the text of an object of *kind* begins."""
    named = {"kind": kind.kind, "apiVersion": kind.api_version}
    return msgspec.json.encode(named)[:-1] + b","


@dataclass
class Reply:
    """An answer."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict)


class Chunks(Protocol):
    """Parts of an answer; the consumer closes them in the end."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None:
        """Let the source stop."""
        ...


@dataclass
class StreamedAnswer:
    """An answer that goes on: chunks until the source ends."""

    chunks: Chunks
    content_type: str = JSON_TYPE


@dataclass
class Awaited:
    """An answer that comes from elsewhere; only proxies have to wait for one."""

    reply: Awaitable[Reply]


def json_reply(status: int, document: Json, headers: dict[str, str] | None = None) -> Reply:
    """Return an answer of *document* in JSON."""
    return Reply(status, msgspec.json.encode(document), headers=headers or {})


def text_reply(status: int, text: str) -> Reply:
    """Return an answer of plain text."""
    return Reply(status, text.encode(), "text/plain; charset=utf-8")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a container's output is wanted."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: str | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class LogSource(Protocol):
    """Something that keeps what containers print."""

    def open_log(self, pod: Json, options: LogOptions) -> AsyncGenerator[bytes, None] | None:
        """Return the output of a container of *pod*; None if it is not kept here."""
        ...


class OpenWatch(Protocol):
    """A watch that can be ended."""

    def end(self) -> None:
        """Let the client have no more events."""
        ...


class Feeds:
    """The watches that are open, by the shelf they look at."""

    def __init__(self) -> None:
        self._open: dict[str, set[int]] = {}
        self._feeds: dict[int, OpenWatch] = {}

    @property
    def count(self) -> int:
        """How many watches are open."""
        return len(self._feeds)

    def add(self, shelf: str, feed: OpenWatch) -> None:
        """Take note of an open watch."""
        self._open.setdefault(shelf, set()).add(id(feed))
        self._feeds[id(feed)] = feed

    def discard(self, shelf: str, feed: OpenWatch) -> None:
        """Forget a watch."""
        self._open.get(shelf, set()).discard(id(feed))
        self._feeds.pop(id(feed), None)

    def end(self, shelf: str | None = None) -> None:
        """End the watches of *shelf*, or all."""
        numbers = self._feeds if shelf is None else self._open.get(shelf, set())
        for number in list(numbers):
            self._feeds[number].end()


async def _nothing_to_wait_for() -> None:
    """Changes that are kept in memory are where they will ever be."""


@dataclass
class ServerState:
    """The parts of a server that handlers work with."""

    store: VersionedStore
    registry: Registry
    authenticator: TokenAuthenticator
    authorizer: Authorizer
    signer: Signer
    now: Callable[[], datetime]
    rng: Random
    address: str = ""
    openapi: OpenApi = field(default_factory=OpenApi)
    feeds: Feeds = field(default_factory=Feeds)
    logs: list[LogSource] = field(default_factory=list)
    """Sources of the output of containers; asked in turn."""
    kubelet_configs: list[Callable[[str], KubeletConfiguration | None]] = field(
        default_factory=list
    )
    """Sources of the configuration of a node's kubelet; asked in turn."""
    pod_servers: list[Callable[[str, int], str]] = field(default_factory=list)
    """Sources of the URL at which a port of a pod, given by its uid, is served; asked in turn."""
    settled: Callable[[], Awaitable[None]] = _nothing_to_wait_for
    """Waits until every change so far is where it survives a restart, if there is such a place."""
    is_settled: Callable[[], bool] = lambda: True
    """Tells whether there is nothing to wait for."""
    cannot_keep: Callable[[], bool] = lambda: False
    """Tells whether changes cannot be kept now."""
    after_request: list[Callable[[], None]] = field(default_factory=list)
    """Called after each request, for what follows from it."""

    async def shown(self) -> None:
        """Wait until what a reader is told is kept; one that cannot be kept now is told of."""
        with suppress(NotKept):
            await self.settled()

    async def writable(self) -> None:
        """Make sure that a change can be kept before it is made.

        Raises:
            NotKept: it cannot.
        """
        if self.cannot_keep():
            await self.settled()

    def rules_of(self, kind: GVK) -> Rules:
        """Return the rules of a built-in kind, served by a path of its own or not."""
        return self.registry.rules_of(kind)

    def find(self, resource: VersionedResource, namespace: str, name: str) -> Stored | None:
        """Return the stored object of *resource* with that name."""
        return self.store.get(Key(resource.shelf, namespace, name))
