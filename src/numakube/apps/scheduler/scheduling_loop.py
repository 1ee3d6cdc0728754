"""The loop: whose turn it is, where it goes, and what is done about it.

Deciding is synchronous and alone changes the state that it decides on; binding, evicting and
telling users happen beside it. Whatever fails there is undone: the reservation, the assumed pod,
the place in the queue.

The loop itself knows no plugin and no gang. A step does: `PodStep` decides about one pod,
`numakube.apps.scheduler.gang_step` about all waiting members of a gang.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from numakube.apps.scheduler.binding_cycle import BindingPlacement, surviving
from numakube.scheduling.cycle import Chosen, Failed
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.scheduling_queue import Place
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence

    from numakube.apps.flight_recording import Recording
    from numakube.apps.scheduler.binding_cycle import BindingCycle, Results
    from numakube.apps.scheduler.preemption_actions import Preemptions
    from numakube.kube.clock import Clock
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.cycle import Cycle, Refused
    from numakube.scheduling.plugins.rejection_guard import RejectionGuard
    from numakube.scheduling.scheduling_queue import QueuedPod, SchedulingQueue
    from numakube.scheduling.snapshot.pods import PodInfo


_TURN_PODS: Final = 16
_TURN_SECONDS: Final = 0.02
"""How many pods are decided on, and for how long, before their bindings are sent together.

An API server and its etcd take a tenth less CPU for requests that arrive together than for the same
requests one by one. A pod that comes alone is bound at once.
"""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class SchedulingStep(Protocol):
    """Decides about pods of one sort, and has the decision carried out."""

    def takes(self, pod: PodInfo) -> bool:
        """Tell whether *pod* is of this sort."""
        ...

    def others(self, pod: PodInfo) -> Iterable[str]:
        """Return the uids of pods that are tried together with *pod*, if they wait."""
        ...

    def attempt(
        self, entries: Sequence[QueuedPod], tasks: asyncio.TaskGroup, started: float
    ) -> None:
        """Place the pods, the first of which came first, or put them back with the reason.

        What takes time is left to *tasks*. An exception has the loop put back those that are not
        on their way to a node.
        """
        ...


class Scheduler:
    """Schedules the pods of its profiles while it leads."""

    def __init__(
        self,
        queue: PodQueue,
        steps: Sequence[SchedulingStep],
        *,
        bindings: BindingCycle,
        results: Results,
        upkeep: Iterable[Callable[[], Coroutine[object, object, None]]],
    ) -> None:
        """Prepare a loop.

        Args:
            queue: the pods that wait.
            steps: the first that takes a pod decides about it.
            bindings: the pods on their way to a node.
            results: where pods go whose attempt broke.
            upkeep: what runs beside the loop, and ends with it.
        """
        self.queue = queue.waiting
        self.results = results
        self._queue = queue
        self._steps = steps
        self._bindings = bindings
        self._upkeep = tuple(upkeep)
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
            beside = [tasks.create_task(work()) for work in self._upkeep]
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
                await self._queue.rest()

    def _attempt_some(self, tasks: asyncio.TaskGroup) -> bool:
        """Attempt to place the pods of one turn; tell whether more may be waiting."""
        clock = self._queue.clock
        ends = clock.monotonic() + _TURN_SECONDS
        for _ in range(_TURN_PODS):
            with surviving("events"):
                self.results.metrics.woken.inc(self._queue.handle_events())
            entry = self._queue.pop()
            if entry is None:
                return False
            self._attempt(entry, tasks)
            if clock.monotonic() >= ends:
                break
        return True

    def _attempt(self, entry: QueuedPod, tasks: asyncio.TaskGroup) -> None:
        """Have a step place a pod; a plugin's bug costs that pod alone, which is tried again."""
        started, entries = self._queue.clock.monotonic(), [entry]
        try:
            step = next(step for step in self._steps if step.takes(entry.pod))
            entries += self._queue.waiting.take(step.others(entry.pod))
            step.attempt(entries, tasks, started)
        except Exception as error:
            message = f"internal error: {reason_of(error)}"
            if message != entry.message:
                _log.error("cycle_failed", pod=entry.pod.key, error=message, exc_info=error)
            with surviving("recording"):
                self.recording.begin(entry)
            for member in entries:
                if member is entry or member.uid not in self._bindings:
                    self.results.failed(member, message, started)


