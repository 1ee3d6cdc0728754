"""Gangs in the scheduler: plans are carried out as a whole, and gangs are kept whole.

A step of the loop: when a member's turn comes, all other waiting members come with it. If the plan
(`numakube.scheduling.gang_planning`) gives the gang as many as it needs, all are bound; if not,
everything has been given back before another pod is tried. If members fit only after evictions,
nobody is evicted before there is room for all in this way, and all places are kept until the
victims are gone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from numakube.apps.scheduler.binding_cycle import BindingPlacement, surviving
from numakube.apps.scheduler.decision_events import SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE
from numakube.apps.scheduler.preemption_actions import evict
from numakube.scheduling.cycle import Failed, Refused
from numakube.scheduling.framework.status import Diagnosis, unresolvable
from numakube.scheduling.gang_placements import GangRequest, domains_of_nodes, gang_arguments
from numakube.scheduling.gang_planning import GangPlan, GangPlanner
from numakube.scheduling.plugins.gang_scheduling import GangScheduling, gang_to_plan
from numakube.scheduling.plugins.pod_gangs import gang_key, pod_group_of
from numakube.scheduling.scheduling_queue import Place
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.scheduler.binding_cycle import BindingCycle, Results
    from numakube.apps.scheduler.preemption_actions import Preemptions
    from numakube.kube.client import Client
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.cycle import Chosen
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.plugins.gang_scheduling import GangMembers, Members
    from numakube.scheduling.plugins.pod_gangs import Gang
    from numakube.scheduling.scheduling_queue import QueuedPod, SchedulingQueue
    from numakube.scheduling.snapshot.pods import PodInfo

_LOOK_SECONDS: Final = 1.0
"""How often gangs of which too few run are looked for."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The members that are tried together, and where their places are booked."""

    request: GangRequest
    entries: Mapping[str, QueuedPod]
    engine: Engine
    bindings: BindingCycle
    started: float

    def placement(self, pod: PodInfo, chosen: Chosen) -> BindingPlacement:
        """Return a member on its way to the node that was chosen."""
        runtime = self.engine.runtimes[pod.scheduler_name]
        entry = self.entries[pod.uid]
        return BindingPlacement(entry, runtime, chosen.node, chosen.state, self.started)

    def reserve(self, pod: PodInfo, chosen: Chosen) -> Status:
        """Count *pod* on the node that was chosen, unless a plugin refuses to."""
        return self.bindings.reserve(self.placement(pod, chosen))

    def give_back(self, pod: PodInfo, chosen: Chosen) -> None:
        """Count *pod* on no node; it was only tried, so that nobody needs to know."""
        self.bindings.undo_trial(self.placement(pod, chosen))


