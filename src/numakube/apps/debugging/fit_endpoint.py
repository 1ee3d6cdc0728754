"""Would it fit? Answers with the program's own state, for queues and autoscalers.

POST /v1/fit    {"pods": [POD, ...]}                        these pods, one after the other
                {"pod": POD, "count": 8}                    so many of one kind
                {"podSets": [{"pod": POD, "count": 8}]}     or of several kinds
                {..., "nodes": ["2x 2 sockets, 16 cores"]}  besides nodes that do not exist
                {..., "nodes": [{"node": NODE}]}            of a node group
                {..., "nodes": [{"like": "n1"}]}            or like one that is there
                {..., "gang": true}                         by the rules of their pod groups
                {..., "preemption": true}                   if pods of lower priority made room
                {..., "hold": {"name": "j", "seconds": 60}} and keep the room if all of them fit

Nothing is changed and no pod is evicted: but for a hold, the answer is true for this moment. Pods
are completed as the API server would do it: what they limit they request. A question that has a
field which does not exist, or a pod without containers, gets 400; one that takes longer than
`LONGEST_SECONDS` gets 503, since nothing is scheduled meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from aiohttp import web

from numakube.api.codec import convert, decode_tree
from numakube.api.fit_question import HOLD, PATH, STAND_IN, FitQuestion, NewNodes, PodSet
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Container, EnvVar, PodSpec, PodStatus, Volume, VolumeMount
from numakube.apps.debugging.documents import json_answer
from numakube.errors import ConfigError, InvalidValue, NumakubeError
from numakube.insight.how_many_fit import copies
from numakube.insight.planned_pods import with_requests
from numakube.insight.trial_placement import Trial, trying
from numakube.scheduling.framework.unknown_fields import unknown_fields
from numakube.scheduling.gang_planning import GangRequest
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import MissingGang, gang_key, gang_of
from numakube.scheduling.recorder.flight_documents import use_document
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.simulation.node_groups import PREFIX, described_nodes, new_nodes
from numakube.simulation.node_kinds import nodes_like

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.fit_question import Hold
    from numakube.api.pod import Pod
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.host.endpoint_access import Access
    from numakube.insight.trial_placement import Trials
    from numakube.kube.clock import Clock
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.plugins.gang_scheduling.gang_members import GangMembers, Members

    NewNode = tuple[Node, NodeResourceTopology]

MOST_PODS: Final = 1000
"""In one question: nothing is scheduled while it is answered."""
MOST_NODES: Final = 1000
LONGEST_HOLD: Final = 3600.0
LONGEST_SECONDS: Final = 5.0


UNREAD: Final[Mapping[type, frozenset[str]]] = {
    PodSpec: frozenset(
        {"automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks",
         "ephemeralContainers", "hostAliases", "hostnameOverride", "imagePullSecrets",
         "securityContext", "serviceAccount", "setHostnameAsFQDN", "shareProcessNamespace",
         "subdomain", "workloadRef"}
    ),
    Container: frozenset(
        {"envFrom", "lifecycle", "livenessProbe", "readinessProbe", "securityContext",
         "startupProbe", "stdin", "stdinOnce", "terminationMessagePath",
         "terminationMessagePolicy", "tty", "volumeDevices"}
    ),
    ObjectMeta: frozenset({"managedFields", "selfLink"}),
}  # fmt: skip
"""Fields of pods that schedulers do not read."""
_OPAQUE: Final = (Node, NodeResourceTopology, PodStatus, Volume, VolumeMount, EnvVar)
"""What pods and questions have besides, of which a scheduler reads little or nothing."""


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


@dataclass(frozen=True, slots=True)
class _Asked:
    """The pods of a question.

    Attributes:
        pods: all of them, as they are tried.
        missing: those that have not come, and for which no room is kept.
    """

    question: FitQuestion
    pods: Sequence[PodInfo]
    missing: Sequence[PodInfo]

    @property
    def has_room_kept(self) -> bool:
        """Whether room for some of them is there already."""
        return len(self.missing) < len(self.pods)

    def of_gang(self, key: object) -> _Asked:
        """Return those that belong to one gang."""
        pods = [one for one in self.pods if gang_key(one) == key]
        return _Asked(self.question, pods, [one for one in self.missing if gang_key(one) == key])

    def known_with(self, members: Members) -> int:
        """Return how many pods a gang has with these."""
        new = len(self.missing) - len(self._uids & members.waiting.keys())
        return max(members.known + new, len(self.pods))

    def others_of(self, members: Members) -> Iterator[PodInfo]:
        """Yield the members that wait besides these, and may be tried."""
        for uid, pod in members.waiting.items():
            if uid not in self._uids and not pod.pod.spec.scheduling_gates:
                yield pod

    @property
    def _uids(self) -> set[str]:
        """The uids that pods of the question have, those of pods that exist."""
        sets = (one.pod for one in self.question.pod_sets)
        return {one.metadata.uid for one in chain(self.question.pods, sets)}


class Fit:
    """The endpoint of a scheduler, or of an extender, which keeps no room."""

    def __init__(
        self,
        engine: Engine,
        speaker: Speaker,
        holds: Holder | None,
        members: GangMembers,
        *,
        clock: Clock,
    ) -> None:
        self._clock = clock
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
            question = _question(await request.read())
            self._check(question.hold)
            pods = self._pods_of(question)
            besides = self._nodes_of(question)
            hold, holds = question.hold, self._holds
            missing = pods if hold is None or holds is None else holds.missing(hold.name, pods)
            trials = self._try(_Asked(question, pods, missing), besides) if missing else []
        except NumakubeError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
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

    def _try(self, asked: _Asked, besides: list[NewNode]) -> list[Trial]:
        question, ends = asked.question, self._clock.monotonic() + LONGEST_SECONDS
        preempting = question.preemption
        with trying(self._engine, besides=besides, preempting=preempting) as trials:
            if not question.gang:
                pods = (self._in_time(one, ends) for one in asked.missing)
                return trials.pods(pods, alike=question.pod is not None)
            found: list[Trial] = []
            for key in dict.fromkeys(map(gang_key, asked.missing)):
                self._in_time(asked.missing[0], ends)
                found += self._try_gang(trials, asked.of_gang(key))
            return found

    def _in_time(self, pod: PodInfo, ends: float) -> PodInfo:
        if self._clock.monotonic() > ends:
            why = f"this takes longer than {LONGEST_SECONDS:g} s: ask about fewer pods"
            raise web.HTTPServiceUnavailable(text=f"{why}\n", headers={"Retry-After": "5"})
        return pod

    def _try_gang(self, trials: Trials, asked: _Asked) -> list[Trial]:
        """Try pods of one gang, beside those members that wait already."""
        new, cluster = asked.missing, self._engine.cluster
        gang, members = gang_of(new[0], cluster.objects), self._members.of(new[0])
        if gang is None:
            return trials.pods(new)
        if isinstance(gang, MissingGang):
            return _refuse(new, f"waiting for pod group {gang.name} to be created")
        known = asked.known_with(members)
        if known < gang.min_count:
            few = f"there are {known} of {gang.min_count} needed pods"
            return _refuse(new, f"gang {gang.name}: {few}")
        others = (one for one in asked.others_of(members) if cluster.node_of(one.uid) is None)
        request = GangRequest.of(gang, members, [*others, *new], cluster)
        if asked.has_room_kept:
            request = replace(request, needed=min(request.needed, len(request.pods)))
        uids = {one.uid for one in new}
        return [one for one in trials.gang(request) if one.pod.uid in uids]

    def _nodes_of(self, question: FitQuestion) -> list[NewNode]:
        if question.nodes and question.hold is not None:
            raise ConfigError("nodes: no room can be kept on nodes that do not exist")
        known = self._engine.cluster
        found: list[NewNode] = []
        described: list[str] = []
        for one in question.nodes:
            like = nodes_like(one, known.row_of) if isinstance(one, str) else None
            if like is not None:
                named = NewNodes(like=like.like, count=like.count)
                found += new_nodes(named, known, limit=MOST_NODES)
            elif isinstance(one, str):
                described.append(one)
            else:
                found += new_nodes(one, known, limit=MOST_NODES)
        found += described_nodes(described)
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
        return [PodInfo(_as_new(pod, self._uid_for(pod, held), held)) for pod in wanted]

    def _uid_for(self, pod: Pod, hold: str) -> str:
        """Return a uid that no pod of the cluster has, or that of a gang's member that waits."""
        uid = pod.metadata.uid
        waits = uid in self._members.of(PodInfo(pod)).waiting
        if waits and not hold and self._engine.cluster.node_of(uid) is None:
            return uid
        return f"{STAND_IN}{next(self._numbers)}"


