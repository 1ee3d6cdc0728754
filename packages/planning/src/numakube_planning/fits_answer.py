"""How many more pods of a kind fit, where, what limits the next one, and which node would help.

    answer = how_many_more(facts, make, subject)      # values
    print(joined(room_lines(answer)))                 # text for people

The pods are placed by the scheduler's own plugins and the kubelet model. The next one is judged
beside them, so that its reasons are those of the full cluster. A kind of node is rated by what an
idle one of it would take, with its daemons on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube.insight.explain import (
    EMPTY,
    ExplainOptions,
    Line,
    LineRole,
    Subject,
    explain,
    table_lines,
)
from numakube.insight.explain.explanation_document import Document, Explanation
from numakube.insight.how_many_fit import copies, place, room_for
from numakube.insight.node_groups import with_nodes_like
from numakube.insight.unknown_zones import why_unknown
from numakube.scheduling.snapshot.pod_equivalence import depends_on_pods
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.scheduling import Engine

MOST_PLACED: Final = 2_000
"""Pods that are placed one after the other to judge the next; more would take minutes."""
_SHOWN: Final = 10
"""Nodes that are named unless all are asked for."""
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"


class KindOfNode(Document, frozen=True):
    """Nodes that are alike but for what runs on them.

    Attributes:
        like: one of them.
        instance_type: what the cloud calls it; empty if it says nothing.
        nodes: how many there are.
        fits: how many pods another one would take.
    """

    like: str
    instance_type: str = ""
    nodes: int = 0
    fits: int = 0


class Limit(Document, frozen=True):
    """Why the next pod does not fit on some nodes: the scheduler's words, and what they mean."""

    reason: str
    meaning: str = ""
    nodes: tuple[str, ...] = ()


class HowManyMore(Document, frozen=True, kw_only=True):
    """The answer.

    Attributes:
        fits: how many more.
        unknown: how many more there is room for on nodes of whose NUMA zones nothing is known.
        why_unknown: why that is so.
        nodes: how many of both on which node; full nodes are missing.
        limits: why the next one does not fit, the reason with most nodes first; empty if too many
            fit to try the next one.
        kinds: what another node would take, the best kind first.
    """

    pod: str
    taken_at: str = ""
    fits: int = 0
    unknown: int = 0
    why_unknown: str = ""
    nodes: dict[str, int] = {}  # noqa: RUF012 - msgspec gives each instance its own
    limits: tuple[Limit, ...] = ()
    kinds: tuple[KindOfNode, ...] = ()


def how_many_more(
    facts: ClusterFacts, make: Callable[[ClusterFacts], Engine], subject: Subject
) -> HowManyMore:
    """Return how many pods like *subject* fit beside what runs; *make* fills an engine."""
    pod = subject.unbound()
    room = room_for(make(facts), pod)
    count = sum(room.values())
    refused = _next(facts, make, pod, count) if count <= MOST_PLACED else None
    blind = [name for name in room if why_unknown(facts, pod, [name])]
    unknown = sum(room[name] for name in blind)
    return HowManyMore(
        pod=f"{pod.metadata.namespace}/{pod.metadata.name}",
        taken_at=facts.taken_at,
        fits=count - unknown,
        unknown=unknown,
        why_unknown=why_unknown(facts, pod, blind),
        nodes=dict(sorted(room.items(), key=lambda item: (-item[1], item[0]))),
        limits=_limits(refused) if refused is not None else (),
        kinds=tuple(_kinds(facts, make, pod, count)),
    )


def _next(
    facts: ClusterFacts, make: Callable[[ClusterFacts], Engine], pod: Pod, count: int
) -> Explanation:
    """Return why no more than *count* pods fit."""
    engine = make(facts)
    place(engine, copies(pod, count))
    (last,) = copies(pod, 1, of="next")
    return explain(facts, engine, Subject(last, planned=True), ExplainOptions(changes=False))


def _limits(refused: Explanation) -> tuple[Limit, ...]:
    limits = [Limit(group.reason, group.meaning, group.nodes) for group in refused.groups]
    if not limits:
        return (Limit(refused.summary),)
    return tuple(sorted(limits, key=lambda limit: -len(limit.nodes)))


