"""The dashboard in a program that serves other things: a scheduler, an extender or a lab.

It costs nothing until a page is opened: only then does it subscribe to the program's stores. In a
program that has none, such as a lab, it mirrors the cluster itself from the first visit on.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from numakube.apps.debugging.annex_endpoints import Endpoints
from numakube_pages.dashboard import PREFIX, Dashboard
from numakube_pages.page_access import Gate
from numakube_pages.page_source import Reflection, Source, missing_of, report_dates
from numakube_pages.scheduler_view import Decider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from numakube.apps.debugging.annex_endpoints import DecidingProgram, ServingProgram
    from numakube.apps.host import Access
    from numakube.kube import Client

_FIRST_VISIT_SECONDS: Final = 10.0


def mounted(program: ServingProgram) -> Endpoints:
    """Return the pages for a program, with what it decided if it decides."""
    if program.decides is None:
        return _ReflectedPages(program)
    return _Pages(program, source_of(program.client, program.decides))


def source_of(client: Client, program: DecidingProgram) -> Source:
    """Return what a program knows, for pages."""
    mirror = program.mirror
    return Source(
        nodes=mirror.nodes.store,
        pods=mirror.pods.store,
        topologies=mirror.reports,
        clock=client.clock,
        devices=mirror.stores,
        inside=Decider(program, client.clock),
        missing=lambda: missing_of((mirror.nodes, mirror.topologies, mirror.pods)),
        dates=partial(report_dates, client),
    )


class _Pages(Endpoints):
    """The pages about one source."""

    def __init__(self, program: ServingProgram, source: Source) -> None:
        self._program = program
        self._source = source
        self._dashboards: list[Dashboard] = []

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the routes of the pages."""
        clock = self._program.client.clock
        gate = Gate(clock, host=access.host, path=PREFIX, access=access)
        dashboard = Dashboard(
            self._source, gate=gate, title=self._program.title, visited=self.visited
        )
        self._dashboards.append(dashboard)
        return dashboard.routes()

    async def visited(self) -> None:
        """Do what has to be done before a page is made."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Close the dashboards in the end, with their streams."""
        try:
            yield
        finally:
            for dashboard in self._dashboards:
                dashboard.close()


class _ReflectedPages(_Pages):
    """The same where nothing is mirrored: most labs are looked at by programs only.

    The first visit takes a moment longer, until the cluster has been listed.
    """

    def __init__(self, program: ServingProgram) -> None:
        self._reflection = Reflection(program.client)
        self._wanted = asyncio.Event()
        super().__init__(program, self._reflection.source)

    async def visited(self) -> None:
        """Begin to mirror at the first visit, and wait until the cluster is known."""
        if not self._wanted.is_set():
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_VISIT_SECONDS):
                    await self._reflection.synced()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Mirror while the pages are served, once they are wanted."""
        feeding = asyncio.create_task(self._feed(), name="dashboard-reflection")
        try:
            async with super().served():
                yield
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding

    async def _feed(self) -> None:
        await self._wanted.wait()
        await self._reflection.run()
