"""A lab whose API server, controllers and default scheduler are those of Kubernetes.

Nodes, producers and our schedulers are the same as in virtual time, and tasks of this process too.
Time is that of the machine: whoever waits for the cluster to come to rest asks again and again, and
only what is still found after a long while does not hold. What is to last for a minute lasts for
seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from tests.worlds.real_cluster import RealCluster
from tests.worlds.virtual_lab import Lab

from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES
from numakube.kube.client import Client
from numakube.kube.clock import SystemClock
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.testing import elapse, until

T = TypeVar("T")
PATIENCE_SECONDS: Final = 150.0
"""How long something may not hold: longer than a report without names is distrusted, and than
kube-controller-manager keeps the pods of a node that is gone."""
_QUIET_SECONDS: Final = 6.0
"""In which no pod changes when a cluster is at rest; of a scenario, as all that follow."""
_MOST_QUIETS: Final = 10
_HASTE: Final = 2.0
"""How many seconds of a scenario are one of the machine."""
_LONGEST_SECONDS: Final = 16.0


class RealLab(Lab):
    """A lab on a real server.

    Attributes:
        cluster: the control plane.
    """

    young_seconds: float = 2.0
    moment_seconds: float = 3.0

    def __init__(self, cluster: RealCluster, rng: Random) -> None:
        self.cluster = cluster
        self._clients: list[Client] = []
        super().__init__(SystemClock(), rng)
        # What is done to the cluster is done, whatever happens to the wire meanwhile.
        self.client = cluster.plane.client

    def connect(self) -> Client:
        """Return another client, by the wire."""
        config = load_config(kubeconfig=self.cluster.kubeconfig, env={})
        client = connect(config, rate=0)
        self._clients.append(client)
        return client

    @contextlib.asynccontextmanager
    async def surroundings(self) -> AsyncIterator[None]:
        """Have what is there anyway; remove in the end what the world has left."""
        try:
            yield
        finally:
            for client in self._clients:
                await client.aclose()
            await self.cluster.clean()

    async def through(self, work: Awaitable[T]) -> T:
        """Wait for *work*."""
        return await work

    async def pass_time(self, seconds: float) -> None:
        """Let a part of the time pass."""
        await elapse(min(seconds, _LONGEST_SECONDS) / _HASTE)

    async def found_at_rest(self, ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """Ask whenever pods have not changed for a moment, until nothing is found or for long."""
        end = self.clock.monotonic() + PATIENCE_SECONDS
        while True:
            await self._come_to_rest()
            # A busy machine may be too late for a lease, as one that is cut off.
            await self.revive_schedulers()
            found = await ask()
            if not found or self.clock.monotonic() > end:
                return found

    async def found_in_the_end(self, ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """Ask until nothing is found, or for long: a busy machine takes its time for anything."""
        end = self.clock.monotonic() + PATIENCE_SECONDS
        while (found := await ask()) and self.clock.monotonic() < end:
            await elapse(_QUIET_SECONDS)
        return found

    async def _come_to_rest(self) -> None:
        for _ in range(_MOST_QUIETS):
            changes = self.seen.changes
            await self.listen(_QUIET_SECONDS)
            if self.seen.changes == changes:
                return

    async def outage(self, seconds: float) -> None:
        """Kill the server, and start it after a while."""
        server = self.cluster.plane.server
        server.kill()
        await self.pass_time(seconds)
        await asyncio.to_thread(server.start)

    async def break_watches(self, *, forget: bool) -> None:
        """Cut all connections; a server that is killed forgets the past."""
        if forget:
            await self.restart_server(0.0)
        else:
            self.cluster.wire.cut()

    async def add_node(
        self,
        name: str,
        machine: str,
        *,
        kubelet: str = "",
        version: str = "1.35",
        rack: str = "",
        claims: bool = False,
        producer: str = "ours",
        measured: bool = False,
    ) -> None:
        """Let a node join; returns when it is reported."""
        await super().add_node(
            name,
            machine,
            kubelet=kubelet,
            version=version,
            rack=rack,
            claims=claims,
            producer=producer,
            measured=measured,
        )
        if producer != "none":
            await until(lambda: self.client.get(NODE_RESOURCE_TOPOLOGIES, name))
            self.known_since[name] = self.clock.monotonic()
