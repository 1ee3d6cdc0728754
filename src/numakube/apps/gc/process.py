"""The garbage collector as a process: watches nodes, looks at objects now and then."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.gc.collector import Collector, GcMetrics
from numakube.apps.gc.settings import SETTINGS
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_metrics import new_registry
from numakube.apps.host.program import Program
from numakube.errors import ApiError, ClusterUnreachable
from numakube.kube.catalog import NODES
from numakube.kube.connect import connect
from numakube.kube.reflector import Reflector
from numakube.kube.store import Removed

if TYPE_CHECKING:
    from numakube.api.nodes import Node
    from numakube.apps.gc.settings import GcSettings
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube.client import Client
    from numakube.kube.store import Change

RETRY_SECONDS: Final = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


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
            async with asyncio.TaskGroup() as tasks:
                helpers = [
                    tasks.create_task(self._nodes.run()),
                    tasks.create_task(self._wake_with(stop)),
                ]
                await self._collect(stop)
                for task in helpers:
                    task.cancel()
        return 0

    async def _collect(self, stop: asyncio.Event) -> None:
        # Nothing is an orphan before all nodes are known.
        await _either(self._nodes.synced, stop)
        while not stop.is_set():
            self._news.clear()
            pause = await self._turn()
            if self._settings.oneshot and self.collector.seconds_to_next() is None:
                return
            if not stop.is_set():
                await self._pause(pause)

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

    async def _wake_with(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._news.set()

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
