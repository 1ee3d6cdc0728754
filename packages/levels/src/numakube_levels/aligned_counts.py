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
from numakube.scheduling import Attempt
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code
from numakube.scheduling.gang_placements import most_by_amounts
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube.scheduling.snapshot.zone_belief import foresees

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from numakube.scheduling import Engine
    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.framework.plugins import Nominations
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_KEPT: Final = 50_000
"""Kinds of nodes, and counts on them, that are remembered."""
_FEW: Final = 1_024
"""Nodes that are counted again one by one; after more changes, all are."""
_SHAPES_KEPT: Final = 16
_MOST_ON_A_NODE: Final = 256
"""Pods of a gang on one node, where nobody says how many there are."""
_TRIED_AT_MOST: Final = 4_096
"""Kinds of nodes that are tried for one answer; what is left over is bounded by amounts."""

_WIDEST: Final = 8
"""NUMA nodes of the widest machines on which pods are tried one after the other.

A kubelet's search grows with the sets of NUMA nodes: on wider machines an answer takes so long that
hundreds of them, for each kind of nodes, would hold up the pods of everybody.
"""


@dataclass(frozen=True, slots=True)
class Deciding:
    """What decides about pods of one scheduler."""

    cluster: Cluster
    nominations: Nominations
    runtime: Runtime

    @classmethod
    def of(cls, engine: Engine, pod: PodInfo) -> Deciding:
        """Return what decides about *pod*."""
        return cls(engine.cluster, engine.nominations, engine.runtime_for(pod.scheduler_name))


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


@dataclass(slots=True)
class Takes:
    """What nodes take of one kind of pods, kept up to date.

    Attributes:
        takes: by row.
        may: 0 for nodes that refuse such pods whoever is there, 1 for others.
    """

    takes: IntArray
    may: IntArray
    nodes_generation: int
    generation: int


