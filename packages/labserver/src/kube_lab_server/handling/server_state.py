"""What all requests share: the store, the resources, the clock and the source of chance."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kube_lab_server.catalogue.served_resources import OpenApi
from kube_lab_server.store.journal import NotKept
from kube_lab_server.store.store import Key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from datetime import datetime
    from random import Random

    from kube_lab_server.access.authentication import Signer, TokenAuthenticator
    from kube_lab_server.access.authorization import Authorizer
    from kube_lab_server.catalogue.resource_rules import Rules
    from kube_lab_server.catalogue.resources import VersionedResource
    from kube_lab_server.catalogue.served_resources import Registry
    from kube_lab_server.kind_names import GVK, Json
    from kube_lab_server.store.store import Stored, VersionedStore
    from numakube.api.kubelet_config import KubeletConfiguration


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
