"""Run all controllers together.

    async with Controllers(client):
        ...

They share one set of mirrors and live in one task group. Leaving the context ends them all;
entering it again starts afresh from what the server says, as after a restart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from numakube.kube.event_recorder import EventRecorder
from numakube_lab.controllers.cluster.claim_controller import ClaimReservations, PodClaims
from numakube_lab.controllers.cluster.garbage_collector import GarbageCollector
from numakube_lab.controllers.cluster.namespace_controller import Namespaces, ServiceAccounts
from numakube_lab.controllers.cluster.node_lifecycle import Nodes
from numakube_lab.controllers.cluster.pod_leftovers import Leftovers
from numakube_lab.controllers.cluster.taint_evictions import TaintEvictions
from numakube_lab.controllers.common.resource_mirrors import REPORT_SECONDS, Cluster
from numakube_lab.controllers.default_scheduler import DefaultScheduler
from numakube_lab.controllers.workloads.daemon_set_controller import DaemonSets
from numakube_lab.controllers.workloads.deployment_controller import Deployments
from numakube_lab.controllers.workloads.disruption_controller import DisruptionBudgets
from numakube_lab.controllers.workloads.job_controller import Jobs
from numakube_lab.controllers.workloads.replica_set_controller import ReplicaSets
from numakube_lab.controllers.workloads.stateful_set_controller import StatefulSets
from numakube_lab.lifetime import Lifetime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from numakube.kube.client import Client


class Runnable(Protocol):
    """A controller: it works until cancelled."""

    @property
    def name(self) -> str:
        """Under which name its events are recorded."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


class Factory(Protocol):
    """What makes a controller: its class."""

    @property
    def name(self) -> str:
        """Under which name its events are recorded."""
        ...

    def __call__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> Runnable:
        """Return a controller that sees the cluster through *cluster*."""
        ...


ALL: Final[Sequence[Factory]] = (
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    Jobs,
    GarbageCollector,
    Namespaces,
    ServiceAccounts,
    Nodes,
    TaintEvictions,
    DisruptionBudgets,
    Leftovers,
    PodClaims,
    ClaimReservations,
    DefaultScheduler,
)
"""Every controller of the lab."""


class Controllers(Lifetime):
    """Controllers that run for the length of a context.

    Attributes:
        cluster: the mirrors they see the cluster through, while they run.
    """

    def __init__(
        self,
        client: Client,
        *,
        which: Sequence[Factory] = ALL,
        instance: str = "lab",
        report_seconds: float = REPORT_SECONDS,
    ) -> None:
        """Prepare to run controllers.

        Args:
            client: how they reach the API server; its clock is theirs.
            which: the controllers; all by default.
            instance: what their events name as their host.
            report_seconds: how long at least between two reports about an object.
        """
        self.cluster = Cluster(client, report_seconds=report_seconds)
        self._report_seconds = report_seconds
        self._client = client
        self._which = which
        self._instance = instance
        self._recorders: list[EventRecorder] = []

    async def live(self) -> AsyncIterator[None]:
        """Start, and go on once they know the cluster."""
        self.cluster = Cluster(self._client, report_seconds=self._report_seconds)
        self._recorders.clear()
        made = [self._make(factory) for factory in self._which]
        task = asyncio.create_task(self._run(made), name="controllers")
        synced = asyncio.ensure_future(self.cluster.synced())
        await asyncio.wait({task, synced}, return_when=asyncio.FIRST_COMPLETED)
        synced.cancel()
        if task.done():
            task.result()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def flush(self) -> None:
        """Return once all events recorded so far are written."""
        for recorder in self._recorders:
            await recorder.flush()

    def _make(self, factory: Factory) -> tuple[Runnable, EventRecorder]:
        recorder = EventRecorder(
            self._client, component=factory.name, instance=self._instance, capacity=10_000
        )
        self._recorders.append(recorder)
        return factory(self.cluster, recorder=recorder), recorder

    async def _run(self, made: Sequence[tuple[Runnable, EventRecorder]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.cluster.run(), name="mirrors")
            for controller, recorder in made:
                tasks.create_task(controller.run(), name=controller.name)
                tasks.create_task(recorder.run(), name=f"{controller.name}-events")
