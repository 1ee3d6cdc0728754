"""One plan for all members of a gang: every member that it needs is reserved for, or none.

When a member's turn comes, all other waiting members come with it. They are placed one after the
other, each counting on the room that those before it leave. If the gang gets as many as it needs,
all are bound; if not, everything is given back before anybody else has seen it. If members fit
only after evictions, nobody is evicted before there is room for all in this way.

A gang that asks for one topology domain is tried in each, those with the fewest nodes for it first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.scheduler.binding_cycle import Placement
from numakube.apps.scheduler.preemptions import evict
from numakube.apps.scheduler.results import surviving
from numakube.scheduling.cycle import Chosen, Failed, Refused
from numakube.scheduling.framework.diagnosis import Diagnosis
from numakube.scheduling.framework.plugins import Nomination
from numakube.scheduling.framework.state import CycleState
from numakube.scheduling.framework.status import unresolvable
from numakube.scheduling.plugins.gang_scheduling.gang_plugin import (
    GANG_DOMAIN,
    GangScheduling,
    domains_of,
    gang_to_plan,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator, Sequence

    from numakube.apps.mirror import Mirror
    from numakube.apps.scheduler.binding_cycle import BindingCycle
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.apps.scheduler.preemptions import Preemptions
    from numakube.apps.scheduler.results import Results
    from numakube.kube.client import Client
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.cycle import Cycle
    from numakube.scheduling.plugins.gang_scheduling.gang_members import GangMembers
    from numakube.scheduling.plugins.gang_scheduling.gang_plugin import Domain
    from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang
    from numakube.scheduling.queue.entries import QueuedPod
    from numakube.scheduling.snapshot.pods import PodInfo

_LOOK_SECONDS: Final = 1.0
"""How often gangs of which too few run are looked for."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(slots=True)
class _Plan:
    """Where the members of a gang would go.

    Attributes:
        placements: members that are reserved for.
        nominations: members that fit once others are evicted.
        refused: members that fit nowhere, the first one first.
    """

    placements: list[Placement] = field(default_factory=list)
    nominations: list[tuple[QueuedPod, Nomination]] = field(default_factory=list)
    refused: list[tuple[QueuedPod, Refused | Failed]] = field(default_factory=list)

    @property
    def fitting(self) -> int:
        """How many members have a place."""
        return len(self.placements) + len(self.nominations)


