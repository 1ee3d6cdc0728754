"""Would it fit? Answers with the scheduler's own state, for queues and autoscalers.

POST /v1/fit    {"pods": [POD, ...]}                        these pods, one after the other
                {"pod": POD, "count": 8}                    so many of one kind
                {..., "nodes": ["2x 2 sockets, 16 cores"]}  besides nodes that do not exist

Nothing is changed, nothing is reserved, and nobody is evicted: the answer is true for this moment.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from aiohttp import web

from numakube.api.codec import decode
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.api.wire import Wire
from numakube.apps.debugging.documents import Speaker, json_answer
from numakube.apps.host.access import Access
from numakube.errors import ConfigError, InvalidValue, NumakubeError
from numakube.insight.how_many_fit import copies
from numakube.insight.trial_placement import Trial, try_pods
from numakube.scheduling.assembly import Engine
from numakube.scheduling.recorder.flight_documents import use_document
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.simulation.node_kinds import nodes_of_kinds
from numakube.simulation.virtual_node import NodeFactory

MOST_PODS: Final = 1000
"""In one question: nothing is scheduled while it is answered."""
MOST_NODES: Final = 1000
_PREFIX: Final = "new-"


class FitQuestion(Wire, frozen=True):
    """What is asked.

    Attributes:
        pods: pods that are placed one after the other.
        pod: or one kind of pod, *count* times.
        nodes: nodes that do not exist, as ``numakube simulate --nodes`` describes them.
    """

    pods: tuple[Pod, ...] = ()
    pod: Pod | None = None
    count: int = 1
    nodes: tuple[str, ...] = ()


class Fit:
    """The endpoint of one scheduler."""

    def __init__(self, engine: Engine, speaker: Speaker) -> None:
        self._engine = engine
        self._speaker = speaker

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the route, open only to those who may."""
        return [web.post("/v1/fit", access.guarded(self._fit))]

    async def _fit(self, request: web.Request) -> web.Response:
        try:
            question = decode(FitQuestion, await request.read(), subject="the question")
            pods = _pods_of(question)
            besides = list(_nodes_of(question))
        except NumakubeError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        trials = try_pods(self._engine, pods, besides=besides, alike=question.pod is not None)
        return json_answer(self._speaker.document("Fit", **_answer(trials, len(pods))))


def _pods_of(question: FitQuestion) -> list[PodInfo]:
    if (question.pod is None) == (not question.pods):
        raise InvalidValue("the question has to have either pods or pod")
    if question.pod is None:
        wanted = list(question.pods)
    elif not 1 <= question.count <= MOST_PODS:
        raise InvalidValue(f"count: {question.count} is not between 1 and {MOST_PODS}")
    else:
        wanted = list(copies(question.pod, question.count))
    if len(wanted) > MOST_PODS:
        raise InvalidValue(f"pods: {len(wanted)}; there may be {MOST_PODS}")
    return [PodInfo(_as_new(pod, number)) for number, pod in enumerate(wanted)]


def _as_new(pod: Pod, number: int) -> Pod:
    """Return *pod* as if it waited, with a uid that no pod of the cluster has."""
    meta = pod.metadata
    named = msgspec.structs.replace(
        meta, uid=f"fit:{number}", namespace=meta.namespace or "default"
    )
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return msgspec.structs.replace(pod, metadata=named, spec=spec)


def _nodes_of(question: FitQuestion) -> Iterator[tuple[Node, NodeResourceTopology]]:
    if not question.nodes:
        return
    nodes = nodes_of_kinds(question.nodes, prefix=_PREFIX)
    if len(nodes) > MOST_NODES:
        raise ConfigError(f"nodes: {len(nodes)}; there may be {MOST_NODES}")
    factory = NodeFactory({})
    for one in nodes:
        node = factory.make(one)
        yield node.object, node.report(1, exact=True)


def _answer(trials: list[Trial], wanted: int) -> dict[str, Any]:
    refused = [one for one in trials if not one.node]
    placed = [one for one in trials if one.node]
    return {
        "wanted": wanted,
        "fits": len(placed),
        "onNewNodes": sum(one.node.startswith(_PREFIX) for one in placed),
        "placements": [
            {"pod": one.pod.key, "node": one.node, **(use_document(one.use) or {})}
            for one in placed
        ],
        "refused": [{"pod": one.pod.key, "reason": one.reason} for one in refused],
    }
