"""Plans that open room: for more pods of a kind, for a pod that waits, or for a gang.

    plan = plan_moves(engine, copies(pod, 4))

A plan is judged by its end: all of the pods have to fit at the same time then, and none of them
comes before. `with_moves` adds such a plan to the
explanation of a pod that no smaller change helps.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod import has_ended
from numakube.insight.defrag.defrag_plan import Plan
from numakube.insight.defrag.room_search import RoomSearch
from numakube.insight.defrag.wanted_pods import WantedPods
from numakube.insight.defrag.what_if_cluster import WhatIfCluster
from numakube.insight.explain.explained_pod import Subject
from numakube.insight.explain.explanation_document import Change, Explanation
from numakube.scheduling.gang_planning import domains_of_nodes, gang_arguments
from numakube.scheduling.plugins.gang_scheduling.gang_plugin import domains_of
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang, gang_key, gang_of
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.scheduling.assembly import Engine

_MOST_WAITING: Final = 50
"""Pods that wait and are tried on the cluster after a plan."""
_LARGER: Final = frozenset({"evict"})
"""Kinds of changes that cost more than a move: the pods that go are lost."""


def plan_moves(engine: Engine, pods: Iterable[Pod], *, waiting: Iterable[Pod] = ()) -> Plan:
    """Return how *pods* can be made to fit, all at the same time; *engine* has the moves then.

    Pods that are *waiting* for a node already are told if they could take the room.
    """
    what_if = WhatIfCluster(engine)
    plan = _planned(what_if, list(pods))
    if plan.steps:
        plan.takers = [
            one.metadata.key
            for one in islice(waiting, _MOST_WAITING)
            if what_if.arrive(Subject(one).unbound())
        ]
    return plan


def plan_for_waiting(engine: Engine, pods: Sequence[Pod]) -> Plan:
    """Return how those of *pods* that have no node can be made to fit, all of one gang or alone.

    Those that have one are among the pods of the plan. A gang that is to stay within one topology
    domain gets the one in which most of it fits, by the fewest moves.
    """
    what_if = WhatIfCluster(engine)
    waiting = [Subject(one).unbound() for one in pods if not one.spec.node_name]
    best = Plan(len(pods))
    for number, selector in enumerate(_domains(engine, pods)):
        wanted = [_within(one, selector) for one in waiting]
        plan = _planned(what_if, wanted)
        what_if.rewind(0)
        if not number or _rank(plan) < _rank(best):
            best = plan
    best.nodes = [one.spec.node_name for one in pods if one.spec.node_name] + best.nodes
    best.wanted = len(pods)
    return best


def gang_members(pods: Iterable[Pod], namespace: str, group: str) -> list[Pod]:
    """Return the pods of the group of that name, whichever API it belongs to."""
    return [
        one
        for one in pods
        if not has_ended(one) and (gang_key(PodInfo(one)) or ("", "", ""))[1:] == (namespace, group)
    ]


def _planned(what_if: WhatIfCluster, pods: Sequence[Pod]) -> Plan:
    search, plan, wanted = RoomSearch(what_if), Plan(len(pods)), WantedPods(what_if, pods)
    while wanted.next is not None:
        step = search.open_room(wanted)
        if step is None:
            plan.why_not, plan.is_hopeless = wanted.why, search.is_hopeless
            break
        plan.steps.append(step)
        wanted.look_again()
    plan.nodes = wanted.nodes
    return plan


def _rank(plan: Plan) -> tuple[int, int]:
    return -len(plan.nodes), plan.moves


def _domains(engine: Engine, pods: Sequence[Pod]) -> Iterator[dict[str, str]]:
    """Yield the labels that nodes of *pods* must have, for each way to choose them."""
    gang = gang_of(PodInfo(pods[0]), engine.cluster.objects) if pods else None
    key = gang.required_topology if isinstance(gang, Gang) else ""
    if not key:
        yield {}
        return
    labels = gang_arguments(engine).labels_of(key)
    names = [one.spec.node_name for one in pods if one.spec.node_name]
    taken = set(domains_of_nodes(engine.cluster, labels, names))
    domains = taken or domains_of(engine.cluster.snapshot(), labels)
    yield from (one.selector for one in sorted(domains, key=lambda one: one.values))


def _within(pod: Pod, selector: dict[str, str]) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_selector={**pod.spec.node_selector, **selector})
    return msgspec.structs.replace(pod, spec=spec) if selector else pod


def with_moves(found: Explanation, engine: Engine, subject: Subject) -> Explanation:
    """Return *found* with the moves that let *subject* fit, if they do and nothing smaller does."""
    smaller = [one for one in found.changes if one.kind not in _LARGER]
    if found.verdict != "refused" or subject.pod.spec.node_name or smaller:
        return found
    plan = plan_for_waiting(engine, [subject.pod])
    moves = [move for step in plan.steps for move in step.moves]
    if not moves or not plan.nodes:
        return found
    texts = [f"{move.pod} from {move.from_node} to {move.to_node}" for move in moves]
    text = f"Move {', then '.join(texts)}; `kubectl numa defrag` does it"
    pods = tuple(move.pod for move in moves)
    change = Change(kind="move", text=text, node=plan.nodes[0], pods=pods)
    return msgspec.structs.replace(found, changes=(change, *found.changes))