class GangCycle:
    """Plans gangs and carries the plans out."""

    def __init__(
        self,
        engine: Engine,
        cycle: Cycle,
        members: GangMembers,
        *,
        mirror: Mirror,
        queue: PodQueue,
        bindings: BindingCycle,
        preemptions: Preemptions,
        results: Results,
        client: Client,
    ) -> None:
        self.cycle = cycle
        self._engine = engine
        self._members = members
        self._mirror = mirror
        self._queue = queue
        self._bindings = bindings
        self._preemptions = preemptions
        self._results = results
        self._client = client

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the gang that *pod* is planned with; nothing for a pod on its own."""
        return gang_to_plan(pod, self._engine.cluster.objects)

    def attempt(
        self, first: QueuedPod, gang: Gang, tasks: asyncio.TaskGroup, started: float
    ) -> None:
        """Place the gang of *first*, or say why it does not fit."""
        members = self._members.of(first.pod)
        entries = [first, *self._queue.waiting.take(members.waiting.keys() - {first.uid})]
        entries = [one for one in entries if one.pod.scheduler_name in self._engine.runtimes]
        under_way = sum(map(self._mirror.is_assumed, members.waiting))
        needed = max(gang.min_count - members.running - under_way, 1)
        plan = self._plan(entries, gang, needed, started)
        self._results.metrics.gang_attempts.labels(_result(plan, needed)).inc()
        if plan.fitting < needed:
            self._refuse(entries, plan, gang, needed, started)
        elif plan.nominations:
            self._make_room(entries, plan, gang, tasks, started)
        else:
            self._carry_out(plan, tasks, started)

    async def keep_whole(self) -> None:
        """Evict the members of gangs that have run with too few for too long; until cancelled."""
        while True:
            await self._client.clock.sleep(_LOOK_SECONDS)
            if len(self._members):
                with surviving("gangs"):
                    await self._evict_overdue()

    async def _evict_overdue(self) -> None:
        now, objects = self._client.clock.monotonic(), self._engine.cluster.objects
        for gang, members in self._members.incomplete(objects, now, self._incomplete_seconds()):
            members.incomplete_since = now
            running = list(members.placed.values())
            _log.warning(
                "gang_incomplete", gang=gang.name, running=members.running, needed=gang.min_count
            )
            self._results.metrics.gang_attempts.labels("released").inc()
            for pod in running:
                self._results.outcomes.gang_released(pod, gang.name, gang.min_count)
            why = f"fewer than {gang.min_count} pods of gang {gang.name} ran for too long"
            await evict(self._client, running, running[0], running[0].node_name, why)

    def _incomplete_seconds(self) -> float:
        for runtime in self._engine.runtimes.values():
            plugin = runtime.profile.plugins().get(GangScheduling.name)
            if isinstance(plugin, GangScheduling):
                return float(plugin.args.incomplete_seconds)
        return 0.0

    def _plan(self, entries: Sequence[QueuedPod], gang: Gang, needed: int, started: float) -> _Plan:
        """Return the first plan that gives the gang what it needs, or else the one that came next.

        Places without evictions go first, and domains before the whole cluster.
        """
        best = _Plan()
        if len(entries) < needed:
            return best
        for evicting in (False, True):
            for domain in self._domains(entries[0], gang):
                plan = self._try(entries, needed, domain, started, evicting=evicting)
                if plan.fitting >= needed:
                    return plan
                self._undo(plan)
                best = plan if plan.fitting >= best.fitting else best
            if not any(isinstance(one, Refused) and one.nomination for _, one in best.refused):
                break
        return best

    def _domains(self, first: QueuedPod, gang: Gang) -> Iterator[Domain | None]:
        key = gang.required_topology or gang.preferred_topology
        if key:
            rows = domains_of(self._engine.cluster.snapshot(), key)
            for value in sorted(rows, key=lambda one: (len(rows[one]), one)):
                yield key, value
        if not gang.required_topology:
            yield None

    def _try(
        self,
        entries: Sequence[QueuedPod],
        needed: int,
        domain: Domain | None,
        started: float,
        *,
        evicting: bool,
    ) -> _Plan:
        plan = _Plan()
        for position, entry in enumerate(entries):
            self._place(plan, entry, domain, started, evicting=evicting)
            if plan.fitting + len(entries) - position - 1 < needed:
                break
        return plan

    def _place(
        self,
        plan: _Plan,
        entry: QueuedPod,
        domain: Domain | None,
        started: float,
        *,
        evicting: bool,
    ) -> None:
        runtime = self._engine.runtimes[entry.pod.scheduler_name]
        state = CycleState()
        if domain is not None:
            state.write(GANG_DOMAIN, domain)
        decision = self.cycle.decide(entry.pod, runtime, None if domain is None else state)
        if isinstance(decision, Chosen):
            placement = Placement(entry, runtime, decision, started)
            status = self._bindings.reserve(placement)
            if status.ok:
                plan.placements.append(placement)
            else:
                plan.refused.append((entry, Failed(status)))
        elif evicting and isinstance(decision, Refused) and decision.nomination is not None:
            # Those that come next must not count on the same room.
            self._engine.nominations.nominate(entry.pod, decision.nomination.node)
            plan.nominations.append((entry, decision.nomination))
        else:
            plan.refused.append((entry, decision))

    def _undo(self, plan: _Plan) -> None:
        """Give back everything that a plan has taken; nobody needs to know."""
        with self._mirror.silently():
            for placement in reversed(plan.placements):
                self._bindings.give_back(placement)
        for entry, _ in plan.nominations:
            self._engine.nominations.drop(entry.uid)

    def _carry_out(self, plan: _Plan, tasks: asyncio.TaskGroup, started: float) -> None:
        for placement in plan.placements:
            self._results.decided(placement.entry, placement.decision, started)
            self._bindings.carry_out(placement, tasks)
        for entry, decision in plan.refused:
            self._put_back(entry, decision, "", started)

    def _make_room(
        self,
        entries: Sequence[QueuedPod],
        plan: _Plan,
        gang: Gang,
        tasks: asyncio.TaskGroup,
        started: float,
    ) -> None:
        """Evict whoever stands in the way of the gang, and keep all its places until they go."""
        self._undo(plan)
        for placement in plan.placements:
            self._preemptions.hold(placement.pod, placement.node)
        victims = 0
        for entry, nomination in plan.nominations:
            whole = self._with_their_gangs(nomination)
            victims += len(whole.victims)
            self._preemptions.follow(entry.pod, whole, tasks)
        message = f"gang {gang.name}: waiting for {victims} evicted pods to leave"
        decision = self._nothing_tried(message)
        for entry in entries:
            self._put_back(entry, decision, message, started)

    def _with_their_gangs(self, nomination: Nomination) -> Nomination:
        """Add the other members of gangs that are evicted as a whole."""
        victims = {victim.uid: victim for victim in nomination.victims}
        for victim in nomination.victims:
            gang = self.gang_of(victim)
            if gang is not None and gang.evicted_together:
                victims |= self._members.of(victim).placed
        return Nomination(nomination.node, tuple(victims.values()))

    def _refuse(
        self,
        entries: Sequence[QueuedPod],
        plan: _Plan,
        gang: Gang,
        needed: int,
        started: float,
    ) -> None:
        """Put all members back with what keeps the gang from fitting."""
        about = f"gang {gang.name}: {plan.fitting} of {needed} needed pods fit"
        if not plan.refused:
            about = f"gang {gang.name}: {len(entries)} of {needed} needed pods can be tried"
            decision: Refused | Failed = self._nothing_tried(about)
        else:
            entry, decision = plan.refused[0]
            about += f"; {entry.pod.name}: {decision.why}"
        for entry in entries:
            self._preemptions.give_up(entry.pod)
            self._put_back(entry, decision, about, started)

    def _nothing_tried(self, why: str) -> Refused:
        status = unresolvable(why).by(GangScheduling.name)
        return Refused(Diagnosis(total=len(self._engine.cluster.row_of), pre_filter=status))

    def _put_back(
        self, entry: QueuedPod, decision: Refused | Failed, message: str, started: float
    ) -> None:
        if isinstance(decision, Failed):
            self._results.failed(entry, message or decision.why, started)
            return
        alone = Refused(decision.diagnosis, unfinished=decision.unfinished)
        message = message or alone.why
        self._results.tell_refused(entry, alone, message, started)
        self._results.put_back(entry, alone, message, started)


def _result(plan: _Plan, needed: int) -> str:
    if plan.fitting < needed:
        return "unschedulable"
    return "preempting" if plan.nominations else "scheduled"
