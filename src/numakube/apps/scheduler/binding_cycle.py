"""From a decision to a bound pod: reserve, ask for permission, bind; undo all of it if that fails.

Reserving happens in the loop, which alone changes the state that it decides on. The rest runs
beside it, one pod after the other on each node (`numakube.apps.ordered_binds.Lanes`): a kubelet
admits pods as they are bound, and what was foreseen for each assumes those before it. A pod has its
turn as soon as it is reserved for, so that bindings come in the order of the reservations.

A pod that has to wait for permission, volumes or devices has no turn until then, since those behind
it would wait with it. Plugins learn that others come first, and when it waits no longer, it queues
behind them. What was reserved may not hold in the new order, so every pod is looked at once more
right before it is bound.

Before it waits, the pod's status says where it will go, in ``nominatedNodeName`` (KEP-5278,
kube-scheduler since 1.35). The API server clears it when the pod is bound; if that fails, it is
cleared here.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.host.common_settings import SWITCH
from numakube.apps.ordered_binds import Bound, Lanes, Result
from numakube.scheduling.cycle import Chosen, Failed, Refused
from numakube.scheduling.framework.cycle_state import as_bound
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Code, Status, failure, unschedulable
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.flight_recording import Recording
    from numakube.apps.ordered_binds import Turn
    from numakube.apps.scheduler.decision_events import Outcomes
    from numakube.apps.scheduler.metrics import SchedulerMetrics
    from numakube.apps.scheduler.preemption_actions import Preemptions
    from numakube.apps.scheduler.scheduling_loop import PodQueue
    from numakube.kube.clock import Clock
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.plugins.node_shards import NodeShards
    from numakube.scheduling.scheduling_queue import QueuedPod
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


# What came of an attempt: where the pod waits next, and who learns of it.
#
# Users see events and conditions (`decision_events`), the flight recorder keeps the details,
# metrics count, and the log has the details that its level asks for.


_ATTEMPT_LABELS: Final = 15
"""Attempts beyond this share a label, as in kube-scheduler."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@contextmanager
def surviving(doing: str) -> Iterator[None]:
    """Log a bug instead of ending for it: a plugin's mistake must not stop all scheduling."""
    try:
        yield
    except Exception as error:
        _log.error("bug", doing=doing, error=reason_of(error), exc_info=error)


class Results:
    """Puts pods back into the queue or takes them off it, and tells everyone."""

    def __init__(
        self,
        queue: PodQueue,
        clock: Clock,
        *,
        outcomes: Outcomes,
        recording: Recording,
        metrics: SchedulerMetrics,
    ) -> None:
        self.outcomes = outcomes
        self.recording = recording
        self.metrics = metrics
        self._queue = queue
        self._clock = clock

    def decided(
        self, entry: QueuedPod, decision: Chosen | Refused | Failed, started: float
    ) -> None:
        """Note what a cycle came to; a refusal is recorded with its message, by `tell_refused`."""
        self.metrics.algorithm_seconds.observe(self._clock.monotonic() - started)
        if not isinstance(decision, Refused):
            self.recording.tried(entry, decision, started=started)
        if SWITCH.details:
            _log_details(entry, decision)

    @property
    def leads(self) -> bool:
        """Whether pods that are put back are this scheduler's to try."""
        return self._queue.leads

    def bound(self, entry: QueuedPod, node: str, started: float) -> None:
        """The pod has its node."""
        if SWITCH.details:
            _log.debug("bound", pod=entry.pod.key, node=node, attempts=entry.attempts)
        self.outcomes.scheduled(entry.pod, node)
        self.recording.bound(entry.uid, node)
        self._observe("scheduled", entry, started)
        attempts = min(entry.attempts, _ATTEMPT_LABELS)
        label = f"{attempts}+" if entry.attempts > _ATTEMPT_LABELS else str(attempts)
        waited = self._clock.monotonic() - entry.added_at
        self.metrics.sli_seconds.labels(label).observe(waited)
        self.metrics.pod_attempts.observe(entry.attempts)

    def tell_refused(
        self, entry: QueuedPod, decision: Refused, message: str, started: float
    ) -> None:
        """Say that the pod fits nowhere."""
        self.recording.tried(entry, decision, started=started, message=message)
        if message != entry.message:
            self.outcomes.refused(entry.pod, message, again=bool(entry.message))

    def put_back(
        self,
        entry: QueuedPod,
        decision: Refused,
        message: str,
        started: float,
        also_by: frozenset[str] = frozenset(),
    ) -> None:
        """Let a pod that fits nowhere wait for what may help it, or those that it needs."""
        if decision.diagnosis.is_costly:
            self._queue.failed(entry, message, costly=True)
        elif decision.unfinished:
            self._queue.failed(entry, message)
        else:
            self._queue.refused(entry, decision.diagnosis.plugins() | also_by, message)
        self.metrics.claims.refused(decision.diagnosis)
        self._observe("unschedulable", entry, started)

    def failed(self, entry: QueuedPod, message: str, started: float) -> None:
        """The attempt came to nothing; the pod is tried again after a backoff."""
        if message != entry.message and entry.uid in self._queue:
            again = bool(entry.message)
            self.outcomes.refused(entry.pod, message, reason="SchedulerError", again=again)
        self._queue.failed(entry, message)
        self.recording.not_bound(entry.uid, message)
        self._observe("error", entry, started)

    def left_to_next_leader(self, entry: QueuedPod, reason: str) -> None:
        """The next leader tries again: nothing has gone wrong that users should know."""
        self._queue.failed(entry)
        self.recording.not_bound(entry.uid, reason)

    def taken_away(self, entry: QueuedPod, node: str, reason: str) -> None:
        """The pod is gone, or was bound elsewhere."""
        self._queue.remove(entry.uid)
        self.recording.not_bound(entry.uid, reason)
        _log.info("not_bound", pod=entry.pod.key, node=node, reason=reason)

    def cache_changed(self, changes: BeliefChanges) -> None:
        """Count and log what the NUMA cache found."""
        self.recording.cache_changed(changes)
        for fact in changes.facts:
            self.metrics.facts.labels(fact.kind.value).inc()
            _log.info(
                "numa_cache", kind=fact.kind.value, node=fact.node, pod=fact.pod, text=fact.text
            )
        for missed in changes.mispredictions:
            severity = str(missed.severity)
            self.metrics.mispredictions.labels(severity).inc()
            _log.warning("misprediction", node=missed.node, pod=missed.pod, severity=severity)

    def forget(self, entry: QueuedPod) -> None:
        """Take a pod off the queue that is not to be scheduled any more."""
        self._queue.remove(entry.uid)

    def _observe(self, result: str, entry: QueuedPod, started: float) -> None:
        profile = entry.pod.scheduler_name
        seconds = self._clock.monotonic() - started
        self.metrics.attempts.labels(result, profile).inc()
        self.metrics.attempt_seconds.labels(result, profile).observe(seconds)


