"""Would it fit? Answers with the program's own state, for queues and autoscalers.

POST /v1/fit    {"pods": [POD, ...]}                        these pods, one after the other
                {"pod": POD, "count": 8}                    so many of one kind
                {"podSets": [{"pod": POD, "count": 8}]}     or of several kinds
                {..., "nodes": ["2x 2 sockets, 16 cores"]}  besides nodes that do not exist
                {..., "nodes": [{"node": NODE}]}            of a node group
                {..., "nodes": [{"like": "n1"}]}            or like one that is there
                {..., "gang": true}                         by the rules of their pod group
                {..., "preemption": true}                   if pods of lower priority made room
                {..., "hold": {"name": "j", "seconds": 60}} and keep the room if all of them fit

Nothing is changed and no pod is evicted: but for a hold, the answer is true for this moment.
"""

from __future__ import annotations

from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from aiohttp import web

from numakube.api.codec import decode
from numakube.api.fit import HOLD, PATH, STAND_IN, FitQuestion, PodSet
from numakube.apps.debugging.documents import json_answer
from numakube.errors import ConfigError, InvalidValue, NumakubeError
from numakube.insight.how_many_fit import copies
from numakube.insight.trial_placement import Trial, try_gang, try_pods
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang, MissingGang, gang_of
from numakube.scheduling.recorder.flight_documents import use_document
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.simulation.node_groups import PREFIX, described_nodes, new_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.fit import Hold
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.host.access import Access
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.plugins.gang_scheduling.gang_members import GangMembers

    NewNode = tuple[Node, NodeResourceTopology]

MOST_PODS: Final = 1000
"""In one question: nothing is scheduled while it is answered."""
MOST_NODES: Final = 1000
LONGEST_HOLD: Final = 3600.0


