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

Pods are placed on the engine that is in use, and taken off again: unlike
`numakube.insight.how_many_fit` a `Trial` leaves the engine as it was, so that a scheduler can
answer with its own state between two cycles.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from numakube.api.codec import convert, decode_tree
from numakube.api.fit_question import HOLD, PATH, STAND_IN, AskedPodSet, FitQuestion, NewNodes
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Container, EnvVar, PodSpec, PodStatus, Volume, VolumeMount
from numakube.apps.debugging.annex_endpoints import Endpoints
from numakube.apps.debugging.documents import json_answer
from numakube.errors import ConfigError, InvalidValue, NumakubeError
from numakube.insight.how_many_fit import EngineBooks, copies
from numakube.insight.node_setup import nodes_like
from numakube.insight.planned_pods import with_requests
from numakube.scheduling import Chosen, Cycle, FirstOfEquals, Refused
from numakube.scheduling.framework.registry import unknown_fields
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.plugins.pod_gangs import MissingGang, gang_key, gang_of
from numakube.scheduling.recorder.flight_documents import use_document
from numakube.scheduling.snapshot.pods import PodInfo
from numakube_planning.simulation.virtual_node import PREFIX, described_nodes, new_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.fit_question import Hold
    from numakube.api.pod import Pod
    from numakube.apps.debugging.annex_endpoints import RoomHolder, ServingProgram
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.host import Access
    from numakube.kube.clock import Clock
    from numakube.scheduling import Engine
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.gang_placements import PlacementFigures
    from numakube.scheduling.plugins.gang_scheduling import GangMembers, Members
    from numakube.scheduling.snapshot.zone_belief import KubeletRejection, ZoneUse

    NewNode = tuple[Node, NodeResourceTopology]


@dataclass(frozen=True, slots=True)
class Trial:
    """Where one pod would go.

    Attributes:
        node: where it would go; empty if nowhere.
        use: what it would hold there, by NUMA node, if that can be predicted.
        reason: why no node takes it.
        victims: pods that would be evicted for it.
    """

    pod: PodInfo
    node: str = ""
    use: ZoneUse | KubeletRejection | None = None
    reason: str = ""
    victims: tuple[PodInfo, ...] = ()


class Trials:
    """Pods that are placed to see where they would go, each beside those before it."""

    def __init__(self, engine: Engine, until: ExitStack, *, preempting: bool) -> None:
        self._engine = engine
        self._until = until
        self._preempting = preempting
        self._cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
        self.figures: list[PlacementFigures] = []
        """Of each gang that was planned."""

    def pods(self, pods: Iterable[PodInfo], *, alike: bool = False) -> list[Trial]:
        """Place single pods; those that are all *alike* end with the first that does not fit."""
        found: list[Trial] = []
        for pod in pods:
            found.append(self._pod(pod))
            if alike and not found[-1].node:
                break
        return found

    def gang(self, request: GangRequest) -> list[Trial]:
        """Place the members of a gang, or none of them, by the scheduler's own plan."""
        planner = GangPlanner(self._engine, EngineBooks(self._engine))
        plan = planner.plan(request, may_evict=self._preempting)
        figures = plan.figures(request.needed)
        if figures is not None:
            self.figures.append(figures)
        if plan.fitting < request.needed:
            why = plan.why_not(request)
            return [Trial(pod, reason=why) for pod in request.pods]
        self._until.callback(planner.undo, plan)
        return [
            *(self._placed(pod, chosen.node) for pod, chosen in plan.placements),
            *(_evicting(pod, nomination) for pod, nomination in plan.nominations),
            *(Trial(pod, reason=refused.why) for pod, refused in plan.refused),
        ]

    def _pod(self, pod: PodInfo) -> Trial:
        engine = self._engine
        decision = self._cycle.decide(pod, engine.runtime_for(pod.scheduler_name))
        if isinstance(decision, Chosen):
            books = EngineBooks(engine)
            status = books.reserve(pod, decision)
            if not status.ok:
                return Trial(pod, reason=f"{status.plugin}: {status.message}")
            self._until.callback(books.give_back, pod, decision)
            return self._placed(pod, decision.node)
        if self._preempting and isinstance(decision, Refused) and decision.nomination is not None:
            # Others must not count on the room that evictions would make.
            engine.nominations.nominate(pod, decision.nomination.node)
            self._until.callback(engine.nominations.drop, pod.uid)
            return _evicting(pod, decision.nomination)
        return Trial(pod, reason=decision.why)

    def _placed(self, pod: PodInfo, name: str) -> Trial:
        node = self._engine.cluster.node(name)
        belief = node.numa if node is not None else None
        use = belief.foreseen.get(pod.uid) if isinstance(belief, ExactBelief) else None
        return Trial(pod, name, use)


@contextmanager
def trying(
    engine: Engine,
    *,
    besides: Sequence[tuple[Node, NodeResourceTopology]] = (),
    preempting: bool = False,
) -> Iterator[Trials]:
    """Try pods on an engine that stays as it is.

    Args:
        engine: decides.
        besides: nodes that do not exist, with their reports.
        preempting: whether pods that fit only after evictions count as placed.
    """
    with ExitStack() as stack:
        for node, report in besides:
            stack.enter_context(_added(engine, node, report))
        yield Trials(engine, stack, preempting=preempting)


def _evicting(pod: PodInfo, nomination: Nomination) -> Trial:
    return Trial(pod, nomination.node, victims=tuple(nomination.victims))


@contextmanager
def _added(engine: Engine, node: Node, report: NodeResourceTopology) -> Iterator[None]:
    name = node.metadata.name
    engine.cluster.set_node(node)
    engine.cluster.take(engine.cache.set_report(report), engine.cache)
    try:
        yield
    finally:
        engine.cluster.take(engine.cache.remove_report(name), engine.cache)
        engine.cluster.remove_node(name)


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
         "workloadRef"}
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