class PodStep:
    """Decides about one pod."""

    def __init__(
        self,
        engine: Engine,
        cycle: Cycle,
        *,
        bindings: BindingCycle,
        preemptions: Preemptions,
        results: Results,
    ) -> None:
        self._engine = engine
        self._cycle = cycle
        self._bindings = bindings
        self._preemptions = preemptions
        self._results = results

    def takes(self, pod: PodInfo) -> bool:
        """Take every pod."""
        del pod
        return True

    def others(self, pod: PodInfo) -> Iterable[str]:
        """Take no pod along."""
        del pod
        return ()

    def attempt(
        self, entries: Sequence[QueuedPod], tasks: asyncio.TaskGroup, started: float
    ) -> None:
        """Bind the one pod, or say why it fits nowhere; forget it if it is of no concern now."""
        (entry,) = entries
        runtime = self._engine.runtimes.get(entry.pod.scheduler_name)
        if runtime is None or entry.pod.is_being_deleted:
            self._results.forget(entry)
            return
        self._results.metrics.begin_attempt()
        decision = self._cycle.decide(entry.pod, runtime)
        self._results.decided(entry, decision, started)
        if isinstance(decision, Failed):
            self._results.failed(entry, decision.why, started)
        elif isinstance(decision, Chosen):
            placement = BindingPlacement(entry, runtime, decision.node, decision.state, started)
            self._bindings.start(placement, tasks)
        else:
            self._refuse(entry, decision, tasks, started)

    def _refuse(
        self, entry: QueuedPod, decision: Refused, tasks: asyncio.TaskGroup, started: float
    ) -> None:
        message = decision.diagnosis.message()
        self._results.tell_refused(entry, decision, message, started)
        may_preempt = self._engine.shards.may_preempt(entry.pod)
        nomination = decision.nomination if may_preempt else None
        self._preemptions.follow(entry.pod, nomination, tasks)
        self._results.put_back(entry, decision, message, started)


# The scheduling queue with a clock, and a bell that ends the loop's rest.


class PodQueue:
    """What waits for the loop: pods, and events that may help them.

    Attributes:
        waiting: the pods.
        guard: knows which workloads have to wait for a while.
        clock: the time that pods wait by.
        leads: whether a loop works it off, rather than standing by.
    """

    def __init__(self, waiting: SchedulingQueue, guard: RejectionGuard, clock: Clock) -> None:
        self.waiting = waiting
        self.guard = guard
        self.clock = clock
        self.leads = False
        self._events: list[ClusterEvent] = []
        self._bell = asyncio.Event()

    def __contains__(self, uid: str) -> bool:
        return uid in self.waiting

    def add(self, pod: PodInfo) -> None:
        """Take in a new pod, or the new version of a waiting one."""
        self.waiting.add(pod, self.clock.monotonic())
        self._bell.set()

    def remove(self, uid: str) -> None:
        """Forget a pod: it was deleted, bound, or is no longer ours."""
        self.waiting.remove(uid)

    def placed(self, uid: str) -> None:
        """Forget a pod that has a node; one in flight is forgotten when its binding is answered."""
        entry = self.waiting.get(uid)
        if entry is not None and entry.place is not Place.IN_FLIGHT:
            self.waiting.remove(uid)

    def pop(self) -> QueuedPod | None:
        """Return the pod to try now."""
        return self.waiting.pop(self.clock.monotonic())

    def failed(self, entry: QueuedPod, message: str = "", *, costly: bool = False) -> None:
        """Put back a pod whose attempt failed; it is tried again after a backoff."""
        self.waiting.failed(entry, self.clock.monotonic(), message=message, costly=costly)
        self._bell.set()

    def refused(self, entry: QueuedPod, refused_by: frozenset[str], message: str) -> None:
        """Put back a pod that fits nowhere; it waits for an event."""
        self.waiting.refused(entry, refused_by, self.clock.monotonic(), message=message)

    def activate(self, uid: str, why: str) -> None:
        """Let a pod be tried at once, whatever it waits for."""
        self.waiting.activate([uid], self.clock.monotonic(), why)
        self._bell.set()

    def happened(self, event: ClusterEvent) -> None:
        """Remember an event until the next cycle; a scheduler that stands by refused no pod yet."""
        if self.leads:
            self._events.append(event)
            self._bell.set()

    def recheck_gates(self) -> None:
        """Ask again about pods that must not be tried: what held them back is over."""
        self._events.append(ClusterEvent(kind=EventKind.OTHER))
        self.waiting.recheck_gates(self.clock.monotonic())

    def ask_gates(self, opener: Hashable) -> None:
        """Ask again about pods that must not be tried and that *opener* may help."""
        self.waiting.recheck_gates(self.clock.monotonic(), opener)
        self._bell.set()

    def handle_events(self) -> int:
        """Wake the pods that time or the events since the last call may help; return how many."""
        if self.guard.advance(self.clock.monotonic()):
            self.recheck_gates()
        if not self._events:
            return 0
        events, self._events = self._events, []
        return self.waiting.handle(events, self.clock.monotonic())

    async def rest(self) -> None:
        """Wait for a pod, for an event, or for the end of a backoff or of a workload's wait."""
        self._bell.clear()
        times = [when for when in (self.waiting.next_wakeup(), self.guard.next_change()) if when]
        if not times:
            await self._bell.wait()
            return
        try:
            async with self.clock.timeout(max(min(times) - self.clock.monotonic(), 0.001)):
                await self._bell.wait()
        except TimeoutError:
            pass