class GangStep:
    """Plans gangs and carries the plans out; a `scheduling_loop.Step`."""

    def __init__(
        self,
        engine: Engine,
        members: GangMembers,
        *,
        bindings: BindingCycle,
        preemptions: Preemptions,
        results: Results,
    ) -> None:
        self._engine = engine
        self._members = members
        self._bindings = bindings
        self._preemptions = preemptions
        self._results = results

    def takes(self, pod: PodInfo) -> bool:
        """Take the members of gangs that are planned as a whole."""
        is_ours = pod.scheduler_name in self._engine.runtimes and not pod.is_being_deleted
        return is_ours and gang_to_plan(pod, self._engine.cluster.objects) is not None

    def others(self, pod: PodInfo) -> Iterable[str]:
        """Take all waiting members along."""
        return [uid for uid in self._members.of(pod).waiting if uid != pod.uid]

    def attempt(
        self, entries: Sequence[QueuedPod], tasks: asyncio.TaskGroup, started: float
    ) -> None:
        """Place the gang of *entries*, or say why it does not fit."""
        first = entries[0].pod
        self._results.metrics.begin_attempt()
        gang = gang_to_plan(first, self._engine.cluster.objects)
        if gang is None:
            raise LookupError(f"{first.key} is of no gang")
        try:
            self._attempt(entries, gang, tasks, started)
        except Exception as error:
            self._tell_group(first, SCHEDULER_ERROR, f"internal error: {reason_of(error)}")
            raise

    def _attempt(
        self, entries: Sequence[QueuedPod], gang: Gang, tasks: asyncio.TaskGroup, started: float
    ) -> None:
        pods = [entry.pod for entry in entries]
        members = self._members.of(pods[0])
        attempt = _Attempt(
            GangRequest.of(gang, members, pods, self._engine.cluster),
            {entry.uid: entry for entry in entries},
            self._engine,
            self._bindings,
            started,
        )
        planner, needed = GangPlanner(self._engine, attempt), attempt.request.needed
        waits = any(map(self._preemptions.awaits_victims, pods))
        plan = planner.plan(attempt.request, may_evict=not waits)
        self._results.metrics.gang_attempts.labels(_result(plan, needed)).inc()
        if plan.fitting < needed:
            self._refuse(attempt, plan)
        elif plan.nominations:
            planner.undo(plan)
            self._make_room(attempt, plan, tasks)
        else:
            self._carry_out(attempt, plan, tasks)

    def _tell_group(self, member: PodInfo, reason: str, message: str) -> None:
        """Let the gang's object say what came of an attempt, if it is one of Kubernetes' own."""
        group = pod_group_of(member, self._engine.cluster.objects)
        if group is not None:
            self._results.outcomes.group_decided(group, reason, message)

    def _carry_out(self, attempt: _Attempt, plan: GangPlan, tasks: asyncio.TaskGroup) -> None:
        placed = len(plan.placements)
        message = f"{placed} of {len(attempt.entries)} waiting pods have a place"
        self._tell_group(attempt.request.pods[0], SCHEDULED, message)
        for pod, chosen in plan.placements:
            placement = attempt.placement(pod, chosen)
            self._results.decided(placement.entry, chosen, attempt.started)
            self._bindings.carry_out(placement, tasks)
        for pod, decision in plan.refused:
            self._put_back(attempt, attempt.entries[pod.uid], decision, "")
            if isinstance(decision, Refused) and decision.nomination is not None:
                # Nobody goes for members beyond the minimum before the others have their places.
                self._preemptions.try_again(pod.uid, "the gang has what it needs")

    def _make_room(self, attempt: _Attempt, plan: GangPlan, tasks: asyncio.TaskGroup) -> None:
        """Evict the pods in the way of the gang, and keep all its places until they go."""
        for pod, chosen in plan.placements:
            self._preemptions.hold(pod, chosen.node)
        evicted: set[str] = set()
        for pod, nomination in plan.nominations:
            evicted |= self._preemptions.follow(pod, nomination, tasks, evicted)
        awaited = {
            victim.uid for _, nomination in plan.nominations for victim in nomination.victims
        }
        name = attempt.request.gang.name
        message = f"gang {name}: waiting for {len(awaited)} evicted pods to leave"
        decision = self._nothing_tried(message)
        self._tell_group(attempt.request.pods[0], UNSCHEDULABLE, message)
        for entry in attempt.entries.values():
            # What makes room in another way, or frees what a victim had, may come first.
            self._put_back(attempt, entry, decision, message, plan.refused_by)

    def _refuse(self, attempt: _Attempt, plan: GangPlan) -> None:
        """Put all members back with what keeps the gang from fitting."""
        message = plan.why_not(attempt.request)
        # One that took all its time is to be tried late, whatever refused another.
        told = plan.refused[-1 if plan.is_costly else 0 :]
        decision = told[0][1] if told else self._nothing_tried(message)
        waits = any(map(self._preemptions.awaits_victims, attempt.request.pods))
        is_wrong = isinstance(decision, Failed) or attempt.request.contradiction
        reason = SCHEDULER_ERROR if is_wrong else UNSCHEDULABLE
        self._tell_group(attempt.request.pods[0], reason, message)
        for entry in attempt.entries.values():
            if not waits:
                self._preemptions.give_up(entry.pod)
            self._put_back(attempt, entry, decision, message, plan.refused_by)

    def _nothing_tried(self, why: str) -> Refused:
        status = unresolvable(why).by(GangScheduling.name)
        return Refused(Diagnosis(total=len(self._engine.cluster.row_of), pre_filter=status))

    def _put_back(
        self,
        attempt: _Attempt,
        entry: QueuedPod,
        decision: Refused | Failed,
        message: str,
        refused_by: frozenset[str] = frozenset(),
    ) -> None:
        started = attempt.started
        if isinstance(decision, Failed):
            self._results.failed(entry, message or decision.why, started)
            return
        alone = Refused(decision.diagnosis, unfinished=decision.unfinished)
        message = message or alone.why
        self._results.tell_refused(entry, alone, message, started)
        refused_by |= decision.diagnosis.plugins()
        # Whatever else refused it, other members or another minimum can help. Where no plugin did,
        # there was no node: the first one that comes has to wake the gang, as anything does then.
        if refused_by:
            refused_by |= {GangScheduling.name}
        self._results.put_back(entry, alone, message, started, refused_by)