class AlignedCounts:
    """Counts on one cluster, kept up to date."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._generation = -1
        self._kinds: dict[Hashable, int] = {}
        self._seen: list[int] = []
        self._kind_of: IntArray = np.zeros(0, dtype=np.int64)
        self._counts: dict[tuple[int, object], tuple[int, int, str]] = {}
        self._kept: dict[bytes, Takes] = {}
        self._emptied: dict[tuple[int, bytes], tuple[int, int]] = {}

    def of(self, deciding: Deciding, pod: PodInfo, most: int, *, evicting: bool = False) -> Counts:
        """Return how many pods like *pod* each node takes, up to *most*.

        With *evicting*, those of lower priority count as gone: a bound, not a promise.
        """
        snapshot = deciding.cluster.snapshot()
        attempt = Attempt(deciding.runtime, pod, snapshot, deciding.nominations)
        takes = np.zeros(len(snapshot.by_row), dtype=np.int64)
        feasible = attempt.feasible_rows()
        limits = set(attempt.diagnosis.plugins())
        if looks_around(pod) or pod.pod.spec.resource_claims:
            for row in feasible.tolist():
                takes[row] = min(most_by_amounts(pod, snapshot.at(row)), most)
            exact = False
        else:
            exact = self._count(deciding, (pod, attempt.state, most), feasible, takes, limits)
        if evicting:
            _with_evictions(attempt, takes, most)
            exact = False
        return Counts(takes, exact, frozenset(limits))

    def _count(
        self,
        deciding: Deciding,
        wanted: tuple[PodInfo, CycleState, int],
        rows: IntArray,
        takes: IntArray,
        limits: set[str],
    ) -> bool:
        """Write what nodes at *rows* take into *takes*; tell whether all of it is exact."""
        pod, state, most = wanted
        self._take_changes(deciding.cluster)
        runtime, snapshot = deciding.runtime, deciding.cluster.snapshot()
        key, kinds = replica_key(pod), self._kind_of[rows]
        apart = {snapshot.row_of.get(name, -1) for name in deciding.nominations.nodes()}
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
            exact = exact and not _is_wide(snapshot.at(int(rows[position])))
        limits.discard("")
        takes[rows] = found[inverse]
        for row in apart & set(rows.tolist()):
            # Room that is kept there for others is not theirs.
            takes[row] = min(takes[row], most_by_amounts(pod, snapshot.at(row)))
            exact = False
        return exact

    def kept(self, deciding: Deciding, pod: PodInfo) -> Takes:
        """Return what nodes take of pods like *pod* now, cheaply where few nodes have changed."""
        key, cluster = replica_key(pod), deciding.cluster
        known = self._kept.get(key)
        changed = None
        if known is not None and known.nodes_generation == cluster.nodes_generation:
            changed = cluster.changed_since(known.generation, most=_FEW)
        if known is None or changed is None:
            known = self._kept[key] = self._all_of(deciding, pod)
            if len(self._kept) > _SHAPES_KEPT:
                self._kept.pop(next(iter(self._kept)))
                self._emptied.clear()
        elif changed:
            self._take_changes(cluster)
            for node in changed:
                known.takes[node.row] = self._one(deciding, pod, node) if known.may[node.row] else 0
        known.generation = cluster.generation
        return known

    def after(self, deciding: Deciding, added: PodInfo, pod: PodInfo, rows: IntArray) -> IntArray:
        """Return what each of *rows* takes of pods like *pod* once *added* is there."""
        self._take_changes(deciding.cluster)
        kinds = self._kind_of[rows]
        key = replica_key(pod), replica_key(added)
        unique, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
        found = np.zeros(len(unique), dtype=np.int64)
        snapshot = deciding.cluster.snapshot()
        for at, (kind, position) in enumerate(zip(unique.tolist(), first.tolist(), strict=True)):
            known = self._counts.get((kind, key))
            if known is None:
                node = snapshot.at(int(rows[position]))
                count, limit = _tried(
                    deciding.runtime, CycleState(), pod, node, _MOST_ON_A_NODE, before=added
                )
                known = self._counts[kind, key] = count, _MOST_ON_A_NODE, limit
            found[at] = known[0]
        after: IntArray = found[inverse]
        return after

    def emptied(
        self, deciding: Deciding, pod: PodInfo, stays: Callable[[PodInfo], bool]
    ) -> IntArray:
        """Return what each node would take of pods like *pod* with none but those that stay."""
        takes = self.kept(deciding, pod)
        found = takes.takes.copy()
        for node in deciding.cluster.nodes():
            if not takes.may[node.row] or all(map(stays, node.pods.values())):
                continue
            found[node.row] = self.emptied_node(deciding, pod, node, stays)
        return found

    def emptied_node(
        self, deciding: Deciding, pod: PodInfo, node: NodeInfo, stays: Callable[[PodInfo], bool]
    ) -> int:
        """Return what *node* would take of pods like *pod* with none but those that stay."""
        key = replica_key(pod)
        known = self._emptied.get((node.row, key))
        if known is not None and known[0] == node.generation:
            return known[1]
        copy, state = node.clone(), CycleState()
        gone = [other for other in copy.pods.values() if not stays(other)]
        for other in gone:
            deciding.runtime.remove_pod(state, pod, other, copy)
        if copy.numa is not None:
            copy.numa = copy.numa.without(other.uid for other in gone)
        # Emptied nodes of one machine are alike, and so are those that are empty.
        kind = self._kinds.setdefault(_kind(copy), len(self._kinds)), key
        counted = self._counts.get(kind)
        if counted is None or counted[1] < _MOST_ON_A_NODE:
            count, limit = _tried(deciding.runtime, state, pod, copy, _MOST_ON_A_NODE)
            counted = self._counts[kind] = count, _MOST_ON_A_NODE, limit
        self._emptied[node.row, key] = node.generation, counted[0]
        return counted[0]

    def _all_of(self, deciding: Deciding, pod: PodInfo) -> Takes:
        """Count on all nodes; those that refuse such pods whoever is there never take any."""
        cluster, snapshot = deciding.cluster, deciding.cluster.snapshot()
        counts = self.of(deciding, pod, _MOST_ON_A_NODE)
        attempt = Attempt(deciding.runtime, pod, snapshot, deciding.nominations)
        attempt.feasible_rows()
        attempt.diagnosis.names = [node.name if node else "" for node in snapshot.by_row]
        may = np.ones(len(snapshot.by_row), dtype=np.int64)
        for name, status in attempt.diagnosis.statuses().items():
            may[snapshot.row_of[name]] = status.code is Code.UNSCHEDULABLE
        return Takes(counts.takes.copy(), may, cluster.nodes_generation, cluster.generation)

    def _one(self, deciding: Deciding, pod: PodInfo, node: NodeInfo) -> int:
        """Return what one node takes, by what is known of others like it, if it takes one at all.

        What refuses a pod may be the node's own, such as a port that is in use there: that counts
        for this node, and not for others that are alike otherwise.
        """
        first = next(_siblings(pod, 1))
        if not _is_wide(node) and not deciding.runtime.admits(CycleState(), first, node).ok:
            return 0
        key = int(self._kind_of[node.row]), replica_key(pod)
        known = self._counts.get(key)
        if known is None or known[1] < _MOST_ON_A_NODE:
            state = CycleState()
            count, limit = _tried(deciding.runtime, state, pod, node, _MOST_ON_A_NODE)
            known = self._counts[key] = count, _MOST_ON_A_NODE, limit
        return known[0]

    def _take_changes(self, cluster: Cluster) -> None:
        """Learn which kinds the nodes are of that have changed."""
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
    runtime: Runtime,
    begun: CycleState,
    pod: PodInfo,
    node: NodeInfo,
    most: int,
    *,
    before: PodInfo | None = None,
) -> tuple[int, str]:
    """Return how many pods like *pod* a copy of *node* takes, and which plugin refuses the next.

    The one that comes *before* them is there already.
    """
    copy, state, count = node.clone(), begun.clone(), 0
    if before is not None:
        runtime.add_pod(state, pod, before, copy)
    if _is_wide(node):
        return min(_by_amounts(pod, copy), most), ""
    for other in _siblings(pod, most):
        status = runtime.admits(state, other, copy)
        if not status.ok:
            return count, status.plugin
        runtime.add_pod(state, pod, other, copy)
        count += 1
    return count, ""


def _is_wide(node: NodeInfo) -> bool:
    """Tell whether a machine has too many NUMA nodes for trials."""
    topology = node.numa.topology if node.numa is not None else None
    return topology is not None and len(topology.zones) > _WIDEST


def _by_amounts(pod: PodInfo, node: NodeInfo) -> int:
    """Return how many pods like *pod* the amounts of a node are enough for."""
    room = (
        (node.allocatable.get(name, 0) - node.requested.get(name, 0)) // amount
        for name, amount in pod.requests.items()
        if amount > 0
    )
    return max(0, min(room, default=1))


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
        takes[node.row] = max(takes[node.row], min(_by_amounts(pod, copy), most))
