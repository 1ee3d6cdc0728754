"""Keep a store equal to a collection on the server, whatever happens in between.

List, then watch from there; when the watch ends, watch again from the last version seen. Only when
that is impossible (410, or a server that was away and may have lost its past) is everything read
again and compared, so that what was deleted meanwhile is noticed. That is when all clients do so at
once, and a state from the server's memory will not do; so it is streamed by a watch, which costs
the server far less than such a list, and listed only where the server cannot do that. Failures are
waited out with growing, random pauses; nothing but cancellation ends a reflector.

Follows client-go's reflector (Kubernetes 1.36) with three differences: a dropped connection does
not cause a new list, resource versions that went backwards do (client-go would wait for the server
to catch up), and an object that cannot be decoded is left out and reported, not fatal.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from numakube.errors import (
    ApiError,
    BadRequest,
    ClusterUnreachable,
    Expired,
    Forbidden,
    Invalid,
    MalformedObject,
    NotFound,
    NumakubeError,
    TooManyRequests,
)
from numakube.kube.clock import Backoff
from numakube.kube.resource_types import KubeObject, ObjectKey, key_of
from numakube.kube.store import Store
from numakube.kube.watch import IDLE_SECONDS, Bookmark, GarbledEvent, ObjectEvent, open_watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from numakube.kube.client import Client
    from numakube.kube.decode import Malformed
    from numakube.kube.resource_types import Resource
    from numakube.kube.watch import Watch, WatchEvent

T = TypeVar("T", bound=KubeObject)

_SERVER_ERROR = 500
_TOO_LARGE_VERSION = "ResourceVersionTooLarge"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorTiming:
    """The times of a reflector, in seconds; the figures are client-go's.

    Attributes:
        watch: how long the server is to keep a watch, at least; at most twice as long.
        idle: silence after which a watch is taken for dead.
        settled: a watch that lived that long, or brought a change, was a success.
        backoff: the first pause after a failure; it doubles each time.
        longest_backoff: the longest pause.
        initial_events: how long a server may take to send the initial events of a streamed list.
        denial: how long a server must refuse to list before it is believed; one that starts
            may not know yet what it serves, nor who may read it.
    """

    watch: float = 300.0
    idle: float = IDLE_SECONDS
    settled: float = 5.0
    backoff: float = 0.8
    longest_backoff: float = 30.0
    initial_events: float = 60.0
    denial: float = 10.0


DEFAULT_TIMING = ReflectorTiming()


class _Rewound(NumakubeError):
    """The server's history is not the one we know: its resource versions went back."""


