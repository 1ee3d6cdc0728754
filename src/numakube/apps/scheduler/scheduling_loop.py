"""The loop: whose turn it is, where it goes, and what is done about it.

Deciding is synchronous and alone changes the state that it decides on; binding, evicting and
telling users happen beside it. Whatever fails there is undone: the reservation, the assumed pod,
the place in the queue.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.scheduler.attempt_results import surviving
from numakube.apps.scheduler.binding_cycle import Placement
from numakube.scheduling.cycle import Chosen, Failed
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.flight_recording import Recording
    from numakube.apps.scheduler.attempt_results import Results
    from numakube.apps.scheduler.binding_cycle import BindingCycle
    from numakube.apps.scheduler.gang_cycle import GangCycle
    from numakube.apps.scheduler.held_room import Holds
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.apps.scheduler.preemption_actions import Preemptions
    from numakube.kube.clock import Clock
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.cycle import Refused
    from numakube.scheduling.plugins.gang_scheduling.gang_members import GangMembers
    from numakube.scheduling.queue.queued_pod import QueuedPod

_TURN_PODS: Final = 16
_TURN_SECONDS: Final = 0.02
"""How many pods are decided on, and for how long, before their bindings are sent together.

An API server and its etcd take a tenth less CPU for requests that arrive together than for the same
requests one by one. A pod that comes alone is bound at once.
"""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Scheduler:
    """Schedules the pods of its profiles while it leads."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        mirror: Mirror,
        queue: PodQueue,
        bindings: BindingCycle,
        preemptions: Preemptions,
        results: Results,
        gangs: GangCycle,
        members: GangMembers,
        holds: Holds,
    ) -> None:
        self.engine = engine
        self.mirror = mirror
        self.queue = queue.waiting
        self.results = results
        self.cycle = gangs.cycle
        self.members = members
        self.holds = holds
        self.gangs = gangs
        self._queue = queue
        self._bindings = bindings
        self._preemptions = preemptions
        self._clock = clock
        self._has_more = False

    @property
    def is_busy(self) -> bool:
        """Whether pods are waiting to be decided on, or many are on their way to a node."""
        return self._has_more or self._bindings.is_busy

    @property
    def recording(self) -> Recording:
        """What goes to the flight recorder."""
        return self.results.recording

    @property
    def leads(self) -> bool:
        """Whether it schedules, rather than standing by."""
        return self._queue.leads

    async def run(self) -> None:
        """Schedule until cancelled; requests under way are given a moment to be answered."""
        self._queue.leads = True
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(self._keep_resyncing()),
                tasks.create_task(self.gangs.keep_whole()),
                tasks.create_task(self.holds.run()),
            ]
            try:
                await self._loop(tasks)
            finally:
                self._queue.leads = False
                for task in beside:
                    task.cancel()
                await self._bindings.finish()

    async def _loop(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            self._has_more = self._attempt_some(tasks)
            if self._has_more:
                # Let requests out, and answers and watches in.
                await asyncio.sleep(0)
            else:
                self.recording.flush()
                await self._queue.rest(until=self.engine.guard.next_change())

    def _attempt_some(self, tasks: asyncio.TaskGroup) -> bool:
        """Attempt to place the pods of one turn; tell whether more may be waiting."""
        ends = self._clock.monotonic() + _TURN_SECONDS
        for _ in range(_TURN_PODS):
            self._handle_events()
            entry = self._queue.pop()
            if entry is None:
                return False
            self._attempt_safely(entry, tasks)
            if self._clock.monotonic() >= ends:
                break
        return True

    def _handle_events(self) -> None:
        if self.engine.guard.advance(self._clock.monotonic()):
            self._queue.recheck_gates()
        with surviving("events"):
            self.results.metrics.woken.inc(self._queue.handle_events())

    async def _keep_resyncing(self) -> None:
        while True:
            await self._clock.sleep(self.engine.resync_seconds)
            with surviving("resync"):
                self.mirror.apply(self.mirror.cache.resync(self._clock.monotonic()))

    def _attempt_safely(self, entry: QueuedPod, tasks: asyncio.TaskGroup) -> None:
        """Attempt to place a pod; a plugin's bug costs that pod alone, which is tried again."""
        started = self._clock.monotonic()
        try:
            self._attempt(entry, tasks, started)
        except Exception as error:
            message = f"internal error: {reason_of(error)}"
            if message != entry.message:
                _log.error("cycle_failed", pod=entry.pod.key, error=message, exc_info=error)
            with surviving("recording"):
                self.recording.begin(entry)
            self.results.failed(entry, message, started)

    def _attempt(self, entry: QueuedPod, tasks: asyncio.TaskGroup, started: float) -> None:
        runtime = self.engine.runtimes.get(entry.pod.scheduler_name)
        if runtime is None or entry.pod.is_being_deleted:
            self._queue.remove(entry.uid)
            return
        self.results.metrics.begin_attempt()
        gang = self.gangs.gang_of(entry.pod)
        if gang is not None:
            self.gangs.attempt(entry, gang, tasks, started)
            return
        decision = self.cycle.decide(entry.pod, runtime)
        self.results.decided(entry, decision, started)
        if isinstance(decision, Failed):
            self.results.failed(entry, decision.why, started)
        elif isinstance(decision, Chosen):
            placement = Placement(entry, runtime, decision.node, decision.state, started)
            self._bindings.start(placement, tasks)
        else:
            self._refuse(entry, decision, tasks, started)

    def _refuse(
        self, entry: QueuedPod, decision: Refused, tasks: asyncio.TaskGroup, started: float
    ) -> None:
        message = decision.diagnosis.message()
        self.results.tell_refused(entry, decision, message, started)
        may_preempt = self.engine.shards.may_preempt(entry.pod)
        nomination = decision.nomination if may_preempt else None
        self._preemptions.follow(entry.pod, nomination, tasks)
        self.results.put_back(entry, decision, message, started)
