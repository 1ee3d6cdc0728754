"""Making room: who is nominated where, which victims go, and what is kept for pods to come.

As kube-scheduler does, a victim first gets the condition ``DisruptionTarget``, so that its
controller can tell an eviction from a failure, and is then deleted with its own grace period.
Disruption budgets were weighed when the victims were chosen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.fit_question import HOLD, STAND_IN
from numakube.apps.scheduler.binding_cycle import surviving
from numakube.apps.scheduler.mirror_listener import PodFollower
from numakube.errors import Conflict, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.plugins import Nomination
from numakube.scheduling.plugins.gang_scheduling import gang_to_plan
from numakube.scheduling.plugins.pod_gangs import gang_key
from numakube.scheduling.preemption.default_preemption import is_being_preempted
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numakube.apps.scheduler.binding_cycle import Results
    from numakube.apps.scheduler.scheduling_loop import PodQueue
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.plugins.gang_scheduling import GangMembers, Key
    from numakube.scheduling.snapshot.pods import PodInfo


_FOR_PRIORITY: Final = "preempting to accommodate a higher priority pod"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Preemptions(PodFollower):
    """Pods for which others make room."""

    def __init__(
        self,
        client: Client,
        engine: Engine,
        queue: PodQueue,
        results: Results,
        gangs: GangMembers,
    ) -> None:
        self._client = client
        self._cluster = engine.cluster
        self._nominations = engine.nominations
        self._may_preempt = engine.shards.may_preempt
        self._queue = queue
        self._gangs = gangs
        self._outcomes = results.outcomes
        self._metrics = results.metrics
        self._preemptors_of: dict[str, set[Key | str]] = {}

    def waits(self, pod: PodInfo) -> None:
        """Keep the room that a scheduler before us has made for a waiting pod.

        One that is assumed on a node is on its way: its room is booked, and would be kept twice.
        """
        is_assumed = self._cluster.node_of(pod.uid) is not None
        nominated = pod.nominated_node_name
        if nominated and not is_assumed and self._nominations.node_of(pod.uid) is None:
            self._nominations.nominate(pod, nominated)
        if self._may_now_preempt(pod):
            self._queue.activate(pod.uid, "every shard has refused it")

    def placed(self, pod: PodInfo) -> None:
        """Keep no room for a pod that has a node."""
        self.forget(pod, pod.node_name)

    def gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Keep no room for a pod that is gone, and let those be tried that waited for it to go."""
        del deleted
        self.forget(pod)
        self.victim_is_gone(pod.uid)

    def _may_now_preempt(self, pod: PodInfo) -> bool:
        """Tell whether *pod* has just become one for which this shard may evict others."""
        entry = self._queue.waiting.get(pod.uid)
        return entry is not None and not self._may_preempt(entry.pod) and self._may_preempt(pod)

    def forget(self, pod: PodInfo, bound_to: str = "") -> bool:
        """Keep no room for a pod any more; tell whether that leaves room to others."""
        node = self._nominations.drop(pod.uid)
        if node is None or node == bound_to:
            return False
        self._queue.happened(ClusterEvent(kind=EventKind.POD_DELETED, node=node, pod=pod))
        return True

    def follow(
        self,
        pod: PodInfo,
        nomination: Nomination | None,
        tasks: asyncio.TaskGroup,
        evicted: Collection[str] = (),
    ) -> set[str]:
        """Make the room that was found for a refused pod; return the uids of those that have to go.

        Without a nomination no room is kept, unless victims are on their way out already. When the
        last victim of a pod, or of all members of its gang, is gone, it is tried again; other
        members of a victim's gang have to go too, but nothing waits for them. Those that were
        *evicted* for another member already are not evicted again.
        """
        if nomination is None:
            if not self.awaits_victims(pod):
                self.give_up(pod)
            return set()
        whole = self._with_their_gangs(nomination)
        going = Nomination(
            whole.node, tuple(victim for victim in whole.victims if victim.uid not in evicted)
        )
        self._nominate(pod, going)
        preemptor = self._party(pod)
        for victim in nomination.victims:
            self._preemptors_of.setdefault(victim.uid, set()).add(preemptor)
        tasks.create_task(self._evict(pod, going))
        return {victim.uid for victim in going.victims}

    def awaits_victims(self, pod: PodInfo) -> bool:
        """Tell whether pods are on their way out to make room for *pod*, or for its gang."""
        if self._awaits(self._party(pod)):
            return True
        node = self._cluster.node(self._nominations.node_of(pod.uid) or "")
        there = node.pods.values() if node is not None else ()
        return any(other.priority < pod.priority and is_being_preempted(other) for other in there)

    def give_up(self, pod: PodInfo) -> None:
        """Keep no room for a refused pod."""
        if self.forget(pod):
            self._outcomes.nominated(pod, "")

    def hold(self, pod: PodInfo, node: str) -> None:
        """Keep room for a pod on *node*, where nobody has to go."""
        self._nominations.nominate(pod, node)
        self._outcomes.nominated(pod, node)

    def expect(self, pod: PodInfo, node: str) -> None:
        """Say where a pod goes whose binding will take a while (KEP-5278).

        Its room is booked already, so that none is kept for it besides. Autoscalers do not take
        the node for an idle one then, and a scheduler after us finds where it was to go.
        """
        self.forget(pod, node)
        self._outcomes.nominated(pod, node)

    def expect_no_more(self, pod: PodInfo) -> None:
        """Say that a pod which was expected on a node does not go there."""
        self._outcomes.nominated(pod, "")

    def victim_is_gone(self, uid: str) -> None:
        """Let a pod be tried as soon as the last of its victims is gone."""
        for preemptor in self._preemptors_of.pop(uid, ()):
            if not self._awaits(preemptor):
                self.try_again(preemptor, "the last victim is gone")

    def _awaits(self, preemptor: Key | str) -> bool:
        return any(preemptor in other for other in self._preemptors_of.values())

    def _party(self, pod: PodInfo) -> Key | str:
        """Return the key of the gang that *pod* is planned with, or the uid of a single pod."""
        key = gang_key(pod) if gang_to_plan(pod, self._cluster.objects) else None
        return key or pod.uid

    def try_again(self, preemptor: Key | str, why: str) -> None:
        """Let a pod be tried at once, or a gang: by all its members, as any may be gone by now."""
        if isinstance(preemptor, str):
            self._queue.activate(preemptor, why)
            return
        for uid in list(self._gangs.at(preemptor).waiting):
            self._queue.activate(uid, why)

    def _with_their_gangs(self, nomination: Nomination) -> Nomination:
        """Add the other members of gangs that are evicted as a whole."""
        victims = {victim.uid: victim for victim in nomination.victims}
        for victim in nomination.victims:
            gang = gang_to_plan(victim, self._cluster.objects)
            if gang is not None and gang.evicted_together:
                victims |= self._gangs.of(victim).placed
        return Nomination(nomination.node, tuple(victims.values()))

    def _nominate(self, pod: PodInfo, nomination: Nomination) -> None:
        node = nomination.node
        for loser in self._nominations.below(pod.priority, node):
            self._nominations.drop(loser.uid)
            if not loser.uid.startswith(STAND_IN):
                self._outcomes.nominated(loser, "")
        self._nominations.nominate(pod, node)
        going = frozenset(victim.uid for victim in nomination.victims)
        self._nominations.expect_to_leave(pod.uid, going)
        self._outcomes.nominated(pod, node)
        self._metrics.preemptions.inc()
        self._metrics.victims.observe(len(nomination.victims))
        for victim in nomination.victims:
            self._outcomes.preempted(victim, pod, node)

    async def _evict(self, pod: PodInfo, nomination: Nomination) -> None:
        problems = ["not carried out"]
        with surviving("eviction"):
            problems = await evict(self._client, nomination.victims, pod, nomination.node)
        if problems:
            preemptor = self._party(pod)
            for victim in nomination.victims:
                self._preemptors_of.get(victim.uid, set()).discard(preemptor)
            self._nominations.expect_to_leave(pod.uid, frozenset())
            self.try_again(preemptor, "an eviction failed")