class Holder(Protocol):
    """Keeps room for pods that are still to come."""

    def missing(self, name: str, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Return those of *pods* that have not come yet and for which no room is kept."""
        ...

    def keep(self, name: str, seconds: float, places: Iterable[tuple[PodInfo, str]]) -> None:
        """Keep *places* besides those that are kept under that name."""
        ...

    def release(self, name: str) -> None:
        """Give back what is kept under that name."""
        ...


class Fit:
    """The endpoint of a scheduler, or of an extender, which keeps no room."""

    def __init__(
        self, engine: Engine, speaker: Speaker, holds: Holder | None, members: GangMembers
    ) -> None:
        self._engine = engine
        self._speaker = speaker
        self._holds = holds
        self._members = members
        self._numbers = count()

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the route, open only to those who may."""
        return [web.post(PATH, access.guarded(self._fit))]

    async def _fit(self, request: web.Request) -> web.Response:
        try:
            question = decode(FitQuestion, await request.read(), subject="the question")
            self._check(question.hold)
            pods = self._pods_of(question)
            besides = self._nodes_of(question)
        except NumakubeError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        hold, holds = question.hold, self._holds
        missing = pods if hold is None or holds is None else holds.missing(hold.name, pods)
        trials = self._try(question, missing, besides) if missing else []
        if hold is not None and holds is not None:
            _keep(holds, hold, missing, trials)
        answer = _answer(trials, len(pods), kept=len(pods) - len(missing))
        return json_answer(self._speaker.document("Fit", **answer))

    def _check(self, hold: Hold | None) -> None:
        if hold is None:
            return
        if self._holds is None:
            raise InvalidValue("hold: only a scheduler keeps room")
        if not self._speaker.leads():
            raise web.HTTPConflict(text="only the scheduler that leads can keep room\n")
        if not hold.name or not 0 <= hold.seconds <= LONGEST_HOLD:
            limits = f"between 0 and {LONGEST_HOLD:.0f} seconds"
            raise InvalidValue(f"hold: it needs a name, and lasts {limits}")

    def _try(
        self, question: FitQuestion, pods: list[PodInfo], besides: list[NewNode]
    ) -> list[Trial]:
        preempting = question.preemption
        gang = gang_of(pods[0], self._engine.cluster.objects) if question.gang else None
        if isinstance(gang, MissingGang):
            why = f"waiting for pod group {gang.name} to be created"
            return [Trial(one, reason=why) for one in pods]
        if gang is not None:
            few = self._too_few(gang, pods)
            return few or try_gang(self._engine, pods, gang, besides=besides, preempting=preempting)
        alike = question.pod is not None
        return try_pods(self._engine, pods, besides=besides, alike=alike, preempting=preempting)

    def _too_few(self, gang: Gang, pods: list[PodInfo]) -> list[Trial]:
        known = max(self._members.of(pods[0]).known, len(pods))
        why = f"gang {gang.name}: there are {known} of {gang.min_count} needed pods"
        return [Trial(one, reason=why) for one in pods] if known < gang.min_count else []

    def _nodes_of(self, question: FitQuestion) -> list[NewNode]:
        if question.nodes and question.hold is not None:
            raise ConfigError("nodes: no room can be kept on nodes that do not exist")
        known = self._engine.cluster
        found = list(described_nodes([one for one in question.nodes if isinstance(one, str)]))
        for one in question.nodes:
            if not isinstance(one, str):
                found += new_nodes(one, known, limit=MOST_NODES)
        if len(found) > MOST_NODES:
            raise ConfigError(f"nodes: {len(found)}; there may be {MOST_NODES}")
        return found

    def _pods_of(self, question: FitQuestion) -> list[PodInfo]:
        hold = question.hold
        if hold is not None and not hold.seconds:
            return []
        wanted = list(_wanted(question))
        if len(wanted) > MOST_PODS:
            raise InvalidValue(f"pods: {len(wanted)}; there may be {MOST_PODS}")
        held = "" if hold is None else hold.name
        return [PodInfo(_as_new(pod, next(self._numbers), held)) for pod in wanted]


def _wanted(question: FitQuestion) -> Iterator[Pod]:
    sets = question.pod_sets
    if (question.pod is not None) + bool(question.pods) + bool(sets) != 1:
        raise InvalidValue("the question has to have either pods, pod or podSets")
    if question.pod is not None:
        sets = (PodSet(pod=question.pod, count=question.count),)
    for one in sets:
        if not 1 <= one.count <= MOST_PODS:
            raise InvalidValue(f"count: {one.count} is not between 1 and {MOST_PODS}")
    return chain(question.pods, *(copies(one.pod, one.count) for one in sets))


def _as_new(pod: Pod, number: int, hold: str) -> Pod:
    """Return *pod* as if it waited, with a uid that no pod of the cluster has."""
    meta = pod.metadata
    named = msgspec.structs.replace(
        meta,
        uid=f"{STAND_IN}{number}",
        namespace=meta.namespace or "default",
        annotations={HOLD: hold, **meta.annotations} if hold else meta.annotations,
    )
    spec = msgspec.structs.replace(pod.spec, node_name="", scheduling_gates=())
    return msgspec.structs.replace(pod, metadata=named, spec=spec)


def _keep(holds: Holder, hold: Hold, missing: list[PodInfo], trials: list[Trial]) -> None:
    """Keep room for all that were *missing*, if all of them fit; without time, keep none."""
    if not hold.seconds:
        holds.release(hold.name)
    elif sum(bool(one.node) and not one.victims for one in trials) == len(missing):
        holds.keep(hold.name, hold.seconds, ((one.pod, one.node) for one in trials))


def _answer(trials: list[Trial], wanted: int, *, kept: int) -> dict[str, Any]:
    """Return the answer; *kept* pods have come already, or have their room."""
    refused = [one for one in trials if not one.node]
    placed = [one for one in trials if one.node]
    return {
        "wanted": wanted,
        "fits": len(placed) + kept,
        "onNewNodes": sum(one.node.startswith(PREFIX) for one in placed),
        "placements": [_placement(one) for one in placed],
        "refused": [{"pod": one.pod.key, "reason": one.reason} for one in refused],
    }


def _placement(trial: Trial) -> dict[str, Any]:
    evicted = [victim.key for victim in trial.victims]
    more = {"evicts": evicted} if evicted else {}
    return {"pod": trial.pod.key, "node": trial.node, **(use_document(trial.use) or {}), **more}
