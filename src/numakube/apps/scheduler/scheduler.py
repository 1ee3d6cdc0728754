"""The loop: whose turn it is, where it goes, and what is done about it.

Deciding is synchronous and alone changes the state that it decides on; binding, evicting and
telling users happen beside it. Whatever fails there is undone: the reservation, the assumed pod,
the place in the queue.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.meta import ObjectReference
from numakube.apps.binding import Bound, Lanes, Result
from numakube.apps.host.loglevel import SWITCH
from numakube.apps.scheduler.eviction import evict
from numakube.scheduling.cycle import Chosen, Failed, Refused
from numakube.scheduling.framework.bind_annotations import as_bound
from numakube.scheduling.framework.events import ClusterEvent, EventKind
from numakube.scheduling.framework.status import SUCCESS, Code, Status, failure
from numakube.scheduling.numa.topology_match import pending_changes
from numakube.scheduling.plugins.rejection_guard import is_rejection
from numakube.values.printing import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.apps.mirror import Mirror
    from numakube.apps.recording import Recording
    from numakube.apps.scheduler.metrics import SchedulerMetrics
    from numakube.apps.scheduler.outcomes import Outcomes
    from numakube.apps.scheduler.permits import WaitingPods
    from numakube.apps.scheduler.volumes import ApiVolumeActions
    from numakube.kube.client import Client
    from numakube.kube.events import EventRecorder
    from numakube.scheduling.cycle import Cycle
    from numakube.scheduling.framework.nominations import Nominations
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.numa.caches.contract import Changes
    from numakube.scheduling.plugins.rejection_guard import RejectionGuard
    from numakube.scheduling.queue.entries import QueuedPod
    from numakube.scheduling.queue.queue import SchedulingQueue
    from numakube.scheduling.snapshot.pods import PodInfo

_LAST_BINDINGS_SECONDS: Final = 3.0
"""Within the time between a leader's deadline and the end of its lease."""
_ATTEMPT_LABELS: Final = 15
"""Attempts beyond this share a label, as in kube-scheduler."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Scheduler:
    """Schedules the pods of its profiles; a `numakube.apps.mirror.Listener`."""

    def __init__(
        self,
        client: Client,
        *,
        mirror: Mirror,
        runtimes: Mapping[str, Runtime],
        queue: SchedulingQueue,
        cycle: Cycle,
        nominations: Nominations,
        guard: RejectionGuard,
        outcomes: Outcomes,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
        volumes: ApiVolumeActions,
        waiting: WaitingPods,
        recording: Recording,
        resync_seconds: float,
    ) -> None:
        self.queue = queue
        self.mirror = mirror
        self.runtimes = runtimes
        self.nominations = nominations
        self.guard = guard
        self.recording = recording
        self.client = client
        self._client = client
        self._clock = client.clock
        self._cycle = cycle
        self._outcomes = outcomes
        self._recorder = recorder
        self._metrics = metrics
        self._volumes = volumes
        self._waiting = waiting
        self._resync_seconds = resync_seconds
        self._lanes = Lanes()
        self._events: list[ClusterEvent] = []
        self._wakeup = asyncio.Event()
        self._victims: dict[str, str] = {}
        self._binding: set[str] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._leads = False

    # What the mirror tells.

    def pod_waits(self, pod: PodInfo) -> None:
        """Queue a pod of ours."""
        if pod.scheduler_name not in self.runtimes or pod.is_being_deleted:
            self.queue.remove(pod.uid)
            return
        if pod.nominated_node_name and self.nominations.node_of(pod.uid) is None:
            self.nominations.nominate(pod, pod.nominated_node_name)
        self.queue.add(pod, self._clock.monotonic())
        self._wakeup.set()

    def pod_placed(self, pod: PodInfo) -> None:
        """Wait no longer for a pod that has a node."""
        self.nominations.drop(pod.uid)
        self.recording.placed(pod)
        if pod.uid not in self._binding:
            self.queue.remove(pod.uid)

    def pod_gone(self, pod: PodInfo) -> None:
        """Forget a pod."""
        self.queue.remove(pod.uid)
        self.nominations.drop(pod.uid)
        if not pod.has_ended:
            self.recording.deleted(pod)
        self._room_was_made(pod.uid)

    def pod_ended(self, pod: PodInfo) -> None:
        """Learn from a pod that a kubelet refused."""
        self.recording.ended(pod)
        if is_rejection(pod) and pod.scheduler_name in self.runtimes:
            self._learn_from(pod)

    def happened(self, event: ClusterEvent) -> None:
        """Remember an event until the next cycle; who stands by has refused nobody yet."""
        if self._leads:
            self._events.append(event)
            self._wakeup.set()
        if event.kind is EventKind.NODE_REMOVED:
            self.recording.flush()
        if event.kind is EventKind.STORAGE_CHANGED:
            self._volumes.storage_changed()

    def cache_changed(self, changes: Changes) -> None:
        """Count and log what the NUMA cache found."""
        self.recording.cache_changed(changes)
        for fact in changes.facts:
            self._metrics.facts.labels(fact.kind.value).inc()
            _log.info(
                "numa_cache", kind=fact.kind.value, node=fact.node, pod=fact.pod, text=fact.text
            )
        for one in changes.mispredictions:
            self._metrics.mispredictions.labels(str(one.severity)).inc()
            _log.warning("misprediction", node=one.node, pod=one.pod, severity=str(one.severity))

    # The loop.

    @property
    def leads(self) -> bool:
        """Whether it schedules, rather than standing by."""
        return self._leads

    async def run(self) -> None:
        """Schedule until cancelled; requests under way are given a moment to be answered."""
        self._leads = True
        async with asyncio.TaskGroup() as bindings:
            resync = bindings.create_task(self._keep_resyncing())
            try:
                await self._loop(bindings)
            finally:
                self._leads = False
                resync.cancel()
                if self._under_way:
                    await asyncio.wait(self._under_way, timeout=_LAST_BINDINGS_SECONDS)

    async def _loop(self, bindings: asyncio.TaskGroup) -> None:
        while True:
            self._handle_events()
            entry = self.queue.pop(self._clock.monotonic())
            if entry is None:
                await self._idle()
                continue
            self._attempt_safely(entry, bindings)
            # Let answers and watches in between two cycles.
            await asyncio.sleep(0)

    def _handle_events(self) -> None:
        now = self._clock.monotonic()
        if self.guard.advance(now):
            self._events.append(ClusterEvent(kind=EventKind.OTHER))
            self.queue.recheck_gates(now)
        if self._events:
            events, self._events = self._events, []
            with self._surviving("events"):
                self._metrics.woken.inc(self.queue.handle(events, now))

    @contextmanager
    def _surviving(self, doing: str) -> Iterator[None]:
        """Log a bug instead of ending for it: a plugin's mistake must not stop all scheduling."""
        try:
            yield
        except Exception as error:
            _log.error("bug", doing=doing, error=reason_of(error), exc_info=error)

    async def _idle(self) -> None:
        """Wait for an event, or for the time of a pod that backs off."""
        self._wakeup.clear()
        self.recording.flush()
        times = [one for one in (self.queue.next_wakeup(), self.guard.next_change()) if one]
        if not times:
            await self._wakeup.wait()
            return
        try:
            async with self._clock.timeout(max(min(times) - self._clock.monotonic(), 0.001)):
                await self._wakeup.wait()
        except TimeoutError:
            pass

    async def _keep_resyncing(self) -> None:
        while True:
            await self._clock.sleep(self._resync_seconds)
            with self._surviving("resync"):
                self.mirror.apply(self.mirror.cache.resync(self._clock.monotonic()))

    def _attempt_safely(self, entry: QueuedPod, bindings: asyncio.TaskGroup) -> None:
        """Attempt to place a pod; a plugin's bug costs that pod alone, which is tried again."""
        started = self._clock.monotonic()
        try:
            self._attempt(entry, bindings, started)
        except Exception as error:
            message = f"internal error: {reason_of(error)}"
            if message != entry.message:
                _log.error("cycle_failed", pod=entry.pod.key, error=message, exc_info=error)
            with self._surviving("recording"):
                self.recording.begin(entry)
            self._fail(entry, message, started)

    def _attempt(self, entry: QueuedPod, bindings: asyncio.TaskGroup, started: float) -> None:
        pod = entry.pod
        runtime = self.runtimes.get(pod.scheduler_name)
        if runtime is None or pod.is_being_deleted:
            self.queue.remove(pod.uid)
            return
        self._metrics.begin_attempt()
        decision = self._cycle.decide(pod, runtime)
        self._metrics.algorithm_seconds.observe(self._clock.monotonic() - started)
        if not isinstance(decision, Refused):
            self.recording.tried(entry, decision, started=started)
        if SWITCH.details:
            _log_details(entry, decision)
        if isinstance(decision, Failed):
            status = decision.status
            self._fail(entry, f"{status.plugin}: {status.message}", started)
        elif isinstance(decision, Chosen):
            self._commit(entry, runtime, decision, bindings, started)
        else:
            self._refuse(entry, runtime, decision, bindings, started)

    def _commit(
        self,
        entry: QueuedPod,
        runtime: Runtime,
        decision: Chosen,
        bindings: asyncio.TaskGroup,
        started: float,
    ) -> None:
        pod, node = entry.pod, self.mirror.cluster.node(decision.node)
        if node is None:
            self._fail(entry, f"node {decision.node} is gone", started)
            return
        try:
            status = runtime.reserve(decision.state, pod, node)
        except Exception:
            runtime.unreserve(decision.state, pod, node.name)
            raise
        finally:
            self.mirror.apply(pending_changes(decision.state))
        if not status.ok:
            self._fail(entry, status.message, started)
            return
        self.mirror.assume(as_bound(decision.state, pod), node.name)
        self.recording.reserved(pod.uid, node.name)
        self._binding.add(pod.uid)
        try:
            status, seconds = runtime.permit(decision.state, pod, node.name)
        except Exception as error:
            status, seconds = failure(f"internal error: {reason_of(error)}"), 0.0
        if status.ok or status.code is Code.WAIT:
            wait = None if status.ok else seconds
            task = bindings.create_task(self._bind(entry, runtime, decision, started, wait))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        else:
            bound = Bound(Result.FAILED, f"{status.plugin}: {status.message}")
            self._binding.discard(pod.uid)
            self._is_not_bound(entry, runtime, decision, bound, started)

    async def _bind(
        self,
        entry: QueuedPod,
        runtime: Runtime,
        decision: Chosen,
        started: float,
        wait: float | None,
    ) -> None:
        pod, node = entry.pod, decision.node
        bound = Bound(Result.FAILED, "the scheduler is stopping")
        try:
            allowed = SUCCESS if wait is None else await self._waiting.answer(pod, wait)
            if allowed.ok:
                async with self._lanes.on(node):
                    if self._leads:
                        bound = await self._bind_in_turn(runtime, decision, pod)
            else:
                bound = Bound(Result.FAILED, allowed.message)
        finally:
            self._binding.discard(pod.uid)
            with self._surviving("binding"):
                if bound.result is Result.BOUND:
                    self._is_bound(entry, runtime, decision, started)
                else:
                    self._is_not_bound(entry, runtime, decision, bound, started)

    async def _bind_in_turn(self, runtime: Runtime, decision: Chosen, pod: PodInfo) -> Bound:
        state, node = decision.state, decision.node
        try:
            for plugin in runtime.pre_binds:
                with self._metrics.timer("PreBind", plugin.name):
                    status = await plugin.pre_bind(state, pod, node)
                if not status.ok and not status.skipped:
                    return Bound(Result.FAILED, f"{plugin.name}: {status.message}")
            await self._outcomes.withdraw(pod)
            with self._metrics.timer("Bind", "all"):
                status = await _bind_by(runtime, decision, pod)
        except Exception as error:
            reason = reason_of(error)
            _log.error("binding_failed", pod=pod.key, node=node, error=reason, exc_info=error)
            status = failure(reason)
        if isinstance(status.detail, Bound):
            return status.detail
        return Bound(Result.BOUND) if status.ok else Bound(Result.FAILED, status.message)

    def _is_bound(
        self, entry: QueuedPod, runtime: Runtime, decision: Chosen, started: float
    ) -> None:
        pod, node, now = entry.pod, decision.node, self._clock.monotonic()
        self.queue.remove(pod.uid)
        self.nominations.drop(pod.uid)
        try:
            for plugin in runtime.post_binds:
                plugin.post_bind(decision.state, pod, node)
        finally:
            self.mirror.apply(pending_changes(decision.state))
        if SWITCH.details:
            _log.debug("bound", pod=pod.key, node=node, attempts=entry.attempts)
        self._outcomes.scheduled(pod, node)
        self.recording.bound(pod.uid, node)
        self._observe("scheduled", entry, started)
        attempts = min(entry.attempts, _ATTEMPT_LABELS)
        label = f"{attempts}+" if entry.attempts > _ATTEMPT_LABELS else str(attempts)
        self._metrics.sli_seconds.labels(label).observe(now - entry.added_at)
        self._metrics.pod_attempts.observe(entry.attempts)

    def _is_not_bound(
        self, entry: QueuedPod, runtime: Runtime, decision: Chosen, bound: Bound, started: float
    ) -> None:
        runtime.unreserve(decision.state, entry.pod, decision.node)
        self.mirror.apply(pending_changes(decision.state))
        self.mirror.forget(entry.pod)
        if not self._leads:
            # Whoever leads next tries again: nothing has gone wrong that users should know.
            self.queue.failed(entry, self._clock.monotonic())
            self.recording.not_bound(entry.uid, bound.reason)
        elif bound.result is Result.FAILED:
            self._fail(entry, f"binding to {decision.node} failed: {bound.reason}", started)
        else:
            self.queue.remove(entry.uid)
            self.recording.not_bound(entry.uid, bound.reason)
            _log.info("not_bound", pod=entry.pod.key, node=decision.node, reason=bound.reason)

    def _refuse(
        self,
        entry: QueuedPod,
        runtime: Runtime,
        decision: Refused,
        bindings: asyncio.TaskGroup,
        started: float,
    ) -> None:
        pod, now = entry.pod, self._clock.monotonic()
        message = decision.diagnosis.message()
        self.recording.tried(entry, decision, started=started, message=message)
        if message != entry.message:
            self._outcomes.refused(pod, message)
        if decision.nomination is not None:
            self._make_room(pod, decision.nomination, bindings)
        elif self.nominations.drop(pod.uid) is not None:
            self._outcomes.nominated(pod, "")
        if decision.unfinished:
            self.queue.failed(entry, now, message=message)
        else:
            self.queue.refused(entry, decision.diagnosis.plugins(), now, message=message)
        self._observe("unschedulable", entry, started)

    def _make_room(self, pod: PodInfo, nomination: Nomination, bindings: asyncio.TaskGroup) -> None:
        node = nomination.node
        for loser in self.nominations.below(pod.priority, node):
            self.nominations.drop(loser.uid)
            self._outcomes.nominated(loser, "")
        self.nominations.nominate(pod, node)
        self._outcomes.nominated(pod, node)
        self._metrics.preemptions.inc()
        self._metrics.victims.observe(len(nomination.victims))
        for victim in nomination.victims:
            self._victims[victim.uid] = pod.uid
            self._outcomes.preempted(victim, pod, node)
        bindings.create_task(self._evict(pod, nomination))

    async def _evict(self, pod: PodInfo, nomination: Nomination) -> None:
        problems = ["not carried out"]
        with self._surviving("eviction"):
            problems = await evict(self._client, nomination.victims, pod, nomination.node)
        if problems:
            for victim in nomination.victims:
                self._victims.pop(victim.uid, None)
            self.queue.activate([pod.uid], self._clock.monotonic(), "an eviction failed")
            self._wakeup.set()

    def _room_was_made(self, victim: str) -> None:
        preemptor = self._victims.pop(victim, None)
        if preemptor is not None and preemptor not in self._victims.values():
            self.queue.activate([preemptor], self._clock.monotonic(), "the last victim is gone")
            self._wakeup.set()

    def _fail(self, entry: QueuedPod, message: str, started: float) -> None:
        if message != entry.message and entry.uid in self.queue:
            self._outcomes.refused(entry.pod, message, reason="SchedulerError")
        self.queue.failed(entry, self._clock.monotonic(), message=message)
        self.recording.not_bound(entry.uid, message)
        self._observe("error", entry, started)
        self._wakeup.set()

    def _learn_from(self, pod: PodInfo) -> None:
        reason = pod.pod.status.reason if pod.pod.status else ""
        self._metrics.rejections.labels(reason).inc()
        _log.warning("kubelet_rejected_pod", pod=pod.key, node=pod.node_name, reason=reason)
        owner = self.guard.rejected(pod, self._clock.monotonic())
        self._metrics.runaways.set(self.guard.runaways)
        if owner is not None and self._leads:
            about = ObjectReference(
                api_version=owner.api_version,
                kind=owner.kind,
                namespace=pod.namespace,
                name=owner.name,
                uid=owner.uid,
            )
            text = (
                f"kubelets keep rejecting pods of this {owner.kind} ({reason}, last on "
                f"{pod.node_name}); its pods are held back for a while"
            )
            self._recorder.warning(about, "PodsRejectedByKubelet", text, action="Scheduling")

    def _observe(self, result: str, entry: QueuedPod, started: float) -> None:
        profile = entry.pod.scheduler_name
        seconds = self._clock.monotonic() - started
        self._metrics.attempts.labels(result, profile).inc()
        self._metrics.attempt_seconds.labels(result, profile).observe(seconds)


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


async def _bind_by(runtime: Runtime, decision: Chosen, pod: PodInfo) -> Status:
    """Let the first plugin that does not decline bind the pod."""
    for plugin in runtime.binds:
        status = await plugin.bind(decision.state, pod, decision.node)
        if status.code is not Code.SKIP:
            return status
    return failure("no plugin binds this pod")