class Reflector(Generic[T]):
    """Mirrors a collection, or the part of it that selectors choose, into a store.

    Attributes:
        store: the mirror.
        synced: set once the store has held everything; it stays set.
        resource_version: the version up to which the store is known to be right.
        last_error: why there is no watch at the moment; None while there is one.
        denied: the server has refused for a while: it does not have the kind, and the store is
            empty then, or does not let us read it.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        store: Store[T] | None = None,
        streaming: bool = False,
        timing: ReflectorTiming = DEFAULT_TIMING,
        on_malformed: Callable[[Malformed], None] | None = None,
        optional: bool = False,
        locate: Callable[[], Awaitable[Resource[T]]] | None = None,
    ) -> None:
        """Prepare a reflector; `run` it in a task of its own.

        Args:
            client: where; its clock and random source are used.
            resource: what.
            namespace: the namespace; empty means all.
            labels: a label selector.
            fields: a field selector.
            store: where to mirror to, if not to a new store.
            streaming: have the server send the objects as events of the watch the first time too.
            timing: for tests and special cases.
            on_malformed: told of each object that cannot be decoded, besides the log.
            optional: nothing is amiss if the server lacks the kind; that is logged for the curious.
            locate: finds the version and scope to read, which may change meanwhile; asked for
                every list and watch.
        """
        self.store: Store[T] = Store() if store is None else store
        self.synced = asyncio.Event()
        self.resource_version = ""
        self.last_error: NumakubeError | None = None
        self.denied = False
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._streaming = streaming
        self._can_stream = True
        self._stream_failed = False
        self._timing = timing
        self._on_malformed = on_malformed
        self._optional = optional
        self._locate = locate
        self._denied_since: float | None = None
        self._reported: dict[ObjectKey, str] = {}
        self._backoff = Backoff(base=timing.backoff, cap=timing.longest_backoff, rng=client.rng)
        # An old state from the server's memory will do, except after signs that it is wrong.
        self._any_version_will_do = True

    def __str__(self) -> str:
        return f"{self._resource} in {self._namespace}" if self._namespace else str(self._resource)

    def is_behind(self, version: str) -> bool:
        """Tell whether the store is not known to be right up to *version* yet."""
        return not self.resource_version or _is_older(self.resource_version, version)

    async def run(self) -> None:
        """Mirror until cancelled."""
        while True:
            try:
                if self.resource_version:
                    await self._watch_on()
                    continue
                await self._has_moved()
                if self._streams_next():
                    await self._stream_all()
                else:
                    await self._list_all()
            except NumakubeError as failure:
                await self._recover(failure)

    def _streams_next(self) -> bool:
        """Tell whether everything is to be sent by a watch, rather than listed."""
        wanted = self._streaming or not self._any_version_will_do
        return wanted and self._can_stream and not self._stream_failed

    async def _has_moved(self) -> bool:
        """Tell whether the kind is served elsewhere than we thought; then it is listed there."""
        found = self._resource if self._locate is None else await self._locate()
        if found == self._resource:
            return False
        _log.info("resource_located", resource=str(self), version=found.version)
        self._resource = found
        self.resource_version = ""
        return True

    async def _list_all(self) -> None:
        listing = await self._client.list(
            self._resource,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version="0" if self._any_version_will_do else "",
        )
        for each in listing.malformed:
            self._report_malformed(each)
        self._replace(listing.items, listing.resource_version)

    async def _stream_all(self) -> None:
        """Have everything sent by a watch, and go on with the same watch."""
        self._stream_failed = True  # until it has not
        async with (
            self._opened(since="", initial_events=True) as watch,
            contextlib.aclosing(watch.batches()) as batches,
        ):
            try:
                async with self._client.clock.timeout(self._timing.initial_events):
                    rest = await self._gather_initial(batches)
            except TimeoutError:
                raise _StreamingUnknown(f"{self}: initial events did not end in time") from None
            self._is_reached()
            if not await self._has_moved():
                self._apply(rest)
                await self._follow(batches)

    def _is_reached(self) -> None:
        self.last_error = None
        self._client.recovery.reached()

    async def _gather_initial(
        self, batches: AsyncIterator[list[WatchEvent[T]]]
    ) -> list[WatchEvent[T]]:
        """Collect until the bookmark that ends the initial events; return what came after it."""
        found: dict[ObjectKey, T] = {}
        async for batch in batches:
            for number, event in enumerate(batch):
                match event:
                    case ObjectEvent(kind, obj):
                        if kind == "DELETED":
                            found.pop(key_of(obj), None)
                        else:
                            found[key_of(obj)] = obj
                    case GarbledEvent():
                        found.pop(event.malformed.key, None)
                        self._report_garbled(event)
                    case Bookmark(version, ends_initial_events=True):
                        self._replace(tuple(found.values()), version)
                        return batch[number + 1 :]
                    case Bookmark():
                        raise _StreamingUnknown(f"{self}: the server streams no initial events")
        raise ClusterUnreachable(f"{self}: the watch ended before all was sent", sent=True)

    def _replace(self, objects: tuple[T, ...], version: str) -> None:
        self.store.replace(objects)
        self.synced.set()
        self.denied, self._denied_since = False, None
        self.resource_version = version
        self._any_version_will_do = True
        self._stream_failed = False
        if not version:
            raise MalformedObject(f"list of {self}", "it has no resource version to watch from")
        _log.debug("reflector_synced", resource=str(self), objects=len(objects), version=version)

    async def _watch_on(self) -> None:
        async with (
            self._opened(since=self.resource_version, initial_events=False) as watch,
            contextlib.aclosing(watch.batches()) as batches,
        ):
            self._is_reached()
            # Asked while the watch is open: a definition that changes after that ends it.
            if not await self._has_moved():
                await self._check_history()
                await self._follow(batches)

    async def _check_history(self) -> None:
        """Make sure that the server has not lost versions that we have seen.

        It may have restarted from a backup, or from nothing, at any moment since we saw them; and
        a watch from a version that is yet to come is silent until it comes. Asked while the watch
        is open: a restart after that breaks it.
        """
        try:
            latest = await self._client.latest_version(
                self._resource, namespace=self._namespace, retry=False
            )
        except NumakubeError as exc:
            if isinstance(exc, ClusterUnreachable) and exc.refused:
                raise
            # No reason to give up a watch; the next one is checked again.
            _log.debug("history_not_checked", resource=str(self), error=str(exc))
        else:
            self._check_order(latest)

    def _opened(self, *, since: str, initial_events: bool) -> AbstractAsyncContextManager[Watch[T]]:
        # Spread over twice the time, so that watches opened together do not end together.
        seconds = self._timing.watch * self._client.rng.uniform(1.0, 2.0)
        return open_watch(
            self._client,
            self._resource,
            since=since,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            initial_events=initial_events,
            timeout_seconds=int(seconds),
            idle_seconds=self._timing.idle,
        )

    async def _follow(self, batches: AsyncIterator[list[WatchEvent[T]]]) -> None:
        """Apply what the watch brings until it ends."""
        clock = self._client.clock
        opened_at = clock.monotonic()
        before = self.resource_version
        cut: ClusterUnreachable | None = None
        try:
            async for batch in batches:
                self._apply(batch)
                self._backoff.reset()
        except ClusterUnreachable as failure:
            cut = failure
        lived = clock.monotonic() - opened_at
        if lived < self._timing.settled and self.resource_version == before:
            raise cut or ClusterUnreachable(f"{self}: the server ended the watch at once")
        # However it ended, it was of use: the next one is worth an attempt without a pause.
        self._backoff.reset()

    def _apply(self, batch: list[WatchEvent[T]]) -> None:
        for event in batch:
            match event:
                case ObjectEvent(kind, obj):
                    self._advance(obj.metadata.resource_version)
                    if kind == "DELETED":
                        self.store.remove(key_of(obj), last=obj)
                    else:
                        self.store.put(obj)
                        if self._reported:
                            self._reported.pop(key_of(obj), None)
                case GarbledEvent():
                    self._advance(event.malformed.resource_version)
                    self.store.remove(event.malformed.key, unseen=True)
                    self._report_garbled(event)
                case Bookmark(version):
                    self._advance(version)

    def _advance(self, version: str) -> None:
        """Note that the store is right up to *version*, which can only be a later one."""
        self._check_order(version)
        if version:
            self.resource_version = version

    def _check_order(self, version: str) -> None:
        known = self.resource_version
        if _is_older(version, known):
            raise _Rewound(f"{self}: resource version {version} after {known}")

    async def _recover(self, failure: NumakubeError) -> None:
        """Decide where to go on after *failure*, and wait a little."""
        self.last_error = failure
        if isinstance(failure, Expired):
            # The server is there: pauses that grew while it was not would leave us with the past.
            self._backoff.reset()
        if isinstance(failure, NotFound | Forbidden):
            self._note_denial(failure)
        if self._needs_new_list(failure):
            self._any_version_will_do = False
            self.resource_version = ""
        if isinstance(failure, Invalid | BadRequest | Forbidden | _StreamingUnknown):
            self._can_stream = False
        if isinstance(failure, ClusterUnreachable | TooManyRequests):
            # A list may not have other troubles, as with an etcd that cannot tell how far it is.
            self._stream_failed = False
        wait = self._backoff.next()
        if isinstance(failure, ApiError) and failure.retry_after is not None:
            wait = max(wait, min(failure.retry_after, self._timing.longest_backoff))
        absent = self._optional and isinstance(failure, NotFound | Forbidden)
        log = _log.debug if absent else _log.warning
        log("reflector_failed", resource=str(self), error=str(failure), wait=round(wait, 3))
        if isinstance(failure, ClusterUnreachable) and failure.refused:
            # Others may notice first that the server is back: it would be odd to know their
            # kinds as they are, and this one as it was.
            await self._client.recovery.pause(self._client.clock, wait)
        else:
            await self._client.clock.sleep(wait)

    def _note_denial(self, failure: NumakubeError) -> None:
        """Believe a refusal that lasts; a kind that the server does not have has no objects."""
        now = self._client.clock.monotonic()
        if self._denied_since is None:
            self._denied_since = now
        was_denied, self.denied = self.denied, now - self._denied_since >= self._timing.denial
        if self.denied and not was_denied and self._optional and isinstance(failure, Forbidden):
            _log.warning("goes_on_without", resource=str(self), error=str(failure))
        if self.denied and isinstance(failure, NotFound):
            self.store.replace(())

    def _needs_new_list(self, failure: NumakubeError) -> bool:
        """Tell whether a watch from the last version cannot go on, or cannot be trusted."""
        if isinstance(failure, ClusterUnreachable):
            # No server listens: it restarts, and what comes back may have another past.
            return failure.refused
        if isinstance(failure, TooManyRequests):
            return False
        if isinstance(failure, ApiError):
            too_large = any(cause.reason == _TOO_LARGE_VERSION for cause in failure.causes)
            return failure.code < _SERVER_ERROR or too_large
        return isinstance(failure, _Rewound)

    def _report_garbled(self, event: GarbledEvent) -> None:
        if event.type == "DELETED":
            self._reported.pop(event.malformed.key, None)
        else:
            self._report_malformed(event.malformed)

    def _report_malformed(self, malformed: Malformed) -> None:
        """Tell of an object that cannot be used; once, until it is wrong in another way."""
        said = str(malformed.error)
        if self._reported.get(malformed.key) == said:
            return
        self._reported[malformed.key] = said
        _log.error("object_malformed", error=said)
        if self._on_malformed is not None:
            self._on_malformed(malformed)


def _is_older(version: str, known: str) -> bool:
    """Compare versions as numbers of any length; others cannot be compared."""
    if not (version.isdecimal() and known.isdecimal()):
        return False
    one, other = version.lstrip("0"), known.lstrip("0")
    return (len(one), one) < (len(other), other)


class _StreamingUnknown(NumakubeError):
    """The server takes no notice of ``sendInitialEvents``."""


async def wait_synced(*reflectors: Reflector[Any]) -> None:
    """Return as soon as all *reflectors* have held everything."""
    for reflector in reflectors:
        await reflector.synced.wait()


@contextlib.asynccontextmanager
async def reflecting(*reflectors: Reflector[Any]) -> AsyncIterator[None]:
    """Run *reflectors*, synced, for the length of the body. For scripts and tests.

    A process that lives long runs each in a task of its own task group.
    """
    tasks = [asyncio.create_task(each.run(), name=f"reflect-{each}") for each in reflectors]
    try:
        await wait_synced(*reflectors)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
