"""Making room: who is nominated where, and the victims that are marked and deleted for it.

As kube-scheduler does, a victim first gets the condition ``DisruptionTarget``, so that its
controller can tell an eviction from a failure, and is then deleted with its own grace period.
Disruption budgets were weighed when the victims were chosen.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.fit_question import STAND_IN
from numakube.apps.scheduler.attempt_results import surviving
from numakube.errors import Conflict, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.plugins import Nomination
from numakube.scheduling.plugins.gang_scheduling.gang_plugin import gang_to_plan
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import gang_key
from numakube.scheduling.preemption.default_preemption import is_being_preempted
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numakube.apps.scheduler.attempt_results import Results
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.kube.client import Client
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.plugins.gang_scheduling.gang_members import GangMembers, Key
    from numakube.scheduling.snapshot.pods import PodInfo

_FOR_PRIORITY: Final = "preempting to accommodate a higher priority pod"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Preemptions:
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
        self._queue = queue
        self._gangs = gangs
        self._outcomes = results.outcomes
        self._metrics = results.metrics
        self._preemptors_of: dict[str, set[Key | str]] = {}

    def seen(self, pod: PodInfo) -> None:
        """Keep the room that a scheduler before us has made for a waiting pod."""
        if pod.nominated_node_name and self._nominations.node_of(pod.uid) is None:
            self._nominations.nominate(pod, pod.nominated_node_name)

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
            whole.node, tuple(one for one in whole.victims if one.uid not in evicted)
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
        return any(one.priority < pod.priority and is_being_preempted(one) for one in there)

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
                self._try_again(preemptor, "the last victim is gone")

    def _awaits(self, preemptor: Key | str) -> bool:
        return any(preemptor in one for one in self._preemptors_of.values())

    def _party(self, pod: PodInfo) -> Key | str:
        """Return the key of the gang that *pod* is planned with, or the uid of a single pod."""
        key = gang_key(pod) if gang_to_plan(pod, self._cluster.objects) else None
        return key or pod.uid

    def _try_again(self, preemptor: Key | str, why: str) -> None:
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
            self._try_again(preemptor, "an eviction failed")


async def evict(
    client: Client, victims: Iterable[PodInfo], by: PodInfo, node: str, why: str = _FOR_PRIORITY
) -> list[str]:
    """Delete *victims* for *by*; return what could not be done, in words."""
    outcomes = await asyncio.gather(*(_evict_one(client, one, by, why) for one in victims))
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
