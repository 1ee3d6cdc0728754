"""The garbage collector as a process: watches nodes, and removes objects of missing ones."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from numakube.api.meta import Named
from numakube.apps.gc.settings import SETTINGS
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import new_registry, work_until
from numakube.apps.host.program import Program
from numakube.apps.served_topologies import served_topologies
from numakube.errors import ApiError, ClusterUnreachable, Conflict, NotFound
from numakube.kube.catalog import NODES
from numakube.kube.connect import connect
from numakube.kube.reflector import Reflector
from numakube.kube.store import Removed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numakube.api.nodes import Node
    from numakube.apps.gc.settings import GcSettings
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube.client import Client
    from numakube.kube.store import Change


# Which objects to remove, and when: those whose node has been missing for the grace time.
#
# A node that is deleted and registers again within that time keeps its object. Before an object is
# removed the API is asked once more for the node, and the deletion names the object's uid, so that
# neither an old cache nor a new object of the same name can lead to a mistake.


KIND: Final = "NodeResourceTopology"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class GcMetrics:
    """The metrics of a garbage collector."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deleted = Counter(
            "nfd_gc_objects_deleted_total", "Objects removed.", ("kind",), registry=registry
        )
        self.failures = Counter(
            "nfd_gc_object_delete_failures_total",
            "Objects that could not be removed.",
            ("kind",),
            registry=registry,
        )
        self.orphans = Gauge(
            "numakube_gc_orphans", "Objects whose node is missing now.", registry=registry
        )


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object without a node.

    Attributes:
        namespace: where it is; empty for an object of the cluster.
        name: its name, and that of the missing node.
        uid: which object of that name it is.
        since: when the node was first missed, by the monotonic clock.
    """

    namespace: str
    name: str
    uid: str
    since: float

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone if the object has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(slots=True, kw_only=True)
class Collector:
    """Removes objects of nodes that have vanished.

    Attributes:
        client: the API.
        nodes: tells the names of all nodes.
        grace: seconds for which a node must be missing.
        page_size: objects to list at a time; 0 for all at once.
        dry_run: only say what would be removed.
        metrics: what is counted.
        orphans: the objects that wait for the end of their grace time.
    """

    client: Client
    nodes: Callable[[], Collection[str]]
    grace: float
    page_size: int
    dry_run: bool
    metrics: GcMetrics
    orphans: dict[str, Orphan] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def look(self) -> None:
        """Find out which objects have no node now."""
        try:
            objects = (await served_topologies(self.client)).decoded_as(Named)
            found = await self.client.list(objects, page_size=self.page_size)
        except NotFound:
            # The cluster has no such objects at all.
            self.orphans.clear()
            return
        now, nodes = self.client.clock.monotonic(), self.nodes()
        missing = {
            named.metadata.key: Orphan(
                named.metadata.namespace, named.metadata.name, named.metadata.uid, now
            )
            for named in found.items
            if named.metadata.name not in nodes
        }
        for key, orphan in missing.items():
            known = self.orphans.get(key)
            if known is not None and known.uid == orphan.uid:
                missing[key] = known
        self.orphans = missing
        self._told &= {orphan.uid for orphan in missing.values()}
        self.metrics.orphans.set(len(missing))

    async def collect(self) -> list[str]:
        """Remove what is due; return the names of what was removed, or would be in a dry run."""
        removed = []
        for orphan in self._due():
            if orphan.name in self.nodes() or await self._node_exists(orphan.name):
                del self.orphans[orphan.key]
            elif await self._remove(orphan):
                removed.append(orphan.key)
        return removed

    def seconds_to_next(self) -> float | None:
        """Return how long it takes until an object is due; ``None`` if none waits."""
        waiting = [orphan for orphan in self.orphans.values() if orphan.uid not in self._told]
        if not waiting:
            return None
        first = min(orphan.since for orphan in waiting)
        return max(0.0, first + self.grace - self.client.clock.monotonic())

    def _due(self) -> list[Orphan]:
        limit = self.client.clock.monotonic() - self.grace
        due = [orphan for orphan in self.orphans.values() if orphan.since <= limit]
        return [orphan for orphan in due if orphan.uid not in self._told]

    async def _node_exists(self, name: str) -> bool:
        try:
            await self.client.get(NODES.decoded_as(Named), name)
        except NotFound:
            return False
        return True

    async def _remove(self, orphan: Orphan) -> bool:
        if self.dry_run:
            self._told.add(orphan.uid)
            _log.info("would_be_removed", object=orphan.key)
            return True
        try:
            objects = (await served_topologies(self.client)).decoded_as(Named)
            place = orphan.namespace if objects.namespaced else ""
            await self.client.delete(objects, orphan.name, namespace=place, uid=orphan.uid)
        except (NotFound, Conflict):
            # It was removed in the meantime, or there is a new object of that name.
            del self.orphans[orphan.key]
            return False
        except (ApiError, ClusterUnreachable) as error:
            self.metrics.failures.labels(KIND).inc()
            _log.warning("object_not_removed", object=orphan.key, error=str(error))
            raise
        del self.orphans[orphan.key]
        self.metrics.deleted.labels(KIND).inc()
        _log.info("object_removed", object=orphan.key, reason="its node has vanished")
        return True


RETRY_SECONDS: Final = 10.0


async def run(settings: GcSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Collect until *stop* is set, or once; return the exit code."""
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(
        config, clock=around.clock, env=around.env, user_agent="numakube-gc"
    ) as client:
        return await GcProcess(settings, around, client).run(stop)


