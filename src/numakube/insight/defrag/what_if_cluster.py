"""A cluster on which pods leave and arrive for a trial, and everything can be taken back.

    mark = cluster.mark()
    cluster.leave(pod)
    node = cluster.arrive(again(pod), closed={"node-1"})      # by the scheduler's own cycle
    fits = cluster.put(other, "node-2")                       # or on a node of our choice
    cluster.rewind(mark)

The engine's cache knows what nodes report and what it has booked itself, and nothing of pods that
are only assumed to be gone. So beliefs are made here from those before, one pod less or one more,
and supposed to be true.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec

from numakube.api.pod import PodStatus
from numakube.api.pod_resources import disputed_qos_class
from numakube.insight.how_many_fit import book
from numakube.scheduling.cycle import Attempt, Chosen, Cycle, FirstOfEquals
from numakube.scheduling.numa.topology_match import pending_changes
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import is_extensible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numakube.api.pod import Pod
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


class WhatIfCluster:
    """An engine, and how to undo what was done to it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.why = ""
        """Why the pod that was refused last was refused."""
        self.as_good: frozenset[str] = frozenset()
        """Other nodes that the scheduler liked as well for the pod that arrived last."""
        self.arrived: dict[str, str] = {}
        """The nodes of pods that are not on the cluster yet, by their uids."""
        self.left: list[PodInfo] = []
        """Pods that are on the cluster still, in the order in which they leave."""
        self._undo: list[Callable[[], None]] = []

    @property
    def state(self) -> object:
        """Equal after the same deeds."""
        return tuple(one.uid for one in self.left), tuple(self.arrived.items())

    def mark(self) -> int:
        """Return a point to come back to."""
        return len(self._undo)

    def rewind(self, mark: int) -> None:
        """Undo everything since *mark*."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def leave(self, pod: PodInfo) -> None:
        """Take *pod* off its node."""
        cluster, name = self.engine.cluster, pod.node_name
        node = cluster.node(name)
        belief = node.numa if node is not None else None
        cluster.remove_pod(pod.uid)
        self.left.append(pod)
        if belief is not None:
            cluster.suppose(name, belief.without((pod.uid,)))

        def undo() -> None:
            self.left.pop()
            cluster.place(pod, name)
            cluster.suppose(name, belief)

        self._undo.append(undo)

    def arrive(self, pod: Pod, *, closed: Collection[str] = ()) -> str:
        """Put *pod* where the scheduler does, with *closed* nodes cordoned; empty if nowhere."""
        info, engine = PodInfo(pod), self.engine
        runtime = engine.runtime_for(info.scheduler_name)
        cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
        self.why = runtime.pre_enqueue(info).message
        with self._cordoned(closed):
            decision = cycle.decide(info, runtime) if not self.why else None
        if not isinstance(decision, Chosen):
            self.why = decision.why if decision is not None else self.why
            return ""
        self.as_good = _as_good(decision, engine)
        return decision.node if self._book(info, runtime, decision.state, decision.node) else ""

    def put(self, pod: Pod, node: str) -> bool:
        """Put *pod* on *node*, if the scheduler could; tell whether it is there."""
        info, engine = PodInfo(pod), self.engine
        runtime, there = engine.runtime_for(info.scheduler_name), engine.cluster.node(node)
        snapshot = engine.cluster.snapshot()
        attempt = Attempt(runtime, info, snapshot, engine.nominations)
        rows = runtime.pre_filter(attempt.state, info, snapshot, attempt.diagnosis)
        if there is None or there.row not in rows or not attempt.verdict_of(node).ok:
            return False
        return self._book(info, runtime, attempt.state, node)

    def _book(self, pod: PodInfo, runtime: Runtime, state: CycleState, name: str) -> bool:
        """Count *pod* on a node until that is undone; tell whether the plugins let it."""
        engine, before = self.engine, self._belief(name)
        after = before.followed_by(pod) if is_extensible(before) else None
        booked = book(engine, runtime, state, pod, name)
        engine.cluster.suppose(name, after or self._belief(name))
        self.arrived[pod.uid] = name

        def undo() -> None:
            del self.arrived[pod.uid]
            runtime.unreserve(state, pod, name)
            engine.cluster.take(pending_changes(state), engine.cache)
            engine.cluster.remove_pod(pod.uid)
            engine.cluster.suppose(name, before)

        self._undo.append(undo)
        self.why = booked.message
        return booked.ok

    def homes(self, pod: PodInfo) -> frozenset[str]:
        """Return the nodes that may take *pod*, before their kubelet models are asked."""
        runtime = self.engine.runtime_for(pod.scheduler_name)
        snapshot = self.engine.cluster.snapshot()
        attempt = Attempt(runtime, pod, snapshot, self.engine.nominations)
        return frozenset(snapshot.at(int(row)).name for row in attempt.feasible_rows())

    def _belief(self, node: str) -> NumaBelief | None:
        info = self.engine.cluster.node(node)
        return info.numa if info is not None else None

    @contextmanager
    def _cordoned(self, names: Collection[str]) -> Iterator[None]:
        cluster = self.engine.cluster
        with ExitStack() as stack:
            for name in names:
                node = cluster.node(name)
                if node is None or node.node.spec.unschedulable:
                    continue
                stack.callback(cluster.set_node, node.node)
                spec = msgspec.structs.replace(node.node.spec, unschedulable=True)
                cluster.set_node(msgspec.structs.replace(node.node, spec=spec))
            yield


def _as_good(decision: Chosen, engine: Engine) -> frozenset[str]:
    """Return the nodes that the scheduler could have chosen as well: it throws dice."""
    if decision.scores is None or decision.ties is None:
        return frozenset()
    snapshot, rows = engine.cluster.snapshot(), decision.scores.rows[decision.ties]
    return frozenset(snapshot.at(int(row)).name for row in rows) - {decision.node}


def again(pod: PodInfo) -> Pod:
    """Return the pod that a controller makes in place of *pod*."""
    meta = msgspec.structs.replace(pod.pod.metadata, uid=f"{pod.uid}:moved")
    spec = msgspec.structs.replace(pod.pod.spec, node_name="")
    status = PodStatus(phase="Pending", qos_class=disputed_qos_class(pod.pod))
    return msgspec.structs.replace(pod.pod, metadata=meta, spec=spec, status=status)