async def evict(
    client: Client, victims: Iterable[PodInfo], by: PodInfo, node: str, why: str = _FOR_PRIORITY
) -> list[str]:
    """Delete *victims* for *by*; return what could not be done, in words."""
    outcomes = await asyncio.gather(*(_evict_one(client, victim, by, why) for victim in victims))
    problems = [problem for problem in outcomes if problem]
    if problems:
        _log.warning("preemption_incomplete", pod=by.key, node=node, problems=problems)
    return problems


async def _evict_one(client: Client, victim: PodInfo, by: PodInfo, why: str) -> str:
    if victim.is_being_deleted:
        return ""
    try:
        await _mark(client, victim, by, why)
        await client.delete(PODS, victim.name, namespace=victim.namespace, uid=victim.uid)
    except NotFound:
        return ""
    except Conflict as error:
        # Another may have its name, or a write of another component came in between.
        return "" if await _is_gone(client, victim) else f"{victim.key}: {error}"
    except NumakubeError as error:
        return f"{victim.key}: {error}"
    return ""


async def _is_gone(client: Client, victim: PodInfo) -> bool:
    try:
        found = await client.get(PODS, victim.name, namespace=victim.namespace)
    except NotFound:
        return True
    except NumakubeError:
        return False
    return found.metadata.uid != victim.uid


async def _mark(client: Client, victim: PodInfo, by: PodInfo, why: str) -> None:
    scheduler = by.scheduler_name
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{scheduler}: {why}",
        "lastTransitionTime": format_time(client.clock.now()),
    }
    change = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
    await client.patch(
        PODS,
        victim.name,
        strategic_patch(change),
        namespace=victim.namespace,
        subresource="status",
    )


