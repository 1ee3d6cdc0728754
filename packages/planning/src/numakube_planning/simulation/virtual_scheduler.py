"""The scheduler in virtual time: its own queue, cycle, plugins and caches, one step after another.

Events at the same time happen in the order in which they were planned. A *quiet* event is one that
the passing of time alone brings about, such as a timer of the scheduler: the run is over when none
but quiet events are left and nothing has happened for a while.

What a scheduler's process does around its loop happens here at once: it sees pods and reports when
it is told of them, decides about one pod or one gang after the other, and a decision takes a given
time for each pod. Binding always succeeds. Plugins that would have to wait for the API server when
a pod is bound (volumes, resource claims) are not asked.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from numakube.api.pod import is_rejected
from numakube.insight import BindsNothing
from numakube.scheduling import (
    Chosen,
    Cycle,
    Failed,
    PodBackoff,
    ProfileHints,
    SchedulingQueue,
    all_plugins,
    assemble,
)
from numakube.scheduling.framework import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import as_bound
from numakube.scheduling.framework.registry import Services
from numakube.scheduling.plugins.gang_scheduling import GANG_MEMBERS, GangMembers, gang_to_plan
from numakube.scheduling.plugins.rejection_guard import RejectionGuard
from numakube_planning.simulation.virtual_gangs import VirtualGangs, party_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    _Event = tuple[float, int, Callable[[], None], bool]
    """When, the how manieth, what, and whether it is quiet."""

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.scheduling import QueuedPod, Refused
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.plugins.gang_scheduling import Key as GangKey
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


class Timeline:
    """Lets planned events happen.

    Attributes:
        now: the time, in seconds since the beginning.
        last_news: when something other than a quiet event happened last.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.last_news = 0.0
        self._events: list[_Event] = []
        self._planned = 0
        self._news = 0

    def after(self, seconds: float, act: Callable[[], None], *, quiet: bool = False) -> None:
        """Plan *act* in so many *seconds*."""
        self._planned += 1
        self._news += not quiet
        heapq.heappush(self._events, (self.now + seconds, self._planned, act, quiet))

    def run(self, *, until: float | None, patience: float) -> None:
        """Let everything happen.

        Args:
            until: the last moment; ``None`` for no limit.
            patience: seconds in which nothing but quiet events happen before that is the end.
        """
        while self._events and (self._news or self._events[0][0] <= self.last_news + patience):
            if until is not None and self._events[0][0] > until:
                self.now = until
                return
            self.now, _, act, quiet = heapq.heappop(self._events)
            if not quiet:
                self._news -= 1
                self.last_news = self.now
            act()


_RESYNCED_FOR: Final = 120.0
"""Seconds after the last news in which doubts about reports settle, with the caches' patience."""