@dataclass(frozen=True, slots=True)
class _AskedPods:
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

    def of_gang(self, key: object) -> _AskedPods:
        """Return those that belong to one gang."""
        pods = [one for one in self.pods if gang_key(one) == key]
        return _AskedPods(
            self.question, pods, [one for one in self.missing if gang_key(one) == key]
        )

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


def fit_of(program: ServingProgram) -> Endpoints:
    """Return the endpoint of a program; one that does not decide on pods has none."""
    known = program.decides
    if known is None:
        return _Nothing()
    holds, members = known.holds, known.members
    return FitEndpoint(known.engine, known.speaker, holds, members, clock=program.client.clock)


class _Nothing(Endpoints):
    """No endpoint."""

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return none."""
        del access
        return []


class FitEndpoint(Endpoints):
    """The endpoint of a scheduler, or of an extender, which keeps no room."""

    called_by_tools = True

    def __init__(
        self,
        engine: Engine,
        speaker: Speaker,
        holds: RoomHolder | None,
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
            asked = _AskedPods(question, pods, missing)
            trials, figures = self._try(asked, besides) if missing else ([], [])
        except NumakubeError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        if hold is not None and holds is not None:
            _keep(holds, hold, missing, trials)
        answer = _answer(trials, len(pods), kept=len(pods) - len(missing))
        return json_answer(self._speaker.document("Fit", **answer, **_told(figures)))

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
        self, asked: _AskedPods, besides: list[NewNode]
    ) -> tuple[list[Trial], list[PlacementFigures]]:
        question, ends = asked.question, self._clock.monotonic() + LONGEST_SECONDS
        preempting = question.preemption
        with trying(self._engine, besides=besides, preempting=preempting) as trials:
            if not question.gang:
                pods = (self._in_time(one, ends) for one in asked.missing)
                return trials.pods(pods, alike=question.pod is not None), []
            found: list[Trial] = []
            for key in dict.fromkeys(map(gang_key, asked.missing)):
                self._in_time(asked.missing[0], ends)
                found += self._try_gang(trials, asked.of_gang(key))
            return found, trials.figures

    def _in_time(self, pod: PodInfo, ends: float) -> PodInfo:
        if self._clock.monotonic() > ends:
            why = f"this takes longer than {LONGEST_SECONDS:g} s: ask about fewer pods"
            raise web.HTTPServiceUnavailable(text=f"{why}\n", headers={"Retry-After": "5"})
        return pod

    def _try_gang(self, trials: Trials, asked: _AskedPods) -> list[Trial]:
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
        others = (other for other in asked.others_of(members) if cluster.node_of(other.uid) is None)
        request = GangRequest.of(gang, members, [*others, *new], cluster)
        if asked.has_room_kept:
            request = replace(request, needed=min(request.needed, len(request.pods)))
        uids = {one.uid for one in new}
        return [trial for trial in trials.gang(request) if trial.pod.uid in uids]

    def _nodes_of(self, question: FitQuestion) -> list[NewNode]:
        if question.nodes and question.hold is not None:
            raise ConfigError("nodes: no room can be kept on nodes that do not exist")
        known = self._engine.cluster
        found: list[NewNode] = []
        described: list[str] = []
        for node in question.nodes:
            like = nodes_like(node, known.row_of) if isinstance(node, str) else None
            if like is not None:
                named = NewNodes(like=like.like, count=like.count)
                found += new_nodes(named, known, limit=MOST_NODES)
            elif isinstance(node, str):
                described.append(node)
            else:
                found += new_nodes(node, known, limit=MOST_NODES)
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
        sets = (AskedPodSet(pod=question.pod, count=question.count),)
    for one in sets:
        if not 1 <= one.count <= MOST_PODS:
            raise InvalidValue(f"count: {one.count} is not between 1 and {MOST_PODS}")
    return chain(question.pods, *map(_pods_in, sets))


def _pods_in(pods: AskedPodSet) -> Iterable[Pod]:
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


def _keep(holds: RoomHolder, hold: Hold, missing: Sequence[PodInfo], trials: list[Trial]) -> None:
    """Keep room for all that were *missing*, if all of them fit; without time, keep none."""
    if not hold.seconds:
        holds.release(hold.name)
    elif sum(bool(trial.node) and not trial.victims for trial in trials) == len(missing):
        holds.keep(hold.name, hold.seconds, ((trial.pod, trial.node) for trial in trials))


def _answer(trials: list[Trial], wanted: int, *, kept: int) -> dict[str, Any]:
    """Return the answer; *kept* pods have come already, or have their room."""
    refused = [trial for trial in trials if not trial.node]
    placed = [trial for trial in trials if trial.node]
    return {
        "wanted": wanted,
        "fits": len(placed) + kept,
        "onNewNodes": sum(trial.node.startswith(PREFIX) for trial in placed),
        "placements": [_placement(trial) for trial in placed],
        "refused": [{"pod": trial.pod.key, "reason": trial.reason} for trial in refused],
    }


def _told(figures: Sequence[PlacementFigures]) -> dict[str, Any]:
    """Return what is told of levels; nothing of several gangs, which have levels of their own."""
    if len(figures) != 1:
        return {}
    (one,) = figures
    told = {"domains": one.domains, "largest": one.largest, "cost": one.cost}
    return {key: value for key, value in told.items() if value}


def _placement(trial: Trial) -> dict[str, Any]:
    evicted = [victim.key for victim in trial.victims]
    more = {"evicts": evicted} if evicted else {}
    return {"pod": trial.pod.key, "node": trial.node, **(use_document(trial.use) or {}), **more}
