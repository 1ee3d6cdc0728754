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

from numakube.apps.ordered_binds import Bound, Lanes, Result
from numakube.apps.scheduler.attempt_results import surviving
from numakube.scheduling.framework.bind_annotations import as_bound
from numakube.scheduling.framework.status import Code, Status, failure
from numakube.scheduling.numa.topology_match import pending_changes
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.ordered_binds import Turn
    from numakube.apps.scheduler.attempt_results import Results
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.apps.scheduler.preemption_actions import Preemptions
    from numakube.apps.scheduler.waiting_pods import WaitingPods
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.plugins.node_shards import NodeShards
    from numakube.scheduling.queue.queued_pod import QueuedPod
    from numakube.scheduling.snapshot.pods import PodInfo

_LAST_BINDINGS_SECONDS: Final = 3.0
"""Within the time between a leader's deadline and the end of its lease."""
_MANY: Final = 8
"""Pods on their way that are worth waiting for; a server that is not busy answers at once."""
_STOPPING: Final = Bound(Result.FAILED, "the scheduler is stopping")
_NOT_OURS: Final = Bound(Result.FAILED, "the node went to another shard")

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Placement:
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
        queue: PodQueue,
        *,
        results: Results,
        preemptions: Preemptions,
        permits: WaitingPods,
        shards: NodeShards,
    ) -> None:
        self._shards = shards
        self._mirror = mirror
        self._queue = queue
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

    def start(self, placement: Placement, tasks: asyncio.TaskGroup) -> None:
        """Reserve for the pod, and let it be bound by one of *tasks*."""
        status = self.reserve(placement)
        if status.ok:
            self.carry_out(placement, tasks)
        else:
            self._results.failed(placement.entry, status.message, placement.started)

    def reserve(self, placement: Placement) -> Status:
        """Count the pod on its node, unless a plugin refuses to."""
        status = self._reserve(placement)
        if status.ok:
            self._mirror.assume(as_bound(placement.state, placement.pod), placement.node)
        return status

    def give_back(self, placement: Placement) -> None:
        """Count a pod that was reserved for on no node."""
        placement.runtime.unreserve(placement.state, placement.pod, placement.node)
        self._mirror.apply(pending_changes(placement.state))
        self._mirror.forget(placement.pod)

    def carry_out(self, placement: Placement, tasks: asyncio.TaskGroup) -> None:
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
        placement: Placement,
        work: Callable[[], Awaitable[Bound]],
        tasks: asyncio.TaskGroup,
        *,
        waits: bool = False,
    ) -> asyncio.Task[None]:
        """Let *work* bind the pod, which others may overtake if it *waits*."""
        self._pods.add(placement.pod.uid)
        if waits:
            with surviving("putting a pod behind others"):
                placement.runtime.postpone(placement.state, placement.pod, placement.node)
            self._mirror.apply(pending_changes(placement.state))
        task = tasks.create_task(self._settle(placement, work, waits=waits))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self) -> None:
        """Give bindings under way a moment to be answered."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_BINDINGS_SECONDS)

    def _reserve(self, placement: Placement) -> Status:
        pod, state = placement.pod, placement.state
        node = self._mirror.cluster.node(placement.node)
        if node is None:
            return failure(f"node {placement.node} is gone")
        try:
            return placement.runtime.reserve(state, pod, node)
        except Exception:
            placement.runtime.unreserve(state, pod, node.name)
            raise
        finally:
            self._mirror.apply(pending_changes(state))

    async def _settle(
        self, placement: Placement, work: Callable[[], Awaitable[Bound]], *, waits: bool
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
                    if waits and bound.result is Result.FAILED and self._queue.leads:
                        self._preemptions.expect_no_more(placement.pod)

    async def _bind_after_wait(self, placement: Placement, seconds: float | None) -> Bound:
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
        placement.runtime.resume(placement.state, pod, node)
        self._mirror.apply(pending_changes(placement.state))
        self._results.recording.reserved(pod.uid, node)
        return await self._bind_in_turn(placement, self._lanes.on(node), is_prepared=True)

    async def _bind_in_turn(
        self, placement: Placement, turn: Turn, *, is_prepared: bool = False
    ) -> Bound:
        async with turn:
            hindrance = self._hindrance(placement)
            if hindrance is not None:
                return hindrance
            with self._counted():
                unprepared = None if is_prepared else await self._prepare(placement)
                return unprepared or await self._bind(placement)

    def _hindrance(self, placement: Placement) -> Bound | None:
        """Return why the pod must not be bound as things are now; ``None`` if it may."""
        node = self._mirror.cluster.node(placement.node)
        if not self._shards.holds(node):
            return _NOT_OURS
        if not self._queue.leads:
            return _STOPPING
        return Bound(Result.FAILED, f"node {placement.node} is gone") if node is None else None

    async def _prepare(self, placement: Placement) -> Bound | None:
        """Let plugins do what must be done first; return what failed."""
        for plugin in placement.runtime.pre_binds:
            with self._results.metrics.timer("PreBind", plugin.name):
                status = await plugin.pre_bind(placement.state, placement.pod, placement.node)
            if not status.ok and not status.skipped:
                return Bound(Result.FAILED, f"{plugin.name}: {status.message}")
        return None

    async def _bind(self, placement: Placement) -> Bound:
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

    def _is_bound(self, placement: Placement) -> None:
        self._queue.remove(placement.pod.uid)
        self._preemptions.forget(placement.pod, placement.node)
        try:
            for plugin in placement.runtime.post_binds:
                plugin.post_bind(placement.state, placement.pod, placement.node)
        finally:
            self._mirror.apply(pending_changes(placement.state))
        self._results.bound(placement.entry, placement.node, placement.started)

    def _is_not_bound(self, placement: Placement, bound: Bound) -> None:
        entry, node = placement.entry, placement.node
        self.give_back(placement)
        if not self._queue.leads:
            self._results.left_to_next_leader(entry, bound.reason)
        elif bound.result is Result.FAILED:
            message = f"binding to {node} failed: {bound.reason}"
            self._results.failed(entry, message, placement.started)
        else:
            self._results.taken_away(entry, node, bound.reason)


def _permit(placement: Placement) -> tuple[Status, float]:
    """Ask for permission; a plugin's mistake is a refusal, so that the reservation is undone."""
    try:
        return placement.runtime.permit(placement.state, placement.pod, placement.node)
    except Exception as error:
        return failure(f"internal error: {reason_of(error)}"), 0.0


def _waits_for_others(placement: Placement) -> bool:
    """Tell whether the pod will be held up before it is bound; after a plugin's mistake, not."""
    with surviving("looking at a binding"):
        return any(
            plugin.waits_for_others(placement.state, placement.pod, placement.node)
            for plugin in placement.runtime.pre_binds
        )
    return False


async def _bind_by_plugin(placement: Placement) -> Status:
    """Let the first plugin that does not decline bind the pod."""
    for plugin in placement.runtime.binds:
        status = await plugin.bind(placement.state, placement.pod, placement.node)
        if status.code is not Code.SKIP:
            return status
    return failure("no plugin binds this pod")
