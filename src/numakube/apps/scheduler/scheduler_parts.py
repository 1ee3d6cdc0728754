"""The acting half of a scheduler, put together: what stands around its loop.

`SchedulerParts` has one of each part. None takes more than five others: whoever needs one more is
two parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.apps.scheduler.binding_cycle import BindingCycle, Results, surviving
from numakube.apps.scheduler.gang_step import GangStep, GangView, IncompleteGangs
from numakube.apps.scheduler.mirror_listener import Rejections, SchedulerListener
from numakube.apps.scheduler.preemption_actions import Holds, Preemptions
from numakube.apps.scheduler.scheduling_loop import PodQueue, PodStep, Scheduler
from numakube.scheduling.cycle import Cycle
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.scheduling_queue import ProfileHints, SchedulingQueue

if TYPE_CHECKING:
    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.flight_recording import Recording
    from numakube.apps.scheduler.binders import ApiClaimActions, ApiVolumeActions
    from numakube.apps.scheduler.binding_cycle import WaitingPods
    from numakube.apps.scheduler.decision_events import Outcomes
    from numakube.apps.scheduler.metrics import SchedulerMetrics
    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.cycle import Dice
    from numakube.scheduling.plugins.gang_scheduling import GangMembers
    from numakube.scheduling.scheduling_queue import PodBackoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting:
    """Where a scheduler says what it does.

    Attributes:
        outcomes: events and conditions of pods.
        events: events about anything else.
        recording: the flight recorder.
        metrics: figures.
    """

    outcomes: Outcomes
    events: EventRecorder
    recording: Recording
    metrics: SchedulerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginServices:
    """What plugins of a scheduler act by, which has to hear of changes in the cluster.

    Attributes:
        volumes: binds volumes.
        claims: allocates devices to claims.
        permits: the pods that a plugin holds back.
        members: the members of gangs.
    """

    volumes: ApiVolumeActions
    claims: ApiClaimActions
    permits: WaitingPods
    members: GangMembers


class SchedulerParts:
    """One of each part, each knowing the others that it needs."""

    def __init__(
        self,
        engine: Engine,
        mirror: Mirror,
        client: Client,
        reporting: Reporting,
        services: PluginServices,
        *,
        dice: Dice,
        backoff: PodBackoff | None = None,
    ) -> None:
        self.engine = engine
        self.mirror = mirror
        self.members = services.members
        self.served = set(engine.runtimes)
        """The schedulers whose pods are ours now."""
        hints = ProfileHints(engine.runtimes, engine.cluster, engine.nominations)
        waiting = SchedulingQueue(hints, backoff=backoff)
        self.queue = PodQueue(waiting, engine.guard, client.clock)
        self.members.on_growth = self.queue.ask_gates
        self.results = Results(
            self.queue,
            client.clock,
            outcomes=reporting.outcomes,
            recording=reporting.recording,
            metrics=reporting.metrics,
        )
        self.preemptions = Preemptions(client, engine, self.queue, self.results, self.members)
        self.bindings = BindingCycle(
            mirror,
            results=self.results,
            preemptions=self.preemptions,
            permits=services.permits,
            shards=engine.shards,
        )
        self.holds = Holds(engine, self.preemptions, client.clock)
        self.gang_view = GangView(engine, self.members, waiting)
        self.incomplete_gangs = IncompleteGangs(
            client, engine, self.members, mirror=mirror, results=self.results
        )
        self.cycle = Cycle(engine.cluster, engine.nominations, dice)
        self.loop = self._make_loop()
        mirror.listener = self.listener = self._make_listener(reporting, services)

    @property
    def recording(self) -> Recording:
        """What goes to the flight recorder."""
        return self.results.recording

    def _make_loop(self) -> Scheduler:
        self.gang_step = GangStep(
            self.engine,
            self.members,
            bindings=self.bindings,
            preemptions=self.preemptions,
            results=self.results,
        )
        single_pods = PodStep(
            self.engine,
            self.cycle,
            bindings=self.bindings,
            preemptions=self.preemptions,
            results=self.results,
        )
        return Scheduler(
            self.queue,
            (self.gang_step, single_pods),
            bindings=self.bindings,
            results=self.results,
            upkeep=(self._keep_resyncing, self.incomplete_gangs.run, self.holds.run),
        )

    def _make_listener(self, reporting: Reporting, services: PluginServices) -> SchedulerListener:
        rejections = Rejections(
            self.queue,
            cluster=self.engine.cluster,
            recorder=reporting.events,
            metrics=reporting.metrics,
        )
        return SchedulerListener(
            self.served,
            self.queue,
            self.results,
            followers=(self.preemptions, self.holds, self.members, rejections),
            signals={
                EventKind.NODE_REMOVED: lambda: self.recording.flush(),
                EventKind.STORAGE_CHANGED: services.volumes.storage_changed,
                EventKind.CLAIM_CHANGED: services.claims.claims_changed,
            },
        )

    async def _keep_resyncing(self) -> None:
        clock, cache = self.queue.clock, self.mirror.cache
        while True:
            await clock.sleep(self.engine.resync_seconds)
            with surviving("resync"):
                self.mirror.apply(cache.resync(clock.monotonic()))
