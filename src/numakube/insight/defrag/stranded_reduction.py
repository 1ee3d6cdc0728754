"""Plans that make free devices, CPUs and memory of the whole cluster usable again.

    plan = reduce_stranded(engine, most=20)

What is stranded is told by `numakube.insight.usage.largest_pod`: free, but without what has to go
with it in the same zone. Step by step, the move is taken that helps most: a pod leaves a node that
strands something and goes where the scheduler puts it. Devices count first, the rest as a share of
what the cluster has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.defrag.defrag_plan import Move, Plan, Step
from numakube.insight.defrag.movable_pods import MovablePods
from numakube.insight.defrag.what_if_cluster import WhatIfCluster, again
from numakube.insight.usage.stranded_amounts import proportion, stranded
from numakube.values.resources import CPU, MILLI_PER_CPU, add_amounts, is_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts

_LEAST_GAIN: Final = 0.02
"""The share of an average node that has to become usable: less is not worth a restart."""
_DEVICES_FIRST: Final = 1000.0


def reduce_stranded(engine: Engine, *, most: int) -> Plan:
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

    def plan(self, most: int) -> Plan:
        """Return the moves, the best first."""
        plan = Plan(0, stranded=stranded_in(self._engine))
        while plan.moves < most:
            move = self._best()
            if move is None:
                break
            plan.steps.append(Step(move.from_node, (move,)))
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
            name = max(self._gains, key=lambda one: self._gains[one][0])
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