class Actions(Protocol):
    """What the scheduler does to the cluster."""

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind *pod* to *node*."""
        ...

    def evict(self, pod: PodInfo) -> None:
        """Delete *pod*, which is in the way of another one."""
        ...


class VirtualScheduler:
    """Decides where pods run.

    Attributes:
        mispredictions: how often a kubelet did something else than its model had foreseen.
    """

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        timeline: Timeline,
        actions: Actions,
        *,
        seed: int,
        decision_seconds: float,
        objects: Mapping[str, Mapping[str, object]],
    ) -> None:
        self.gangs = VirtualGangs(GangMembers())
        services = Services()
        services.offer(GANG_MEMBERS, self.gangs.members)
        self.engine = engine = assemble(config, all_plugins(BindsNothing.make), services)
        self.runtime = next(iter(engine.runtimes.values()))
        self.name = next(iter(engine.runtimes))
        self.mispredictions = 0
        for kind, found in objects.items():
            getattr(engine.cluster.objects, kind).update(found)
        self._timeline = timeline
        self._actions = actions
        self._decision_seconds = decision_seconds
        dice = np.random.default_rng((seed, 1))
        self._cycle = Cycle(engine.cluster, engine.nominations, dice)
        hints = ProfileHints(engine.runtimes, engine.cluster, engine.nominations)
        backoff = PodBackoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds)
        self.queue = SchedulingQueue(hints, backoff=backoff)
        self.gangs.members.on_growth = self._gang_has_grown
        self._learns = RejectionGuard.name in self.runtime.profile.plugins()
        self._events: list[ClusterEvent] = []
        self._assumed: dict[str, str] = {}
        self._preemptor_of: dict[str, GangKey | str] = {}
        self._refusals: dict[str, str] = {}
        self._free_at = 0.0
        self._is_called = False
        self._alarm: float | None = None
        self._resyncs = False

    def why_not(self, uid: str) -> str:
        """Return why a pod was refused last; empty if it was not."""
        return self._refusals.get(uid, "")

    def set_node(self, node: Node) -> None:
        """See a node."""
        self.engine.cluster.set_node(node)

    def set_report(self, report: NodeResourceTopology) -> None:
        """See a report."""
        self._apply(self.engine.cache.set_report(report))

    def see(self, pod: PodInfo) -> None:
        """See a pod as it is now."""
        self._apply(self.engine.cache.pod_seen(pod))
        self.gangs.see(pod)
        if pod.has_ended:
            self._is_gone(pod)
        elif pod.node_name:
            self._is_placed(pod)
        elif pod.uid not in self._assumed:
            self.queue.add(pod, self._timeline.now)
            self._call()

    def forget(self, pod: PodInfo) -> None:
        """See that a pod was deleted."""
        self.gangs.members.gone(pod, deleted=True)
        self._is_gone(pod)
        self._apply(self.engine.cache.pod_gone(pod.uid))

    def _is_placed(self, pod: PodInfo) -> None:
        known = self.engine.cluster.node_of(pod.uid) is not None
        bound = self._assumed.pop(pod.uid, None) is not None
        self.engine.cluster.place(pod, pod.node_name)
        self._drop_nomination(pod, bound_to=pod.node_name)
        if bound or not known:
            self.queue.remove(pod.uid)
            self._tell(EventKind.POD_ADDED, pod.node_name, pod)

    def _is_gone(self, pod: PodInfo) -> None:
        node = self.engine.cluster.node_of(pod.uid)
        before = self.engine.cluster.remove_pod(pod.uid)
        self._assumed.pop(pod.uid, None)
        self._refusals.pop(pod.uid, None)
        self.queue.remove(pod.uid)
        self._drop_nomination(pod)
        self._victim_is_gone(pod.uid)
        if before is not None and self._learns and is_rejected(pod.pod):
            self._learn(pod)
        if node is not None:
            self._tell(EventKind.POD_DELETED, node, before or pod)
        gang = gang_to_plan(pod, self.engine.cluster.objects)
        if gang is not None:
            self._release_overdue()
            allowed = self.gangs.seconds_allowed(self.engine, gang)
            if allowed:
                self._timeline.after(allowed, self._release_overdue, quiet=True)

    def _release_overdue(self) -> None:
        """Evict the members of gangs of which too few have run for too long."""
        now, is_under_way = self._timeline.now, self._assumed.__contains__
        for pod in self.gangs.overdue(self.engine, now, is_under_way):
            self._actions.evict(pod)

    def _gang_has_grown(self, opener: Hashable) -> None:
        """Let the members be tried that waited for one more."""
        self.queue.recheck_gates(self._timeline.now, opener)
        self._call()

    def _learn(self, pod: PodInfo) -> None:
        node = self.engine.cluster.node(pod.node_name)
        report = node.numa.topology if node is not None and node.numa is not None else None
        self.engine.guard.rejected(pod, self._timeline.now, report=report)

    def _apply(self, changes: BeliefChanges) -> None:
        self.mispredictions += len(changes.mispredictions)
        self.engine.cluster.take(changes, self.engine.cache)
        for node in changes.freed:
            self._tell(EventKind.TOPOLOGY_CHANGED, node)
        if changes and not self._resyncs:
            self._resyncs = True
            self._timeline.after(self.engine.resync_seconds, self._resync, quiet=True)

    def _resync(self) -> None:
        """Settle doubts, every few seconds for as long as there may be any."""
        now = self._timeline.now
        self._resyncs = False
        self._apply(self.engine.cache.resync(now))
        if not self._resyncs and now < self._timeline.last_news + _RESYNCED_FOR:
            self._resyncs = True
            self._timeline.after(self.engine.resync_seconds, self._resync, quiet=True)

    def _tell(self, kind: EventKind, node: str, pod: PodInfo | None = None) -> None:
        if not len(self.queue):
            return
        info = self.engine.cluster.node(node)
        self._events.append(ClusterEvent(kind=kind, node=node, node_info=info, pod=pod))
        self._call()

    def _call(self) -> None:
        """Have the scheduler look at its queue as soon as it is free."""
        if not self._is_called:
            self._is_called = True
            wait = max(0.0, self._free_at - self._timeline.now)
            # That it looks is no news; that it binds a pod is.
            self._timeline.after(wait, self._work, quiet=True)

    def _work(self) -> None:
        """Take one turn of the loop."""
        now, guard = self._timeline.now, self.engine.guard
        self._is_called = False
        if self._learns and guard.advance(now):
            self._events.append(ClusterEvent(kind=EventKind.OTHER))
            self.queue.recheck_gates(now)
        events, self._events = self._events, []
        if events:
            self.queue.handle(events, now)
        entry = self.queue.pop(now)
        if entry is None:
            self._rest()
            return
        self._free_at = now + self._decision_seconds
        self._attempt(entry, now)
        self._call()

    def _rest(self) -> None:
        """Be woken by the clock when the queue or the guard has something to do."""
        times = [self.queue.next_wakeup(), self.engine.guard.next_change()]
        due = min((time for time in times if time is not None), default=None)
        if due is None or not len(self.queue):
            return
        if self._alarm is None or due < self._alarm or self._alarm <= self._timeline.now:
            self._alarm = due
            self._timeline.after(max(0.001, due - self._timeline.now), self._ring, quiet=True)

    def _ring(self) -> None:
        if self._alarm is not None and self._alarm <= self._timeline.now + 0.001:
            self._alarm = None
        if not self._is_called:
            self._work()

    def _attempt(self, entry: QueuedPod, now: float) -> None:
        if gang_to_plan(entry.pod, self.engine.cluster.objects) is not None:
            self._attempt_gang(entry, now)
            return
        decision = self._cycle.decide(entry.pod, self.runtime)
        if isinstance(decision, Chosen):
            self._place(entry, decision, now)
        elif isinstance(decision, Failed):
            self.queue.failed(entry, now, message=decision.status.message)
        else:
            self._refuse(entry, decision, now)

    def _attempt_gang(self, first: QueuedPod, now: float) -> None:
        """Place all members that wait, or as many as are needed at least, or none."""
        others = (uid for uid in self.gangs.members.of(first.pod).waiting if uid != first.uid)
        entries = {entry.uid: entry for entry in (first, *self.queue.take(others))}
        self._free_at = now + self._decision_seconds * len(entries)
        party = party_of(first.pod, self.engine)
        waits = party in self._preemptor_of.values()
        pods = [entry.pod for entry in entries.values()]
        verdict = self.gangs.try_out(self.engine, pods, may_evict=not waits)
        for pod, chosen in verdict.bound:
            entries.pop(pod.uid)
            self._go(pod, chosen)
        for pod, node in verdict.kept:
            self.engine.nominations.nominate(pod, node)
        for pod, nomination in verdict.victims:
            self._make_room(pod, nomination)
        for entry in entries.values():
            self._refusals[entry.uid] = verdict.message
            if not verdict.victims and not waits:
                self._drop_nomination(entry.pod)
            self.queue.refused(entry, verdict.refused_by, now)

    def _place(self, entry: QueuedPod, decision: Chosen, now: float) -> None:
        """Reserve, and bind."""
        cluster, state, pod = self.engine.cluster, decision.state, entry.pod
        node = cluster.node(decision.node)
        if node is None:
            self.queue.failed(entry, now, message=f"node {decision.node} is gone")
            return
        booking = self.runtime.reserve(state, pod, node)
        self._apply(booking.changes)
        if not booking.ok:
            self.queue.failed(entry, now, message=booking.status.message)
            return
        cluster.place(as_bound(state, pod), decision.node)
        self._go(pod, decision)

    def _go(self, pod: PodInfo, decision: Chosen) -> None:
        """Bind a pod that is reserved for."""
        state, bound = decision.state, as_bound(decision.state, pod)
        self._refusals.pop(pod.uid, None)
        self._assumed[pod.uid] = decision.node
        self.queue.remove(pod.uid)
        self._drop_nomination(pod, bound_to=decision.node)
        self._apply(self.runtime.post_bind(state, pod, decision.node))
        self._actions.bind(bound, decision.node)

    def _refuse(self, entry: QueuedPod, decision: Refused, now: float) -> None:
        self._refusals[entry.pod.uid] = decision.why
        if decision.nomination is not None:
            self._make_room(entry.pod, decision.nomination)
        else:
            self._drop_nomination(entry.pod)
        if decision.unfinished:
            self.queue.failed(entry, now)
        else:
            self.queue.refused(entry, decision.diagnosis.plugins(), now)

    def _make_room(self, pod: PodInfo, nomination: Nomination) -> None:
        nominations = self.engine.nominations
        for loser in nominations.below(pod.priority, nomination.node):
            nominations.drop(loser.uid)
        nominations.nominate(pod, nomination.node)
        party = party_of(pod, self.engine)
        for victim in nomination.victims:
            self._preemptor_of[victim.uid] = party
        for victim in self.gangs.companions(self.engine, nomination.victims):
            if not victim.is_being_deleted:
                self._actions.evict(victim)

    def _drop_nomination(self, pod: PodInfo, bound_to: str = "") -> None:
        """Keep no room for a pod any more."""
        node = self.engine.nominations.drop(pod.uid)
        if node is not None and node != bound_to:
            self._tell(EventKind.POD_DELETED, node, pod)

    def _victim_is_gone(self, uid: str) -> None:
        """Let a pod be tried as soon as the last of its victims is gone."""
        party = self._preemptor_of.pop(uid, None)
        if party is None or party in self._preemptor_of.values():
            return
        waiting = [party] if isinstance(party, str) else self.gangs.waiting_in(party)
        self.queue.activate(waiting, self._timeline.now, "the last victim is gone")
        self._call()