def _question(data: bytes) -> FitQuestion:
    """Return what is asked; every field has to be one that there is."""
    tree = decode_tree(data, "the question")
    wrong = next(unknown_fields(tree, FitQuestion, unused=UNREAD, opaque=_OPAQUE), "")
    if wrong:
        raise InvalidValue(f"the question: {wrong}")
    question = convert(FitQuestion, tree, "the question")
    named = {f"pods[{number}]": pod for number, pod in enumerate(question.pods)}
    named |= {f"podSets[{number}].pod": one.pod for number, one in enumerate(question.pod_sets)}
    named |= {"pod": question.pod} if question.pod is not None else {}
    for name, pod in named.items():
        if not pod.spec.containers:
            raise InvalidValue(f"the question: {name}.spec.containers: a pod needs a container")
    return question


def _wanted(question: FitQuestion) -> Iterator[Pod]:
    sets = question.pod_sets
    if (question.pod is not None) + bool(question.pods) + bool(sets) != 1:
        raise InvalidValue("the question has to have either pods, pod or podSets")
    if question.pod is not None:
        sets = (PodSet(pod=question.pod, count=question.count),)
    for one in sets:
        if not 1 <= one.count <= MOST_PODS:
            raise InvalidValue(f"count: {one.count} is not between 1 and {MOST_PODS}")
    return chain(question.pods, *map(_pods_in, sets))


def _pods_in(pods: PodSet) -> Iterable[Pod]:
    """Return so many pods of a kind; one that exists stands for itself."""
    exists = pods.count == 1 and pods.pod.metadata.uid
    return [pods.pod] if exists else copies(pods.pod, pods.count)


def _refuse(pods: Iterable[PodInfo], why: str) -> list[Trial]:
    return [Trial(one, reason=why) for one in pods]


def _as_new(pod: Pod, uid: str, hold: str) -> Pod:
    """Return *pod* as if it waited."""
    meta = pod.metadata
    named = msgspec.structs.replace(
        meta,
        uid=uid,
        namespace=meta.namespace or "default",
        annotations={HOLD: hold, **meta.annotations} if hold else meta.annotations,
    )
    pod = with_requests(pod)
    spec = msgspec.structs.replace(pod.spec, node_name="", scheduling_gates=())
    return msgspec.structs.replace(pod, metadata=named, spec=spec)


def _keep(holds: Holder, hold: Hold, missing: Sequence[PodInfo], trials: list[Trial]) -> None:
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
