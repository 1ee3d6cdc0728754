"""A real kube-apiserver as a cluster to be tested on: the lab's nodes and controllers live there.

A server takes seconds to start, so one serves all tests of a process; after each of them
everything that it has left is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from tests.real.api_server import RealServer
from tests.sites.sweeping import Sweeper
from tests.sites.unreliable import Unreliable, Wire

from kube_lab_server import Faults
from numakube.kube.client import Client
from numakube.kube.clock import Clock, SystemClock
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import UserConfig, load_config
from numakube.kube.connection.credentials import authenticator_for
from numakube.kube.connection.http import HttpTransport
from numakube_lab.exporters import install_definition
from numakube_lab.lab_cluster import Crew
from numakube_lab.processes.full_pod_spec import InsideAddress
from numakube_lab.run_folder import RunDir
from numakube_lab.testing import SiteOptions


@dataclass(frozen=True, slots=True)
class RealSite:
    """A real server, what lives on it, and the wire that others reach it by."""

    server: RealServer
    directory: RunDir
    client: Client
    crew: Crew
    wire: Wire
    faults: Faults = field(default_factory=lambda: Faults(Random()))

    @property
    def folder(self) -> Path:
        """The folder of this site."""
        return self.directory.path

    @property
    def kubeconfig(self) -> Path:
        """How to reach the server by the wire."""
        return self.directory.kubeconfig

    def connect(self, *, clock: Clock | None = None, token: str = "") -> Client:
        """Return a client whose connection may be cut, and whose requests may fail."""
        clock = clock or SystemClock()
        config = load_config(kubeconfig=self.kubeconfig, env={})
        if token:
            config = replace(config, user=UserConfig(token=token))
        auth = authenticator_for(config.user, clock=clock, env={}, interactive=False)
        transport = HttpTransport(config, auth=auth, clock=clock)
        return Client(Unreliable(transport, self.faults), clock=clock, rate=0)

    async def drop_watches(self) -> None:
        """Cut the wire; requests that are under way break off too."""
        self.wire.cut()

    async def expire_history(self) -> None:
        """Kill the server and start it again: it remembers nothing but what is."""
        await self.restart()

    async def restart(self) -> None:
        """Kill the server, and return when another one answers in its place."""
        self.server.kill()
        await asyncio.to_thread(self.server.start)


@contextlib.asynccontextmanager
async def real_site(server: RealServer, options: SiteOptions) -> AsyncIterator[RealSite]:
    """Let nodes, controllers and exporters live on *server*; remove what was made meanwhile."""
    async with contextlib.AsyncExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix="real-"))
        folder = RunDir(Path(path) / "test")
        folder.create()
        wire = await stack.enter_async_context(Wire(server.url))
        direct = load_config(kubeconfig=server.write_kubeconfig(folder.path / "direct"), env={})
        client = await stack.enter_async_context(connect(direct, rate=0))
        server.write_kubeconfig(folder.kubeconfig, url=wire.url)
        await install_definition(client)
        sweeper = Sweeper(client)
        await sweeper.look()
        stack.push_async_callback(sweeper.sweep)
        crew = Crew(
            client,
            folder,
            inside=lambda: _inside(server),
            plans=options.plans,
            exporters=options.exporters,
            default_scheduler=options.default_scheduler,
        )
        await stack.enter_async_context(crew)
        yield RealSite(server, folder, client, crew, wire)


def _inside(server: RealServer) -> InsideAddress:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return InsideAddress(host=parts.hostname, port=parts.port, authority=server.ca.read_bytes())