def _log_details(entry: QueuedPod, decision: Chosen | Refused | Failed) -> None:
    """Log what a cycle came to, for those who asked for it."""
    about = {"pod": entry.pod.key, "attempt": entry.attempts, "woken_by": entry.woken_by}
    match decision:
        case Chosen():
            _log.debug("chosen", **about, node=decision.node, feasible=decision.feasible)
        case Refused():
            for rows, status in decision.diagnosis.groups():
                _log.debug(
                    "refused", **about, nodes=len(rows), by=status.plugin, why=status.message
                )
        case Failed():
            _log.debug("failed", **about, by=decision.status.plugin, why=decision.status.message)


_LAST_BINDINGS_SECONDS: Final = 3.0
"""Within the time between a leader's deadline and the end of its lease."""
_MANY: Final = 8
"""Pods on their way that are worth waiting for; a server that is not busy answers at once."""
_STOPPING: Final = Bound(Result.FAILED, "the scheduler is stopping")
_NOT_OURS: Final = Bound(Result.FAILED, "the node went to another shard")


@dataclass(frozen=True, slots=True)
class BindingPlacement:
    """A pod on its way to the node that was chosen for it.

    The rest of the decision is not kept: its scores of all nodes take half a megabyte at 5,000, and
    hundreds of pods may be on their way.

    Attributes:
        node: the name of the node.
        state: what plugins remember of the cycle.
        started: when the attempt began.
    """

    entry: QueuedPod
    runtime: Runtime
    node: str
    state: CycleState
    started: float

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        return self.entry.pod


