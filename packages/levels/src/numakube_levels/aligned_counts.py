"""How many pods of a kind each node takes now, by the scheduler's own filters and kubelet models.

What a pod leaves of a node is tried on copies of the node: nothing in the cluster changes. Nodes of
which the same is known are tried once, and what was found is kept until a node changes. Pods that
look at others elsewhere, and claims for devices, cannot be counted node by node: for those the
amounts of each node give a bound, and a plan finds out by placing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.koordinator.keys import NODE_DECIDING
from numakube.insight.how_many_fit import copies, looks_around
from numakube.scheduling.cycle import Attempt
from numakube.scheduling.framework.status import Code
from numakube.scheduling.gang_placements import most_by_amounts
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube.scheduling.snapshot.zone_belief import foresees

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_KEPT: Final = 50_000
"""Kinds of nodes, and counts on them, that are remembered."""
_TRIED_AT_MOST: Final = 4_096
"""Kinds of nodes that are tried for one answer; what is left over is bounded by amounts."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many pods of a kind nodes take.

    Attributes:
        takes: by row; 0 where there is no node.
        exact: whether each node really takes as many, whatever the others do.
        limited_by: plugins that refuse nodes, or the pod after the last that they take.
    """

    takes: IntArray
    exact: bool
    limited_by: frozenset[str] = frozenset()


class AlignedCounts:
    """Counts on one cluster, kept up to date."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._generation = -1
        self._kinds: dict[Hashable, int] = {}
        self._seen: list[int] = []
        self._kind_of: IntArray = np.zeros(0, dtype=np.int64)
        self._counts: dict[tuple[int, object], tuple[int, int, str]] = {}

    def of(self, engine: Engine, pod: PodInfo, most: int, *, evicting: bool = False) -> Counts:
        """Return how many pods like *pod* each node takes, up to *most*.

        With *evicting*, those of lower priority count as gone: a bound, not a promise.
        """
        snapshot = engine.cluster.snapshot()
        runtime = engine.runtime_for(pod.scheduler_name)
        attempt = Attempt(runtime, pod, snapshot, engine.nominations)
        takes = np.zeros(len(snapshot.by_row), dtype=np.int64)
        feasible = attempt.feasible_rows()
        limits = set(attempt.diagnosis.plugins())
        if looks_around(pod) or pod.pod.spec.resource_claims:
            for row in feasible.tolist():
                takes[row] = min(most_by_amounts(pod, snapshot.at(row)), most)
            exact = False
        else:
            exact = self._count(engine, (pod, attempt.state, most), feasible, takes, limits)
        if evicting:
            _with_evictions(attempt, takes, most)
            exact = False
        return Counts(takes, exact, frozenset(limits))

    def _count(
        self,
        engine: Engine,
        wanted: tuple[PodInfo, CycleState, int],
        rows: IntArray,
        takes: IntArray,
        limits: set[str],
    ) -> bool:
        """Write what nodes at *rows* take into *takes*; tell whether all of it is exact."""
        pod, state, most = wanted
        self._take_changes(engine)
        runtime, snapshot = engine.runtime_for(pod.scheduler_name), engine.cluster.snapshot()
        key, kinds = replica_key(pod), self._kind_of[rows]
        apart = {snapshot.row_of.get(name, -1) for name in engine.nominations.nodes()}
        unique, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
        found = np.zeros(len(unique), dtype=np.int64)
        exact = len(unique) <= _TRIED_AT_MOST
        for at, (kind, position) in enumerate(zip(unique.tolist(), first.tolist(), strict=True)):
            known = self._counts.get((kind, key))
            if known is None or (known[0] >= known[1] and known[1] < most):
                node = snapshot.at(int(rows[position]))
                count, limit = (
                    _tried(runtime, state, pod, node, most)
                    if at < _TRIED_AT_MOST
                    else (most_by_amounts(pod, node), "")
                )
                known = self._counts[kind, key] = count, most, limit
            found[at] = min(known[0], most)
            limits.add(known[2])
        limits.discard("")
        takes[rows] = found[inverse]
        for row in apart & set(rows.tolist()):
            # Room that is kept there for others is not theirs.
            takes[row] = min(takes[row], most_by_amounts(pod, snapshot.at(row)))
            exact = False
        return exact

    def _take_changes(self, engine: Engine) -> None:
        """Learn which kinds the nodes are of that have changed."""
        cluster = engine.cluster
        if self._cluster is not cluster or len(self._counts) > _KEPT or len(self._kinds) > _KEPT:
            self._cluster, self._generation = cluster, -1
            self._kinds, self._counts, self._seen = {}, {}, []
            self._kind_of = np.zeros(0, dtype=np.int64)
        if self._generation == cluster.generation:
            return
        size = len(cluster.by_row)
        if size > len(self._seen):
            self._seen += [-1] * (size - len(self._seen))
            self._kind_of = np.concatenate(
                [self._kind_of, np.zeros(size - len(self._kind_of), dtype=np.int64)]
            )
        changed = (
            cluster.changed_since(self._generation, most=size) if self._generation >= 0 else None
        )
        for node in cluster.nodes() if changed is None else changed:
            if self._seen[node.row] != node.generation:
                self._seen[node.row] = node.generation
                self._kind_of[node.row] = self._kinds.setdefault(_kind(node), len(self._kinds))
        self._generation = cluster.generation


def _kind(node: NodeInfo) -> Hashable:
    """Return what tells how many pods a node takes that passes all filters."""
    belief, meta = node.numa, node.node.metadata
    special = any(key in meta.annotations for key in NODE_DECIDING)
    if special or (belief is not None and not foresees(belief)):
        return node.name, node.generation
    return (
        tuple(sorted(node.allocatable.items())),
        tuple(sorted(item for item in node.requested.items() if item[1])),
        len(node.pods),
        None if belief is None else (belief.state, belief.blocked),
    )


def _tried(
    runtime: Runtime, begun: CycleState, pod: PodInfo, node: NodeInfo, most: int
) -> tuple[int, str]:
    """Return how many pods like *pod* a copy of *node* takes, and which plugin refuses the next."""
    copy, state, count = node.clone(), begun.clone(), 0
    for other in _siblings(pod, most):
        status = runtime.admits(state, other, copy)
        if not status.ok:
            return count, status.plugin
        runtime.add_pod(state, pod, other, copy)
        count += 1
    return count, ""


def _siblings(pod: PodInfo, most: int) -> Iterator[PodInfo]:
    return (pod.sibling(other) for other in copies(pod.pod, most, of="counted"))


def _with_evictions(attempt: Attempt, takes: IntArray, most: int) -> None:
    """Add what nodes would take, by their amounts, if all pods of lower priority left them."""
    pod, snapshot = attempt.pod, attempt.snapshot
    attempt.diagnosis.names = [node.name if node else "" for node in snapshot.by_row]
    refusals = attempt.diagnosis.statuses()
    for node in snapshot.nodes():
        status = refusals.get(node.name)
        if status is not None and status.code is not Code.UNSCHEDULABLE:
            continue
        lower = [one for one in node.pods.values() if one.priority < pod.priority]
        if not lower:
            continue
        copy = node.clone()
        for one in lower:
            copy.remove_pod(one.uid)
        room = (
            (copy.allocatable.get(name, 0) - copy.requested.get(name, 0)) // amount
            for name, amount in pod.requests.items()
            if amount > 0
        )
        takes[node.row] = max(takes[node.row], min(max(min(room, default=1), 0), most))