# Room that is kept for pods that are still to come, until a time.
#
# An endpoint of an annex finds the room. It is kept as that of nominated pods is:
# pods of the same or a lower priority stay off it. A pod whose annotation `HOLD` says so takes a
# place over as soon as it is seen, and may still go elsewhere. Holds are not stored: the program
# that asked for one asks again from time to time, and after a restart the pods that have come by
# then are counted.


_LOOK_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Hold:
    """The room under one name.

    Attributes:
        until: when it is given back, by the monotonic clock.
        places: stand-ins for pods that are still to come, by uid.
        takers: pods that have come, with the node where room is kept for each.
    """

    until: float = 0.0
    places: dict[str, PodInfo] = field(default_factory=dict)
    takers: dict[str, tuple[PodInfo, str]] = field(default_factory=dict)


class Holds(PodFollower):
    """All holds of one scheduler."""

    def __init__(self, engine: Engine, preemptions: Preemptions, clock: Clock) -> None:
        self._cluster = engine.cluster
        self._nominations = engine.nominations
        self._preemptions = preemptions
        self._clock = clock
        self._holds: dict[str, _Hold] = {}
        self._pods: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return sum(len(hold.places) for hold in self._holds.values())

    async def run(self) -> None:
        """Give room back when its time is over; until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            now = self._clock.monotonic()
            for name in [name for name, hold in self._holds.items() if hold.until <= now]:
                self.release(name)

    def missing(self, name: str, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Return those of *pods* that have not come yet and for which no room is kept."""
        hold = self._holds.get(name, _Hold())
        nodes, node_of = self._cluster.row_of, self._nominations.node_of
        kept = (place for place in hold.places.values() if node_of(place.uid) in nodes)
        there = Counter(_value(pod) for pod in kept)
        there.update({value: len(pods) for value, pods in self._pods.items()})
        found = []
        for pod in pods:
            there[_value(pod)] -= 1
            if there[_value(pod)] < 0:
                found.append(pod)
        return found

    def keep(self, name: str, seconds: float, places: Iterable[tuple[PodInfo, str]]) -> None:
        """Keep *places* besides those that are kept under that name, all of them for *seconds*."""
        hold = self._holds.setdefault(name, _Hold())
        hold.until = self._clock.monotonic() + seconds
        for pod, node in places:
            hold.places[pod.uid] = pod
            self._nominations.nominate(pod, node)

    def release(self, name: str) -> None:
        """Give back what is kept under that name."""
        hold = self._holds.pop(name, _Hold())
        for place in hold.places.values():
            self._preemptions.forget(place)
        for pod, node in hold.takers.values():
            if self._nominations.node_of(pod.uid) == node:
                self._preemptions.give_up(pod)

    def waits(self, pod: PodInfo) -> None:
        """Give a pod that has come the place that is kept for it."""
        self._seen(pod)

    def placed(self, pod: PodInfo) -> None:
        """Give back the place that is kept for a pod that has come and has a node."""
        self._seen(pod)

    def _seen(self, pod: PodInfo) -> None:
        """Give a pod that has come the place that is kept for it.

        A pod may get its node selector when it loses its gates, as Kueue does it: which place it
        can take is not known before.
        """
        gated = pod.pod.spec.scheduling_gates and not pod.node_name
        if HOLD not in pod.pod.metadata.annotations or gated:
            return
        known = self._pods.setdefault(_value(pod), set())
        if pod.uid in known:
            return
        known.add(pod.uid)
        for hold in self._holds.values():
            place = self._place_for(pod, hold)
            if place is not None:
                self._hand_over(hold, place, pod)
                return

    def _place_for(self, pod: PodInfo, hold: _Hold) -> PodInfo | None:
        """Return the place of *hold* that *pod* takes: the one on its node, or one it may go to."""
        alike = [place for place in hold.places.values() if _value(place) == _value(pod)]
        node_of = self._nominations.node_of
        if pod.node_name:
            own = (place for place in alike if node_of(place.uid) == pod.node_name)
            return next(own, next(iter(alike), None))
        selector = pod.pod.spec.node_selector.items()
        for place in alike:
            node = self._cluster.node(node_of(place.uid) or "")
            if node is not None and selector <= node.labels.items():
                return place
        return None

    def gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Forget a pod."""
        del deleted
        if HOLD in pod.pod.metadata.annotations:
            known = self._pods.get(_value(pod), set())
            known.discard(pod.uid)
            if not known:
                self._pods.pop(_value(pod), None)

    def _hand_over(self, hold: _Hold, place: PodInfo, pod: PodInfo) -> None:
        del hold.places[place.uid]
        if pod.node_name:
            self._preemptions.forget(place)
            return
        node = self._nominations.drop(place.uid)
        if node is not None and self._nominations.node_of(pod.uid) is None:
            hold.takers[pod.uid] = pod, node
            self._preemptions.hold(pod, node)


def _value(pod: PodInfo) -> str:
    return pod.pod.metadata.annotations.get(HOLD, "")