class GcProcess:
    """A running garbage collector."""

    def __init__(self, settings: GcSettings, around: Surroundings, client: Client) -> None:
        self._settings = settings
        self._around = around
        self._client = client
        self._clock = client.clock
        self._registry = new_registry("gc")
        self._nodes: Reflector[Node] = Reflector(client, NODES)
        self._nodes.store.subscribe(self._on_node)
        self._news = asyncio.Event()
        self._trouble = "no objects have been listed yet"
        self.collector = Collector(
            client=client,
            nodes=self._node_names,
            grace=settings.grace,
            page_size=settings.page_size,
            dry_run=settings.dry_run,
            metrics=GcMetrics(self._registry),
        )

    async def run(self, stop: asyncio.Event) -> int:
        """Collect until *stop* is set, or once; return the exit code."""
        async with AsyncExitStack() as stack:
            if self._around.serve and not self._settings.oneshot:
                await self._serve(stack)
            return await work_until(
                stop,
                self._collect(stop),
                beside=(self._nodes,),
                clock=self._clock,
                end=self._news.set,
            )

    async def _collect(self, stop: asyncio.Event) -> int:
        # Nothing is an orphan before all nodes are known.
        await _either(self._nodes.synced, stop)
        while not stop.is_set():
            self._news.clear()
            pause = await self._turn()
            if self._settings.oneshot and self.collector.seconds_to_next() is None:
                break
            if not stop.is_set():
                await self._pause(pause)
        return 0

    async def _turn(self) -> float:
        """Look and collect; return how long to wait."""
        try:
            await self.collector.look()
            for name in await self.collector.collect():
                self._around.echo(f"noderesourcetopology/{name} {self._verb}")
        except (ApiError, ClusterUnreachable) as error:
            if str(error) != self._trouble:
                _log.warning("cannot_collect", error=str(error))
            self._trouble = str(error)
            return RETRY_SECONDS
        self._trouble = ""
        interval = self._settings.interval
        due = self.collector.seconds_to_next()
        return interval if due is None else min(interval, due)

    @property
    def _verb(self) -> str:
        return "would be removed" if self._settings.dry_run else "removed"

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._news.wait()

    def _node_names(self) -> frozenset[str]:
        return frozenset(key.name for key in self._nodes.store.keys())  # noqa: SIM118 - no dict

    def _on_node(self, change: Change[Node]) -> None:
        if isinstance(change, Removed):
            self._news.set()

    async def _serve(self, stack: AsyncExitStack) -> None:
        health = Health()
        health.ready("collection", lambda: self._trouble)
        around = self._around
        listen = around.placed(listen_of(self._settings.serving, locate=around.locate))
        access = Access(self._client, host=listen.host)
        server = await stack.enter_async_context(
            Serving(listen, health=health, registry=self._registry, access=access)
        )
        _log.info("serving", url=server.url)


async def _either(first: asyncio.Event, second: asyncio.Event) -> None:
    """Return as soon as one of the two is set."""
    tasks = [asyncio.create_task(event.wait()) for event in (first, second)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


_ABOUT: Final = """\
A node that is missing for shorter than the grace period keeps its object.
"""

PROGRAM: Final = Program(
    name="gc",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
)
