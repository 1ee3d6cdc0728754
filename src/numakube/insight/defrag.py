"""Makes room by moving pods: the fewest moves that let more pods of a kind fit.

    plan = plan_moves(engine, pod, 4)

A step opens room on one node: some of its pods leave and find another node, by the scheduler's own
cycle and the kubelet model, while the node is cordoned so that they do not come back. The wanted
pod then fits there. Steps are carried out on the engine as they are found, so that each counts on
those before it.

Only pods move that a controller makes again elsewhere: no daemons, no static pods, none with local
data or of higher priority than the wanted one, none that `MOVABLE` or the autoscaler's annotation
keeps where it is, and none that a disruption budget protects, all moves of the plan together.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod import PodStatus
from numakube.insight.explain.empty_node import stays_with_its_node
from numakube.insight.explain.what_if import Bench
from numakube.insight.how_many_fit import copies, place
from numakube.insight.trial_placement import try_pods
from numakube.scheduling.preemption.budgets import budgets_of, split_by_violation
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.snapshot.nodes import NodeInfo

MOVABLE: Final = "numakube.dev/movable"
"""Annotation of pods: ``false`` keeps them where they are."""
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_MOST_TOGETHER: Final = 3
"""Pods that leave one node in one step; each of them is restarted."""
_MOST_SETS: Final = 300
"""Sets of pods of one size that are tried on one node."""


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that leaves its node for another."""

    pod: str
    from_node: str
    to_node: str


@dataclass(frozen=True, slots=True)
class Step:
    """The moves that open room for one pod on a node."""

    node: str
    moves: tuple[Move, ...]


@dataclass(slots=True)
class Plan:
    """How room is made.

    Attributes:
        wanted: pods that are to fit.
        nodes: where each of those goes that fit, in order.
        steps: what is moved for them.
        why_not: why the next one does not fit, whatever is moved; empty if all fit.
    """

    wanted: int
    nodes: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    why_not: str = ""

    @property
    def moves(self) -> int:
        """How many pods are restarted."""
        return sum(len(step.moves) for step in self.steps)


def plan_moves(engine: Engine, pod: Pod, count: int) -> Plan:
    """Return how *count* pods like *pod* can be made to fit; *engine* has them in the end."""
    planner = _Planner(engine)
    plan = Plan(count)
    for wanted in copies(pod, count):
        placed = place(engine, [wanted])
        if not placed.nodes:
            step = planner.step_for(wanted)
            if step is None:
                plan.why_not = placed.reason
                break
            plan.steps.append(step)
            placed = place(engine, [wanted])
        if not placed.nodes:
            plan.why_not = placed.reason
            break
        plan.nodes += placed.nodes
    return plan


class _Planner:
    """Finds steps, and carries them out on the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._budgets = budgets_of(engine.cluster.objects.disruption_budgets.values())
        self._moved: list[PodInfo] = []

    def step_for(self, pod: Pod) -> Step | None:
        """Take the step with the fewest and least important moves that lets *pod* fit."""
        found: list[tuple[tuple[int, int, str], NodeInfo, tuple[PodInfo, ...]]] = []
        for size in range(1, _MOST_TOGETHER + 1):
            for node, leaving in self._ways(pod, size):
                cost = size, sum(one.priority for one in leaving), node.name
                found.append((cost, node, leaving))
            if found:
                _, node, leaving = min(found, key=lambda one: one[0])
                return self._carry_out(node, leaving)
        return None

    def _ways(self, pod: Pod, size: int) -> Iterator[tuple[NodeInfo, tuple[PodInfo, ...]]]:
        """Yield for each node the least important *size* pods whose move makes *pod* fit."""
        runtime = self._engine.runtime_for(pod.spec.scheduler_name)
        bench, priority = Bench(self._engine, runtime, pod), PodInfo(pod).priority
        for node in sorted(self._engine.cluster.nodes(), key=lambda one: one.name):
            if bench.trial(node.name) is None:
                continue
            movable = [one for one in node.pods.values() if self._is_movable(one, priority)]
            movable.sort(key=lambda one: (one.priority, one.name))
            sets = islice(combinations(movable, size), _MOST_SETS)
            leaving = next((one for one in sets if self._opens(bench, node, one)), None)
            if leaving is not None:
                yield node, leaving

    def _opens(self, bench: Bench, node: NodeInfo, leaving: Sequence[PodInfo]) -> bool:
        """Tell whether the pod fits *node* without those *leaving*, and they fit elsewhere."""
        allowed = not split_by_violation([*self._moved, *leaving], self._budgets)[0]
        return (
            allowed and bench.fits_without(node.name, leaving) and self._go_elsewhere(node, leaving)
        )

    def _is_movable(self, pod: PodInfo, priority: int) -> bool:
        meta, volumes = pod.pod.metadata, pod.pod.spec.volumes
        kept = {meta.annotations.get(key) for key in (MOVABLE, _SAFE_TO_EVICT)}
        local = any(one.empty_dir is not None or one.host_path is not None for one in volumes)
        return (
            meta.controller is not None
            and pod.priority <= priority
            and "false" not in kept
            and not local
            and not stays_with_its_node(pod)
        )

    def _go_elsewhere(self, node: NodeInfo, leaving: Sequence[PodInfo]) -> bool:
        with self._cordoned(node):
            trials = try_pods(self._engine, map(PodInfo, map(_again, leaving)))
        return all(one.node for one in trials)

    def _carry_out(self, node: NodeInfo, leaving: Sequence[PodInfo]) -> Step | None:
        for pod in leaving:
            self._end(pod)
        with self._cordoned(node):
            placed = place(self._engine, map(_again, leaving))
        self._moved += leaving
        if len(placed.nodes) < len(leaving):
            return None
        pairs = zip(leaving, placed.nodes, strict=True)
        return Step(node.name, tuple(Move(pod.key, node.name, to) for pod, to in pairs))

    def _end(self, pod: PodInfo) -> None:
        status = msgspec.structs.replace(pod.pod.status or PodStatus(), phase="Succeeded")
        ended = PodInfo(msgspec.structs.replace(pod.pod, status=status))
        engine = self._engine
        engine.cluster.take(engine.cache.pod_seen(ended), engine.cache)
        engine.cluster.remove_pod(pod.uid)

    @contextmanager
    def _cordoned(self, node: NodeInfo) -> Iterator[None]:
        original = node.node
        spec = msgspec.structs.replace(original.spec, unschedulable=True)
        self._engine.cluster.set_node(msgspec.structs.replace(original, spec=spec))
        try:
            yield
        finally:
            self._engine.cluster.set_node(original)


def _again(pod: PodInfo) -> Pod:
    """Return the pod that a controller makes in place of *pod*."""
    meta = msgspec.structs.replace(pod.pod.metadata, uid=f"{pod.uid}:moved")
    spec = msgspec.structs.replace(pod.pod.spec, node_name="")
    return msgspec.structs.replace(pod.pod, metadata=meta, spec=spec, status=None)
