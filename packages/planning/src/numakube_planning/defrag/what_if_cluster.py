"""A cluster on which pods leave and arrive for a trial, and how many of a plan's pods fit on it.

    mark = cluster.mark()
    cluster.leave(pod)
    node = cluster.arrive(again(pod), closed={"node-1"})      # by the scheduler's own cycle
    fits = cluster.put(other, "node-2")                       # or on a node of our choice
    cluster.rewind(mark)

    wanted = WantedPods(cluster, copies(pod, 4))
    wanted.nodes                     # where those go that fit, by the scheduler's own cycle
    wanted.more_fit(["node-1"])      # after these nodes have changed: are there more?

The engine's cache knows what nodes report and what it has booked itself, and nothing of pods that
are only assumed to be gone. So beliefs are made here from those before, one pod less or one more,
and supposed to be true.

None of the wanted pods stays on the cluster: nobody comes for a place before the plan is at its
end, so that kubelets give pods that move whatever zone they like best, also one in which a wanted
pod would fit. Equal pods that do not look at each other are counted node by node, and only nodes
that change are counted again. Others are placed again, one after the other.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec

from numakube.api.pod import PodStatus
from numakube.api.pod_resources import disputed_qos_class
from numakube.insight.how_many_fit import book, looks_around
from numakube.scheduling import Attempt, Chosen, Cycle, FirstOfEquals
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import is_extensible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from numakube.api.pod import Pod
    from numakube.scheduling import Engine
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
            engine.cluster.take(runtime.unreserve(state, pod, name), engine.cache)
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


class WantedPods:
    """The pods of a plan.

    Attributes:
        nodes: where those go that fit, in order.
        why: why the next one does not.
    """

    def __init__(self, what_if: WhatIfCluster, pods: Iterable[Pod]) -> None:
        self.pods = list(pods)
        self.nodes: list[str] = []
        self.why = ""
        self._what_if = what_if
        infos = list(map(PodInfo, self.pods))
        self._by_node = not any(map(looks_around, infos)) and len(set(map(replica_key, infos))) < 2
        self._before: Counter[str] = Counter()
        self._known: dict[object, int] = {}
        self.look_again()

    @property
    def next(self) -> Pod | None:
        """The first that does not fit."""
        return self.pods[len(self.nodes)] if len(self.nodes) < len(self.pods) else None

    def look_again(self) -> None:
        """See how many fit now."""
        self.nodes = self._placed()
        self._before = Counter(self.nodes)
        self.why = self._what_if.why if self.next is not None else ""

    def more_fit(self, changed: Iterable[str]) -> bool:
        """Tell whether more fit than when it was looked last; only nodes *changed* did change."""
        if not self._by_node:
            return len(self._placed()) > len(self.nodes)
        return sum(self._count(name) - self._before[name] for name in set(changed)) > 0

    def more_fit_without(self, node: str, leaving: Iterable[PodInfo]) -> bool:
        """Tell whether more of them fit on *node* when the pods *leaving* are gone."""
        mark = self._what_if.mark()
        for pod in leaving:
            self._what_if.leave(pod)
        found = self.more_fit([node])
        self._what_if.rewind(mark)
        return found

    def has_place_on(self, node: str) -> bool:
        """Tell whether one of them fitted on *node* when it was looked last."""
        return self._before[node] > 0

    def fewer_fit_on(self, node: str) -> bool:
        """Tell whether a place on *node* is gone; unknown where pods look at each other."""
        return self._by_node and self._count(node) < self._before[node]

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Have those that fit on the cluster for a while: what is left has no room for the next."""
        mark = self._what_if.mark()
        for pod, node in zip(self.pods, self.nodes, strict=False):
            self._what_if.put(pod, node)
        try:
            yield
        finally:
            self._what_if.rewind(mark)

    def _placed(self) -> list[str]:
        mark, nodes = self._what_if.mark(), list[str]()
        for pod in self.pods:
            node = self._what_if.arrive(pod)
            if not node:
                break
            nodes.append(node)
        self._what_if.rewind(mark)
        return nodes

    def _count(self, node: str) -> int:
        """Return how many fit on *node*, beside each other."""
        key = node, self._what_if.state
        if key not in self._known:
            mark, count = self._what_if.mark(), 0
            for pod in self.pods:
                if not self._what_if.put(pod, node):
                    break
                count += 1
            self._what_if.rewind(mark)
            self._known[key] = count
        return self._known[key]
