"""All controllers of a cluster, as kube-controller-manager runs them, and a NUMA-blind scheduler.

    async with Controllers(client):
        ...

They share one set of mirrors and live in one task group. Leaving the context ends them all;
entering it again starts afresh from what the server says, as after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from numakube.api.scheduler_config import (
    MAIN_LEASE,
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    PluginRef,
    Plugins,
    PluginSet,
    ProfileConfig,
)
from numakube.errors import LeadershipLost
from numakube.kube import EventRecorder, LeaderElection, LeaseTiming, ObjectKey
from numakube_lab.controllers.cluster.claim_controller import ClaimReservations, PodClaims
from numakube_lab.controllers.cluster.garbage_collector import GarbageCollector
from numakube_lab.controllers.cluster.namespace_controller import (
    Leftovers,
    Namespaces,
    ServiceAccounts,
)
from numakube_lab.controllers.cluster.node_lifecycle import Nodes
from numakube_lab.controllers.cluster.taint_evictions import TaintEvictions
from numakube_lab.controllers.common.controller_loop import REPORT_SECONDS, MirroredCluster
from numakube_lab.controllers.workloads.daemon_set_controller import DaemonSets
from numakube_lab.controllers.workloads.deployment_controller import Deployments
from numakube_lab.controllers.workloads.disruption_controller import DisruptionBudgets
from numakube_lab.controllers.workloads.job_controller import Jobs
from numakube_lab.controllers.workloads.replica_set_controller import ReplicaSets
from numakube_lab.controllers.workloads.stateful_set_controller import StatefulSets
from numakube_lab.lifetime import Lifetime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from numakube.kube import Client


# The scheduler of pods that name no other: numakube's own engine, blind to NUMA.
#
# It has kube-scheduler's default plugins and counts per node, so it sends pods to nodes whose
# kubelets cannot align them, as kube-scheduler does. Like kube-scheduler it schedules only while it
# holds the lease of that name, so that a scheduler which serves the same pods stands by, or it
# does.


SCHEDULER_NAME: Final = "default-scheduler"

_RECORDED_BYTES: Final = 1 << 20
_IDENTITY: Final = "lab-default-scheduler"
"""The same in each run: a lab that starts again with its data does not wait for itself."""
_TIMING: Final = LeaseTiming(duration=60, renew_deadline=45, retry=10)
"""A lab on a busy machine may be late."""

_NOT_OF_KUBE_SCHEDULER: Final = PluginSet(disabled=(PluginRef(name="RejectionGuard"),))

CONFIGURATION: Final = KubeSchedulerConfiguration(
    profiles=(
        ProfileConfig(
            scheduler_name=SCHEDULER_NAME, plugins=Plugins(multi_point=_NOT_OF_KUBE_SCHEDULER)
        ),
    ),
    leader_election=LeaderElectionConfig(leader_elect=False),
)


class DefaultScheduler:
    """Binds the pods whose scheduler is ``default-scheduler``, and records events of its own."""

    name: ClassVar[str] = SCHEDULER_NAME

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        del recorder
        self._client = cluster.client

    async def run(self) -> None:
        """Schedule until cancelled, whenever the lease is ours."""
        lease = LeaderElection(
            self._client, ObjectKey(*MAIN_LEASE), identity=_IDENTITY, timing=_TIMING
        )
        while True:
            with contextlib.suppress(LeadershipLost):
                await lease.run(self._schedule)

    async def _schedule(self) -> None:
        # Loaded when it runs: only labs that schedule need its arrays.
        from numakube.apps.scheduler import SchedulerProcess
        from numakube.scheduling.recorder import FlightRecorder

        recorder = FlightRecorder(limit_bytes=_RECORDED_BYTES)
        process = SchedulerProcess(
            CONFIGURATION, self._client, recorder, topologies=False, guarded=False
        )
        await process.run(asyncio.Event())


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

    def __call__(
        self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None
    ) -> Runnable:
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
        self.cluster = MirroredCluster(client, report_seconds=report_seconds)
        self._report_seconds = report_seconds
        self._client = client
        self._which = which
        self._instance = instance
        self._recorders: list[EventRecorder] = []

    async def live(self) -> AsyncIterator[None]:
        """Start, and go on once they know the cluster."""
        self.cluster = MirroredCluster(self._client, report_seconds=self._report_seconds)
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
