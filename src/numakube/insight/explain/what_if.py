"""Where changes are tried: the scheduler's plugins and the kubelet model, with one thing different.

Whatever is changed in the cluster for a trial is put back before anybody else looks.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from numakube.insight.node_groups import (
    bound_copy,
    idle_copy,
    idle_report,
    idle_slices,
    stays_with_its_node,
)
from numakube.insight.scheduler_engine import settle_doubts, settle_orphans
from numakube.scheduling.cycle import Attempt
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Diagnosis
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.preemption.victims import EvictionTrial
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief

_ASKED: Final = 64
"""Nodes whose kubelet models are asked in one trial, as in a cycle."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A cycle after its pre-filters, on one state of the cluster."""

    info: PodInfo
    state: CycleState
    rows: Rows
    generation: int


class Bench:
    """Tries things out for one pod.

    Attributes:
        pod: the pod as it is, not bound to anything.
        liked: nodes to look at first, so that answers are about the nodes that are shown.
        only: the nodes to look at, unless others are named; ``None`` for all.
    """

    def __init__(
        self, engine: Engine, runtime: Runtime, pod: Pod, *, only: Collection[str] | None = None
    ) -> None:
        self.engine = engine
        self.runtime = runtime
        self.pod = pod
        self.only = only
        self.liked: tuple[str, ...] = tuple(only or ())
        self._last: _Begun | None = None

    def node(self, name: str) -> NodeInfo | None:
        """Return a node as it is."""
        return self.engine.cluster.node(name)

    @cached_property
    def unoffered(self) -> tuple[str, ...]:
        """What the pod asks for and no node gives to anybody."""
        wanted = PodInfo(self.pod).requests.items()
        return tuple(
            name
            for name, amount in wanted
            if amount and not self.largest(name) and not self.by_claims(name)
        )

    def by_claims(self, resource: str) -> bool:
        """Tell whether claims serve *resource* on nodes that have none allocatable (DRA)."""
        plugin = self.runtime.profile.plugins().get(DynamicResources.name)
        return isinstance(plugin, DynamicResources) and plugin.serves(resource)

    def largest(self, resource: str) -> int:
        """Return the most of *resource* that any node gives to pods."""
        nodes = self.engine.cluster.nodes()
        return max((node.allocatable.get(resource, 0) for node in nodes), default=0)

    def taker(self, pod: Pod, *, among: Collection[str] | None = None) -> str | None:
        """Return a node that would take *pod*, one of *among* if given; ``None`` if none does."""
        info = PodInfo(pod)
        if not self.runtime.pre_enqueue(info).ok:
            return None
        snapshot = self.engine.cluster.snapshot()
        attempt = Attempt(self.runtime, info, snapshot, self.engine.nominations)
        rows = attempt.feasible_rows()
        names = {snapshot.at(int(row)).name: int(row) for row in rows}
        among = self.only if among is None else among
        allowed = names.keys() if among is None else names.keys() & set(among)
        first = [name for name in self.liked if name in allowed]
        order = dict.fromkeys([*first, *sorted(allowed)])
        for name in list(order)[:_ASKED]:
            if attempt.confirms(np.array([names[name]], dtype=np.intp)):
                return name
        return None

    def fits_without(self, node: str, gone: Iterable[PodInfo]) -> bool:
        """Tell whether the pod fits *node* when the pods *gone* have left it."""
        trial = self.trial(node)
        if trial is None:
            return False
        trial.remove(gone)
        return trial.verdict().ok

    def considered(self) -> set[str]:
        """Return the names of the nodes that the pre-filters leave to the pod."""
        snapshot = self.engine.cluster.snapshot()
        return {snapshot.at(int(row)).name for row in self._begin(self.pod).rows}

    def trial(self, node: str, *, pod: Pod | None = None) -> EvictionTrial | None:
        """Return *node* without pods to be named; ``None`` if the pod is refused before that."""
        there = self.node(node)
        begun = self._begin(pod or self.pod)
        if there is None or there.row not in begun.rows:
            return None
        nominated = self.engine.nominations.before(begun.info, node)
        return EvictionTrial(self.runtime, begun.state, begun.info, there, nominated=nominated)

    def cycle_state(self) -> CycleState:
        """Return what the pre-filters have worked out for the pod."""
        return self._begin(self.pod).state

    def _begin(self, pod: Pod) -> _Begun:
        """Return what the pre-filters say of *pod*; the last one is kept while nothing changes."""
        generation = self.engine.cluster.generation
        last = self._last
        if last is None or last.info.pod is not pod or last.generation != generation:
            info, state = PodInfo(pod), CycleState()
            snapshot = self.engine.cluster.snapshot()
            rows = self.runtime.pre_filter(state, info, snapshot, Diagnosis())
            last = self._last = _Begun(info, state, rows, generation)
        return last

    @contextmanager
    def node_changed(self, node: Node) -> Iterator[None]:
        """Have *node* in place of the one with its name for a while."""
        cluster = self.engine.cluster
        before = cluster.node(node.metadata.name)
        if before is None:
            yield
            return
        original = before.node
        cluster.set_node(node)
        try:
            yield
        finally:
            cluster.set_node(original)

    @contextmanager
    def report_changed(
        self, topology: NodeResourceTopology, *, pods: bool = True
    ) -> Iterator[NumaBelief | None]:
        """Believe *topology* of its node for a while; without *pods*, that it contains them all."""
        cluster, name = self.engine.cluster, topology.metadata.name
        info = cluster.node(name)
        before = info.numa if info is not None else None
        belief = self._belief(topology, info if pods else None)
        cluster.suppose(name, belief)
        try:
            yield belief
        finally:
            cluster.suppose(name, before)

    @contextmanager
    def node_added(self, like: str, topology: NodeResourceTopology | None) -> Iterator[str]:
        """Have one more node *like* another for a while, idle but for daemons; yield its name."""
        cluster, model = self.engine.cluster, self.node(like)
        name = f"{like}-new"
        if model is None or name in cluster.row_of:
            yield ""
            return
        daemons = [pod for pod in model.pods.values() if stays_with_its_node(pod)]
        gone = model.pods.keys() - {pod.uid for pod in daemons}
        slices = cluster.objects.resource_slices
        offered = idle_slices(list(slices.values()), like, name)
        slices.update(offered)
        cluster.suppose(name, self._idle(model, topology, gone))
        cluster.set_node(idle_copy(model.node, name))
        placed = [bound_copy(pod, name) for pod in daemons]
        for pod in placed:
            cluster.place(pod, name)
        try:
            yield name
        finally:
            for pod in placed:
                cluster.remove_pod(pod.uid)
            for key in offered:
                del slices[key]
            cluster.remove_node(name)
            cluster.suppose(name, None)

    def _idle(
        self, node: NodeInfo, topology: NodeResourceTopology | None, gone: Collection[str]
    ) -> NumaBelief | None:
        """Return what would be believed of *node* without the pods *gone*."""
        if isinstance(node.numa, ExactBelief):
            return node.numa.without(gone)
        return None if topology is None else self._belief(idle_report(topology), None)

    def _belief(self, topology: NodeResourceTopology, node: NodeInfo | None) -> NumaBelief | None:
        cache = Predict()
        meta = msgspec.structs.replace(topology.metadata, resource_version="")
        cache.set_report(msgspec.structs.replace(topology, metadata=meta))
        for pod in node.pods.values() if node is not None else ():
            cache.pod_seen(pod)
        settle_doubts(cache)
        known = node.numa.topology if node is not None and node.numa is not None else None
        if known is not None and known.orphaned:
            settle_orphans(cache)
        return cache.belief(topology.metadata.name)