def _kinds(
    facts: ClusterFacts, make: Callable[[ClusterFacts], Engine], pod: Pod, count: int
) -> list[KindOfNode]:
    members: dict[object, list[str]] = {}
    for name in sorted(facts.nodes):
        members.setdefault(_kind(facts, name), []).append(name)
    kinds = [
        KindOfNode(
            like=names[0],
            instance_type=facts.nodes[names[0]].metadata.labels.get(_INSTANCE_TYPE, ""),
            nodes=len(names),
            fits=_on_another(facts, make, pod, like=names[0], count=count),
        )
        for names in members.values()
    ]
    return sorted(kinds, key=lambda kind: (-kind.fits, kind.like))


def _kind(facts: ClusterFacts, name: str) -> object:
    """Return what tells kinds of nodes apart: what they offer, by zone, and how they are run."""
    node, view = facts.nodes[name], facts.view(name)
    offered = tuple(sorted((key, str(value)) for key, value in node.status.allocatable.items()))
    kind = node.metadata.labels.get(_INSTANCE_TYPE, "")
    if not isinstance(view, NodeTopology):
        return offered, kind
    zones = tuple(tuple(sorted(zone.allocatable.items())) for zone in view.zones)
    return offered, kind, view.policy, view.scope, zones


def _on_another(
    facts: ClusterFacts,
    make: Callable[[ClusterFacts], Engine],
    pod: Pod,
    *,
    like: str,
    count: int,
) -> int:
    """Return how many pods another node like *like* would take."""
    more = with_nodes_like(facts, like, 1)
    if depends_on_pods(PodInfo(pod)):
        return sum(room_for(make(more), pod).values()) - count
    (new,) = more.nodes.keys() - facts.nodes.keys()
    alone = replace(
        more,
        nodes={new: more.nodes[new]},
        pods=tuple(more.pods_on(new)),
        topologies={name: one for name, one in more.topologies.items() if name == new},
    )
    return sum(room_for(make(alone), pod).values())


def room_lines(answer: HowManyMore, *, wide: bool = False) -> Iterator[Line]:
    """Yield the answer for people; *wide* names all nodes."""
    yield Line(_title(answer), LineRole.TITLE)
    if answer.unknown:
        yield Line(
            f"Whether {counted(answer.unknown, 'more pod')} would fit is not known:"
            f" {answer.why_unknown}."
        )
    if answer.nodes:
        yield EMPTY
        yield from table_lines(_node_rows(answer, wide=wide))
    if answer.limits:
        yield EMPTY
        yield Line("The next one:" if answer.nodes else "Why:")
        for limit in answer.limits:
            meaning = f". {limit.meaning}" if limit.meaning else ""
            yield Line(f"  {_nodes(limit.nodes, wide=wide)}{limit.reason}{meaning}")
    if answer.kinds:
        yield EMPTY
        yield from table_lines(_kind_rows(answer))


def _title(answer: HowManyMore) -> str:
    if not answer.fits:
        known = " for all that is known" if answer.unknown else ""
        return f"No pod like {answer.pod} fits{known}."
    if answer.fits == 1:
        return f"One more pod like {answer.pod} fits."
    return f"{answer.fits} more pods like {answer.pod} fit."


def _node_rows(answer: HowManyMore, *, wide: bool) -> list[list[str]]:
    rows = [[name, str(count)] for name, count in answer.nodes.items()]
    if not wide and len(rows) > _SHOWN:
        rest = sum(list(answer.nodes.values())[_SHOWN:])
        rows[_SHOWN:] = [[f"({len(rows) - _SHOWN} more nodes)", str(rest)]]
    return [["NODE", "ROOM FOR" if answer.unknown else "FITS"], *rows]


def _nodes(names: tuple[str, ...], *, wide: bool) -> str:
    if not names:
        return ""
    if wide or len(names) == 1:
        return f"{', '.join(names)}: "
    return f"{len(names)} nodes: "


def _kind_rows(answer: HowManyMore) -> list[list[str]]:
    rows = [
        [kind.like, kind.instance_type or "-", str(kind.nodes), str(kind.fits)]
        for kind in answer.kinds
    ]
    return [
        ["ANOTHER NODE LIKE", "TYPE", "THERE ARE", "ROOM FOR" if answer.unknown else "WOULD TAKE"],
        *rows,
    ]
