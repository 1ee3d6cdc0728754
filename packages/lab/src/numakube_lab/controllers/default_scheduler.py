"""The scheduler of pods that name no other: numakube's own engine, blind to NUMA.

It has kube-scheduler's default plugins and counts per node, so it sends pods to nodes whose
kubelets cannot align them, as kube-scheduler does. Like kube-scheduler it schedules only while it
holds the lease of that name, so that a scheduler which serves the same pods stands by, or it does.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, ClassVar, Final

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
from numakube.kube.leader_election import LeaderElection, LeaseTiming
from numakube.kube.resource_types import ObjectKey

if TYPE_CHECKING:
    from numakube.kube.event_recorder import EventRecorder
    from numakube_lab.controllers.common.resource_mirrors import Cluster

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

    def __init__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> None:
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
        from numakube.apps.scheduler.process import SchedulerProcess
        from numakube.scheduling.recorder.flight_recorder import FlightRecorder

        recorder = FlightRecorder(limit_bytes=_RECORDED_BYTES)
        process = SchedulerProcess(
            CONFIGURATION, self._client, recorder, topologies=False, guarded=False
        )
        await process.run(asyncio.Event())