class BindingCycle:
    """Carries out placements."""

    def __init__(
        self,
        mirror: Mirror,
        *,
        results: Results,
        preemptions: Preemptions,
        permits: WaitingPods,
        shards: NodeShards,
    ) -> None:
        self._shards = shards
        self._mirror = mirror
        self._results = results
        self._preemptions = preemptions
        self._permits = permits
        self._lanes = Lanes()
        self._pods: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pods_under_way = 0

    @property
    def is_busy(self) -> bool:
        """Whether requests to bind many pods are under way."""
        return self._pods_under_way >= _MANY

    def __contains__(self, uid: str) -> bool:
        """Tell whether the pod is on its way."""
        return uid in self._pods

    def start(self, placement: BindingPlacement, tasks: asyncio.TaskGroup) -> None:
        """Reserve for the pod, and let it be bound by one of *tasks*."""
        status = self.reserve(placement)
        if status.ok:
            self.carry_out(placement, tasks)
        else:
            self._results.failed(placement.entry, status.message, placement.started)

    def reserve(self, placement: BindingPlacement) -> Status:
        """Count the pod on its node, unless a plugin refuses to."""
        pod, state = placement.pod, placement.state
        node = self._mirror.cluster.node(placement.node)
        if node is None:
            return failure(f"node {placement.node} is gone")
        try:
            booking = placement.runtime.reserve(state, pod, node)
        except Exception:
            self._mirror.apply(placement.runtime.unreserve(state, pod, node.name))
            raise
        self._mirror.apply(booking.changes)
        if booking.ok:
            self._mirror.assume(as_bound(state, pod), node.name)
        return booking.status

    def give_back(self, placement: BindingPlacement) -> None:
        """Undo `reserve`: stop counting the pod on its node."""
        runtime, pod = placement.runtime, placement.pod
        self._mirror.apply(runtime.unreserve(placement.state, pod, placement.node))
        self._mirror.forget(placement.pod)

    def undo_trial(self, placement: BindingPlacement) -> None:
        """Undo `reserve` for a pod that was only tried, so that nobody needs to know."""
        with self._mirror.silently():
            self.give_back(placement)

    def carry_out(self, placement: BindingPlacement, tasks: asyncio.TaskGroup) -> None:
        """Let a pod that was reserved for be bound by one of *tasks*."""
        pod, node = placement.pod, placement.node
        self._results.recording.reserved(pod.uid, node)
        status, seconds = _permit(placement)
        if status.code is Code.WAIT:
            work = partial(self._bind_after_wait, placement, seconds)
            self._begin(placement, work, tasks, waits=True)
        elif status.ok and _waits_for_others(placement):
            work = partial(self._bind_after_wait, placement, None)
            self._begin(placement, work, tasks, waits=True)
        elif status.ok:
            turn = self._lanes.on(node)
            task = self._begin(placement, partial(self._bind_in_turn, placement, turn), tasks)
            # A task that is cancelled before it starts does not get as far as its turn.
            task.add_done_callback(lambda _: turn.leave())
        else:
            refused = Bound(Result.FAILED, f"{status.plugin}: {status.message}")
            self._is_not_bound(placement, refused)

    def _begin(
        self,
        placement: BindingPlacement,
        work: Callable[[], Awaitable[Bound]],
        tasks: asyncio.TaskGroup,
        *,
        waits: bool = False,
    ) -> asyncio.Task[None]:
        """Let *work* bind the pod, which others may overtake if it *waits*."""
        self._pods.add(placement.pod.uid)
        if waits:
            with surviving("putting a pod behind others"):
                runtime, pod = placement.runtime, placement.pod
                self._mirror.apply(runtime.postpone(placement.state, pod, placement.node))
        task = tasks.create_task(self._settle(placement, work, waits=waits))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self) -> None:
        """Give bindings under way a moment to be answered."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_BINDINGS_SECONDS)

    async def _settle(
        self, placement: BindingPlacement, work: Callable[[], Awaitable[Bound]], *, waits: bool
    ) -> None:
        """Do *work*, and what follows from its result."""
        bound = _STOPPING
        try:
            bound = await work()
        except Exception as error:
            reason, pod = reason_of(error), placement.pod
            _log.error(
                "binding_failed", pod=pod.key, node=placement.node, error=reason, exc_info=error
            )
            bound = Bound(Result.FAILED, reason)
        finally:
            self._pods.discard(placement.pod.uid)
            with surviving("binding"):
                if bound.result is Result.BOUND:
                    self._is_bound(placement)
                else:
                    self._is_not_bound(placement, bound)
                    if waits and bound.result is Result.FAILED and self._results.leads:
                        self._preemptions.expect_no_more(placement.pod)

    async def _bind_after_wait(self, placement: BindingPlacement, seconds: float | None) -> Bound:
        """Wait for permission, if there are *seconds* for it, and for whatever plugins wait for."""
        pod, node = placement.pod, placement.node
        self._preemptions.expect(pod, node)
        if seconds is not None:
            allowed = await self._permits.answer(pod, seconds)
            if not allowed.ok:
                return Bound(Result.FAILED, allowed.message)
        unprepared = self._hindrance(placement) or await self._prepare(placement)
        if unprepared is not None:
            return unprepared
        self._mirror.apply(placement.runtime.resume(placement.state, pod, node))
        self._results.recording.reserved(pod.uid, node)
        return await self._bind_in_turn(placement, self._lanes.on(node), is_prepared=True)

    async def _bind_in_turn(
        self, placement: BindingPlacement, turn: Turn, *, is_prepared: bool = False
    ) -> Bound:
        async with turn:
            hindrance = self._hindrance(placement)
            if hindrance is not None:
                return hindrance
            with self._counted():
                unprepared = None if is_prepared else await self._prepare(placement)
                return unprepared or await self._bind(placement)

    def _hindrance(self, placement: BindingPlacement) -> Bound | None:
        """Return why the pod must not be bound as things are now; ``None`` if it may."""
        node = self._mirror.cluster.node(placement.node)
        if not self._shards.holds(node):
            return _NOT_OURS
        if not self._results.leads:
            return _STOPPING
        return Bound(Result.FAILED, f"node {placement.node} is gone") if node is None else None

    async def _prepare(self, placement: BindingPlacement) -> Bound | None:
        """Let plugins do what must be done first; return what failed."""
        for plugin in placement.runtime.pre_binds:
            with self._results.metrics.timer("PreBind", plugin.name):
                status = await plugin.pre_bind(placement.state, placement.pod, placement.node)
            if not status.ok and not status.skipped:
                return Bound(Result.FAILED, f"{plugin.name}: {status.message}")
        return None

    async def _bind(self, placement: BindingPlacement) -> Bound:
        pod, node = placement.pod, placement.node
        await self._results.outcomes.withdraw(pod)
        status = placement.runtime.still_holds(placement.state, pod, node)
        if not status.ok:
            return Bound(Result.FAILED, f"{status.plugin}: {status.message}")
        with self._results.metrics.timer("Bind", "all"):
            status = await _bind_by_plugin(placement)
        if isinstance(status.detail, Bound):
            return status.detail
        return Bound(Result.BOUND) if status.ok else Bound(Result.FAILED, status.message)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._pods_under_way += 1
        try:
            yield
        finally:
            self._pods_under_way -= 1

    def _is_bound(self, placement: BindingPlacement) -> None:
        self._results.forget(placement.entry)
        self._preemptions.forget(placement.pod, placement.node)
        runtime, pod = placement.runtime, placement.pod
        self._mirror.apply(runtime.post_bind(placement.state, pod, placement.node))
        self._results.bound(placement.entry, placement.node, placement.started)

    def _is_not_bound(self, placement: BindingPlacement, bound: Bound) -> None:
        entry, node = placement.entry, placement.node
        self.give_back(placement)
        if not self._results.leads:
            self._results.left_to_next_leader(entry, bound.reason)
        elif bound.result is Result.FAILED:
            message = f"binding to {node} failed: {bound.reason}"
            self._results.failed(entry, message, placement.started)
        else:
            self._results.taken_away(entry, node, bound.reason)


def _permit(placement: BindingPlacement) -> tuple[Status, float]:
    """Ask for permission; a plugin's mistake is a refusal, so that the reservation is undone."""
    try:
        return placement.runtime.permit(placement.state, placement.pod, placement.node)
    except Exception as error:
        return failure(f"internal error: {reason_of(error)}"), 0.0


