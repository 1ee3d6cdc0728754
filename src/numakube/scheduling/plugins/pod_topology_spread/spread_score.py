"""Soft constraints: the fewer matching pods a node's domains have, the better."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.plugins.pod_topology_spread.spread_constraints import HOSTNAME
from numakube.scheduling.plugins.pod_topology_spread.spread_filter import matching_pods, with_keys
from numakube.scheduling.snapshot.node_columns import MISSING

if TYPE_CHECKING:
    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.plugins.pod_topology_spread.spread_constraints import Constraint
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_columns import Column
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class SoftDomains:
    """The domains of one soft constraint.

    Attributes:
        counts: matching pods by code of the domain; for host names by row instead.
        weight: how much a pod counts; more domains give each a larger weight.
    """

    constraint: Constraint
    column: Column[str]
    counts: npt.NDArray[np.integer]
    weight: float

    @property
    def by_row(self) -> bool:
        """Tell whether each node is taken to be a domain of its own."""
        return self.constraint.topology_key == HOSTNAME

    def score(self, node: NodeInfo) -> float:
        """Rate one node; more is worse."""
        value = node.labels.get(self.constraint.topology_key)
        if value is None:
            return 0.0
        count = self.counts[node.row if self.by_row else self.column.code_of[value]]
        return float(count) * self.weight + float(self.constraint.max_skew - 1)

    def score_all(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Rate the nodes at *rows*."""
        codes = self.column.codes[rows]
        counts = self.counts[rows] if self.by_row else np.append(self.counts, 0)[codes]
        scores = counts.astype(np.float64) * self.weight + float(self.constraint.max_skew - 1)
        return np.where(codes < 0, 0.0, scores)


@dataclass(frozen=True, slots=True)
class ScoreState:
    """What the score knows of all soft constraints of a pod.

    Attributes:
        ignored: which of the feasible nodes lack a topology key; they score nothing.
        ignored_rows: the same as rows.
    """

    domains: tuple[SoftDomains, ...]
    ignored: Mask
    ignored_rows: frozenset[int]

    def score(self, node: NodeInfo) -> int:
        """Rate one node; more is worse."""
        if node.row in self.ignored_rows:
            return 0
        total = 0.0
        for one in self.domains:
            total += one.score(node)
        return math.floor(total) + (total - math.floor(total) >= 0.5)

    def score_all(self, rows: Rows) -> IntArray:
        """Rate the nodes at *rows*."""
        total = np.zeros(len(rows))
        for one in self.domains:
            total += one.score_all(rows)
        whole = np.floor(total)
        rounded = (whole + (total - whole >= 0.5)).astype(np.int64)
        if self.ignored_rows:
            rounded[np.isin(rows, list(self.ignored_rows))] = 0
        return rounded

    def normalized(self, scores: IntArray) -> IntArray:
        """Return the best score for the least crowded nodes, and none for ignored ones."""
        counted = scores[~self.ignored]
        largest = int(counted.max(initial=0))
        if not largest:
            return np.where(self.ignored, 0, MAX_NODE_SCORE)
        least = int(counted.min())
        return np.where(self.ignored, 0, MAX_NODE_SCORE * (largest + least - scores) // largest)


def score_state(
    pod: PodInfo,
    constraints: tuple[Constraint, ...],
    snapshot: Snapshot,
    rows: Rows,
    *,
    all_keys: bool,
) -> ScoreState:
    """Count the matching pods of the domains of feasible *rows*.

    Args:
        pod: the pod to place.
        constraints: its soft constraints.
        snapshot: the cluster.
        rows: the feasible nodes.
        all_keys: whether only nodes with all topology keys take part.
    """
    feasible, everywhere = rows, snapshot.rows
    if all_keys:
        feasible = with_keys(constraints, snapshot, rows)
        everywhere = with_keys(constraints, snapshot, everywhere)
    ignored = ~np.isin(rows, feasible) if len(feasible) < len(rows) else np.zeros(len(rows), bool)
    domains = tuple(_soft(pod, one, snapshot, feasible, everywhere) for one in constraints)
    return ScoreState(domains, ignored, frozenset(rows[ignored].tolist()))


def _soft(
    pod: PodInfo, constraint: Constraint, snapshot: Snapshot, feasible: Rows, everywhere: Rows
) -> SoftDomains:
    column = snapshot.label(constraint.topology_key)
    pods = matching_pods(pod, constraint, snapshot)
    if constraint.topology_key == HOSTNAME:
        if pods is None:
            pods = np.zeros(len(snapshot.by_row), dtype=np.int32)
        return SoftDomains(constraint, column, pods, math.log(len(feasible) + 2))
    included = constraint.including(pod, snapshot, everywhere)
    if included is not None:
        everywhere = everywhere[included]
    counts = np.zeros(len(column.values), dtype=np.int64)
    if pods is not None:
        counts = column.sums(pods, everywhere)
    size = _distinct(column, feasible)
    return SoftDomains(constraint, column, counts, math.log(size + 2))


def _distinct(column: Column[str], rows: Rows) -> int:
    """Return how many domains *rows* have; nodes without the label are one, called ``""``."""
    there = np.zeros(len(column.values) + 1, dtype=np.bool_)
    there[column.codes[rows]] = True
    empty = column.code_of.get("")
    if empty is not None:
        there[empty] |= there[MISSING]
        there[MISSING] = False
    return int(there.sum())
