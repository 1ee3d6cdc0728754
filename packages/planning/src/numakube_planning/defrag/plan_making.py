"""Plans for each goal: room for pods, a pod that runs aligned, less that is stranded.

    plan = plan_moves(engine, copies(pod, 4))          # so many more of a kind
    plan = plan_for_waiting(engine, [pod])             # a pod that waits, or a gang
    plan = plan_alignment(facts, engine, pod)          # a pod that runs
    plan = reduce_stranded(engine, most=20)            # whatever is stranded

Room: a plan is judged by its end. All of the pods have to fit at the same time then, and none of
them comes before. `with_moves` adds such a plan to the explanation of a pod that no smaller change
helps.

Alignment: the pod is placed again where that aligns it. Where that is, `numakube_planning.audit`
says, and the scheduler's own cycle says where the pod goes. Nodes that the scheduler likes better,
and that would not align the pod, are cordoned meanwhile.

Stranded is what `numakube.insight.usage.largest_pod` calls so: free, but without what has to go
with it in the same zone. Step by step, the move is taken that helps most: a pod leaves a node that
strands something and goes where the scheduler puts it. Devices count first, the rest as a share of
what the cluster has.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod import has_ended
from numakube.insight.explain import Subject
from numakube.insight.explain.explanation_document import Change, Explanation
from numakube.insight.usage.stranded_amounts import proportion, stranded
from numakube.scheduling.gang_placements import domains_of_nodes, gang_arguments
from numakube.scheduling.plugins.gang_scheduling import domains_of
from numakube.scheduling.plugins.pod_gangs import Gang, gang_key, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.resources import CPU, MILLI_PER_CPU, add_amounts, is_memory
from numakube_planning.defrag.defrag_plan import MovablePods, Move, MovePlan, MoveStep, may_move
from numakube_planning.defrag.room_search import RoomSearch
from numakube_planning.defrag.what_if_cluster import WantedPods, WhatIfCluster, again

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.scheduling import Engine
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.values.resources import Amounts

_MOST_WAITING: Final = 50
"""Pods that wait and are tried on the cluster after a plan."""
_LARGER: Final = frozenset({"evict"})
"""Kinds of changes that cost more than a move: the pods that go are lost."""


def plan_moves(engine: Engine, pods: Iterable[Pod], *, waiting: Iterable[Pod] = ()) -> MovePlan:
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


def plan_for_waiting(engine: Engine, pods: Sequence[Pod]) -> MovePlan:
    """Return how those of *pods* that have no node can be made to fit, all of one gang or alone.

    Those that have one are among the pods of the plan. A gang that is to stay within one topology
    domain gets the one in which most of it fits, by the fewest moves.
    """
    what_if = WhatIfCluster(engine)
    waiting = [Subject(one).unbound() for one in pods if not one.spec.node_name]
    best = MovePlan(len(pods))
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


def _planned(what_if: WhatIfCluster, pods: Sequence[Pod]) -> MovePlan:
    search, plan, wanted = RoomSearch(what_if), MovePlan(len(pods)), WantedPods(what_if, pods)
    while wanted.next is not None:
        step = search.open_room(wanted)
        if step is None:
            plan.why_not, plan.is_hopeless = wanted.why, search.is_hopeless
            break
        plan.steps.append(step)
        wanted.look_again()
    plan.nodes = wanted.nodes
    return plan


def _rank(plan: MovePlan) -> tuple[int, int]:
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
    yield from (domain.selector for domain in sorted(domains, key=lambda domain: domain.values))


def _within(pod: Pod, selector: dict[str, str]) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_selector={**pod.spec.node_selector, **selector})
    return msgspec.structs.replace(pod, spec=spec) if selector else pod


def with_moves(found: Explanation, engine: Engine, subject: Subject) -> Explanation:
    """Return *found* with the moves that let *subject* fit, if they do and nothing smaller does."""
    smaller = [change for change in found.changes if change.kind not in _LARGER]
    if found.verdict != "refused" or subject.pod.spec.node_name or smaller:
        return found
    plan = plan_for_waiting(engine, [subject.pod])
    moves = [move for step in plan.steps for move in step.moves]
    if not moves or not plan.nodes:
        return found
    texts = [f"{move.pod} from {move.from_node} to {move.to_node}" for move in moves]
    text = f"Move {', then '.join(texts)}; `kubectl numa plan defrag` does it"
    pods = tuple(move.pod for move in moves)
    change = Change(kind="move", text=text, node=plan.nodes[0], pods=pods)
    return msgspec.structs.replace(found, changes=(change, *found.changes))


_MOST_CORDONED: Final = 3


def plan_alignment(facts: ClusterFacts, engine: Engine, pod: Pod) -> MovePlan:
    """Return how *pod*, which has its node, comes to be aligned; *engine* has the move then."""
    # An audit explains pods, for which it brings much along; the rebalancer never asks for one.
    from numakube_planning.audit import audit

    plan, found = MovePlan(1, aligns=pod.metadata.key), audit(facts, [pod])
    if found.unknown:
        plan.why_not = found.unknown[0].why
    elif not found.misaligned:
        plan.nodes = [pod.spec.node_name]
    else:
        info, better = PodInfo(pod), found.misaligned[0].better
        plan.why_not = _stays(engine, info) or ("" if better else "no node would align it now")
        move = _move(WhatIfCluster(engine), info, better) if not plan.why_not else None
        if move is not None:
            plan.nodes, plan.steps = [move.to_node], [MoveStep(move.from_node, (move,))]
        else:
            plan.why_not = plan.why_not or "the scheduler would not place it where it is aligned"
    return plan


def replacement_of(pod: Pod, before: ClusterFacts, now: ClusterFacts) -> Pod | None:
    """Return a pod of the same controller that was not there *before*."""
    owner, known = pod.metadata.controller, {other.metadata.uid for other in before.pods}
    for one in now.pods:
        same = owner is not None and one.metadata.controller == owner
        if same and one.metadata.uid not in known:
            return one
    return None


def _stays(engine: Engine, pod: PodInfo) -> str:
    """Return why *pod* is not moved, or nothing."""
    if pod.pod.spec.resource_claims:
        return "it has resource claims, and its next ones do not exist yet"
    if not may_move(pod):
        return "it may not be moved"
    budgets = engine.cluster.objects.disruption_budgets.values()
    return "" if MovablePods(budgets).within_budgets([pod]) else "a disruption budget protects it"


def _move(what_if: WhatIfCluster, pod: PodInfo, better: Collection[str]) -> Move | None:
    closed, mark = frozenset[str](), what_if.mark()
    for _ in range(_MOST_CORDONED + 1):
        what_if.leave(pod)
        to_node = what_if.arrive(again(pod), closed=closed)
        if to_node in better:
            return Move(pod.key, pod.node_name, to_node, tuple(sorted(closed)))
        what_if.rewind(mark)
        closed |= {to_node}
        if not to_node:
            break
    return None


_LEAST_GAIN: Final = 0.02
"""The share of an average node that has to become usable: less is not worth a restart."""
_DEVICES_FIRST: Final = 1000.0


def reduce_stranded(engine: Engine, *, most: int) -> MovePlan:
    """Return at most *most* moves after which less is stranded; *engine* has them in the end."""
    return _Reduction(engine).plan(most)


def stranded_on(node: NodeInfo) -> Amounts:
    """Return what is stranded on *node*, by what is believed of its zones."""
    belief = node.numa
    topology = belief.topology if belief is not None else None
    if belief is None or topology is None:
        return {}
    return add_amounts(
        *(
            stranded(
                zone.allocatable,
                free,
                free.get(CPU, 0) // MILLI_PER_CPU,
                proportion(zone.allocatable),
            )
            for zone, free in zip(topology.zones, belief.available, strict=True)
        )
    )


def stranded_in(engine: Engine) -> Amounts:
    """Return what is stranded on all nodes."""
    return add_amounts(*map(stranded_on, engine.cluster.nodes()))


class _Reduction:
    """Moves pods on the engine as long as that helps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._what_if = WhatIfCluster(engine)
        self._movable = MovablePods(engine.cluster.objects.disruption_budgets.values())
        nodes = list(engine.cluster.nodes())
        self._total = add_amounts(*(node.allocatable for node in nodes))
        self._loss = {node.name: self._weighed(stranded_on(node)) for node in nodes}
        self._least = _LEAST_GAIN / max(1, len(nodes))
        self._gains: dict[str, tuple[float, PodInfo | None]] = {}

    def plan(self, most: int) -> MovePlan:
        """Return the moves, the best first."""
        plan = MovePlan(0, stranded=stranded_in(self._engine))
        while plan.moves < most:
            move = self._best()
            if move is None:
                break
            plan.steps.append(MoveStep(move.from_node, (move,)))
        plan.stranded_after = stranded_in(self._engine)
        return plan

    def _best(self) -> Move | None:
        """Carry out the move that helps most, if any does."""
        for name, loss in self._loss.items():
            if loss >= self._least and name not in self._gains:
                self._gains[name] = self._best_on(name)
        gain, pod = max(self._gains.values(), key=lambda one: one[0], default=(0.0, None))
        if pod is None or gain < self._least:
            return None
        return self._carry_out(pod)

    def _best_on(self, name: str) -> tuple[float, PodInfo | None]:
        """Return the pod of a node whose move helps most, and how much."""
        best: tuple[float, PodInfo | None] = 0.0, None
        for pod in self._candidates(name):
            mark = self._what_if.mark()
            gain, _ = self._moved(pod)
            self._what_if.rewind(mark)
            if gain > best[0]:
                best = gain, pod
        return best

    def _candidates(self, name: str) -> Iterator[PodInfo]:
        """Yield the pods of a node that may move, one of a kind in each zone."""
        node, known = self._engine.cluster.node(name), set[object]()
        if node is None:
            return
        for pod in self._movable.on(node):
            allowed = self._movable.within_budgets([*self._what_if.left, pod])
            if not allowed or pod.uid in self._what_if.arrived:
                continue
            kind = self._movable.kind(pod, node)
            if kind not in known:
                known.add(kind)
                yield pod

    def _moved(self, pod: PodInfo) -> tuple[float, str]:
        """Move *pod*; return how much that helps, and where it goes."""
        name = pod.node_name
        self._what_if.leave(pod)
        to_node = self._what_if.arrive(again(pod), closed={name})
        if not to_node:
            return 0.0, ""
        before = self._loss[name] + self._loss[to_node]
        return before - self._loss_of(name) - self._loss_of(to_node), to_node

    def _carry_out(self, pod: PodInfo) -> Move | None:
        name = pod.node_name
        _, to_node = self._moved(pod)
        for changed in (name, to_node):
            self._loss[changed] = self._loss_of(changed)
            self._gains.pop(changed, None)
        # Others may have counted on the room that is taken now.
        self._forget_if_worse()
        return Move(pod.key, name, to_node, (name,))

    def _forget_if_worse(self) -> None:
        """Look again at the node that promises most, until its promise holds."""
        while self._gains:
            name = max(self._gains, key=lambda gain: self._gains[gain][0])
            promised = self._gains[name][0]
            self._gains[name] = self._best_on(name)
            if self._gains[name][0] >= promised or promised < self._least:
                return

    def _loss_of(self, name: str) -> float:
        node = self._engine.cluster.node(name)
        return self._weighed(stranded_on(node)) if node is not None else 0.0

    def _weighed(self, amounts: Amounts) -> float:
        """Return the share of the cluster that these amounts are; devices weigh most."""
        return sum(
            amount
            / max(1, self._total.get(name, 0))
            * (1.0 if name == CPU or is_memory(name) else _DEVICES_FIRST)
            for name, amount in amounts.items()
        )
