"""The endpoints of a scheduler that a test has started, those of annexes among them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from numakube.apps.debugging.annex_endpoints import AnnexEndpoints, ServingProgram
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Listen, Serving
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.apps.scheduler.scheduler_endpoints import SchedulerEndpoints
from numakube.kube.client import Client
from numakube_lab.testing import without_election


class Running(Protocol):
    """A scheduler, and how it reaches the API server."""

    @property
    def process(self) -> SchedulerProcess:
        """The scheduler."""
        ...

    @property
    def client(self) -> Client:
        """Its client."""
        ...


@asynccontextmanager
async def served(running: Running, port: int = 0) -> AsyncIterator[str]:
    """Serve on loopback; return the URL."""
    process = running.process
    endpoints = SchedulerEndpoints(process.parts, without_election(), running.client)
    added = AnnexEndpoints(ServingProgram(client=running.client, decides=process.deciding()))
    access = Access(running.client, host="127.0.0.1")
    serving = Serving(
        Listen(host="127.0.0.1", port=port),
        health=Health(),
        registry=process.registry,
        routes=[*endpoints.routes(access), *added.routes(access)],
    )
    async with serving as server, added.served():
        yield server.url