def _waits_for_others(placement: BindingPlacement) -> bool:
    """Tell whether the pod will be held up before it is bound; after a plugin's mistake, not."""
    with surviving("looking at a binding"):
        return any(
            plugin.waits_for_others(placement.state, placement.pod, placement.node)
            for plugin in placement.runtime.pre_binds
        )
    return False


async def _bind_by_plugin(placement: BindingPlacement) -> Status:
    """Let the first plugin that does not decline bind the pod."""
    for plugin in placement.runtime.binds:
        status = await plugin.bind(placement.state, placement.pod, placement.node)
        if status.code is not Code.SKIP:
            return status
    return failure("no plugin binds this pod")


# Pods that a permit plugin holds back before they are bound.
#
# A plugin that answers `Code.WAIT` keeps the pod's reservation until it allows the pod, refuses it,
# or its time is over. It finds the pods that wait under the service `WAITING_PODS` of its handle.


WAITING_PODS: Final = Service["WaitingPods"]("waiting-pods")


class WaitingPods:
    """The pods that wait for permission, by uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[str, tuple[PodInfo, asyncio.Future[Status]]] = {}

    def __iter__(self) -> Iterator[PodInfo]:
        return iter([pod for pod, _ in self._answers.values()])

    def allow(self, uid: str) -> None:
        """Let a pod be bound; unknown ones are fine."""
        self._answer(uid, SUCCESS)

    def refuse(self, uid: str, reason: str) -> None:
        """Send a pod back to the queue."""
        self._answer(uid, unschedulable(reason))

    async def answer(self, pod: PodInfo, seconds: float) -> Status:
        """Return what becomes of *pod*, which may wait for *seconds*."""
        future: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self._answers[pod.uid] = (pod, future)
        try:
            async with self._clock.timeout(seconds):
                return await future
        except TimeoutError:
            return unschedulable(f"no permission within {seconds:g} s")
        finally:
            del self._answers[pod.uid]

    def _answer(self, uid: str, status: Status) -> None:
        waiting = self._answers.get(uid)
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(status)
