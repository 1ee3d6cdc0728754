"""The scheduler of pods that name no other: numakube's own engine, blind to NUMA.

It has kube-scheduler's default plugins and counts per node, so it sends pods to nodes whose
kubelets cannot align them, as kube-scheduler does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

from numakube.api.scheduler_config import (
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    PluginRef,
    Plugins,
    PluginSet,
    ProfileConfig,
)

if TYPE_CHECKING:
    from numakube.kube.event_recorder import EventRecorder
    from numakube_lab.controllers.common.resource_mirrors import Cluster

SCHEDULER_NAME: Final = "default-scheduler"

_RECORDED_BYTES: Final = 1 << 20

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
        """Schedule until cancelled."""
        # Loaded when it runs: only labs that schedule need its arrays.
        from numakube.apps.scheduler.process import SchedulerProcess
        from numakube.scheduling.recorder.flight_recorder import FlightRecorder

        recorder = FlightRecorder(limit_bytes=_RECORDED_BYTES)
        process = SchedulerProcess(
            CONFIGURATION, self._client, recorder, topologies=False, guarded=False
        )
        await process.run(asyncio.Event())