class IncompleteGangs:
    """Evicts the members of gangs of which too few run."""

    def __init__(
        self,
        client: Client,
        engine: Engine,
        members: GangMembers,
        *,
        mirror: Mirror,
        results: Results,
    ) -> None:
        self._client = client
        self._engine = engine
        self._members = members
        self._mirror = mirror
        self._results = results

    async def run(self) -> None:
        """Evict the members of gangs that have run with too few for too long; until cancelled."""
        while True:
            await self._client.clock.sleep(_LOOK_SECONDS)
            if len(self._members):
                with surviving("gangs"):
                    await self._evict_overdue()

    async def _evict_overdue(self) -> None:
        now, objects = self._client.clock.monotonic(), self._engine.cluster.objects
        overdue = self._members.incomplete(
            objects,
            now,
            gang_arguments(self._engine).incomplete_seconds,
            self._mirror.is_assumed,
        )
        await asyncio.gather(*(self._release(gang, members) for gang, members in overdue))

    async def _release(self, gang: Gang, members: Members) -> None:
        """Evict the members of a gang; if that fails, it is overdue still and tried again."""
        running = list(members.placed.values())
        why = f"fewer than {gang.min_count} pods of gang {gang.name} ran for too long"
        _log.warning(
            "gang_incomplete", gang=gang.name, running=members.running, needed=gang.min_count
        )
        if await evict(self._client, running, running[0], running[0].node_name, why):
            return
        members.incomplete_since = None
        self._results.metrics.gang_attempts.labels("released").inc()
        for pod in running:
            self._results.outcomes.gang_released(pod, gang.name, gang.min_count)


class GangView:
    """What debugging endpoints, pages and metrics show of gangs."""

    def __init__(self, engine: Engine, members: GangMembers, queue: SchedulingQueue) -> None:
        self._engine = engine
        self._members = members
        self._queue = queue

    def document(self, pod: PodInfo) -> dict[str, Any] | None:
        """Return the gang of *pod* as debugging shows it; nothing for a pod on its own."""
        gang = gang_to_plan(pod, self._engine.cluster.objects)
        if gang is None:
            return None
        members = self._members.of(pod)
        counts = {"needed": gang.min_count, "running": members.running, "known": members.known}
        key = gang.required_topology or gang.preferred_topology
        labels = gang_arguments(self._engine).labels_of(key)
        domains = dict.fromkeys(domains_of_nodes(self._engine.cluster, labels, members.nodes))
        told = {"topology": key, "domains": list(map(str, domains))} if key else {}
        return {"name": gang.name, **counts, "waiting": len(members.waiting), **told}

    def overlooked(self) -> int:
        """Return how many gangs have pods that are held back although no gate is closed."""
        held = (entry for entry in self._queue if entry.place is Place.GATED)
        keys = {gang_key(entry.pod) for entry in held if self.gate_of(entry).ok}
        return sum(key is not None for key in keys)

    def gate_of(self, entry: QueuedPod) -> Status:
        """Return what keeps a pod from being tried, as it is now; success if nothing does."""
        runtime = self._engine.runtimes.get(entry.pod.scheduler_name)
        return entry.gate if runtime is None else runtime.pre_enqueue(entry.pod)


def _result(plan: GangPlan, needed: int) -> str:
    if plan.fitting < needed:
        return "unschedulable"
    return "preempting" if plan.nominations else "scheduled"
