"""Hard constraints: how many matching pods each domain has, and what one more would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable, unschedulable
from numakube.scheduling.snapshot.pod_counts import PodQuery, PodSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.plugins.pod_topology_spread.spread_constraints import Constraint
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_columns import Column
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_counts import Counts
    from numakube.scheduling.snapshot.pods import PodInfo

_TEXT: Final = "node(s) didn't match pod topology spread constraints"
SKEWED: Final = unschedulable(_TEXT)
NO_DOMAIN: Final = unresolvable(f"{_TEXT} (missing required label)")


@dataclass(slots=True)
class Domains:
    """The domains of one constraint.

    Attributes:
        counts: matching pods by code of the domain.
        present: which codes are domains, that is, have a node that takes part.
        own: 1 if the pod itself matches the constraint's selector.
    """

    constraint: Constraint
    column: Column[str]
    counts: IntArray
    present: Mask
    own: int

    def clone(self) -> Domains:
        """Return an independent copy."""
        return Domains(self.constraint, self.column, self.counts.copy(), self.present, self.own)

    def fewest(self) -> int:
        """Return the count of the emptiest domain."""
        found = self.counts[self.present]
        if not len(found) or len(found) < self.constraint.min_domains:
            return 0
        return int(found.min())

    def judge(self, node: NodeInfo) -> Status:
        """Say whether the pod can go to *node*."""
        value = node.labels.get(self.constraint.topology_key)
        if value is None:
            return NO_DOMAIN
        code = self.column.code_of.get(value)
        count = 0 if code is None else int(self.counts[code])
        return SKEWED if self._exceeds(count) else SUCCESS

    def refused(self, rows: Rows) -> tuple[Mask, Mask]:
        """Return which of *rows* have no domain, and where the skew would be too large."""
        codes = self.column.codes[rows]
        limit = self.constraint.max_skew - self.own + self.fewest()
        return codes < 0, np.append(self.counts > limit, False)[codes]

    def change(self, node: NodeInfo, delta: int) -> None:
        """Take into account *delta* more matching pods on *node*."""
        code = self.column.code_of[node.labels[self.constraint.topology_key]]
        self.counts[code] += delta

    def _exceeds(self, count: int) -> bool:
        return count + self.own - self.fewest() > self.constraint.max_skew


@dataclass(slots=True)
class FilterState:
    """What the filter knows of all hard constraints of a pod."""

    domains: list[Domains]

    def clone(self) -> FilterState:
        """Return an independent copy."""
        return FilterState([one.clone() for one in self.domains])

    def change(self, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """Take into account that *other* comes to *node*, or leaves it.

        kube-scheduler forgets here that it does not count pods that are being deleted, nor any pod
        for an empty selector; we do not.
        """
        if other.namespace != pod.namespace or other.is_being_deleted:
            return
        if any(one.constraint.topology_key not in node.labels for one in self.domains):
            return
        for one in self.domains:
            constraint = one.constraint
            counts = not constraint.selector.is_empty and constraint.selector.matches(other.labels)
            if counts and constraint.includes(pod, node):
                one.change(node, delta)


def filter_state(
    pod: PodInfo, constraints: Iterable[Constraint], snapshot: Snapshot
) -> FilterState:
    """Count the matching pods of every domain."""
    constraints = tuple(constraints)
    rows = with_keys(constraints, snapshot, snapshot.rows)
    return FilterState([_domains(pod, one, snapshot, rows) for one in constraints])


def with_keys(constraints: Iterable[Constraint], snapshot: Snapshot, rows: Rows) -> Rows:
    """Return those of *rows* whose nodes have the topology keys of all *constraints*."""
    for one in constraints:
        known = snapshot.label(one.topology_key).present(rows)
        if not known.all():
            rows = rows[known]
    return rows


def matching_pods(pod: PodInfo, constraint: Constraint, snapshot: Snapshot) -> Counts | None:
    """Return how many pods each row has that the constraint is about; ``None`` for no pod at all.

    An empty selector is about none: that is how kube-scheduler counts.
    """
    if constraint.selector.is_empty or constraint.selector.requirements is None:
        return None
    sets = (PodSet(frozenset({pod.namespace}), constraint.selector),)
    return snapshot.pods.counts.counts(PodQuery(sets, terminating=False))


def _domains(pod: PodInfo, constraint: Constraint, snapshot: Snapshot, rows: Rows) -> Domains:
    column = snapshot.label(constraint.topology_key)
    included = constraint.including(pod, snapshot, rows)
    if included is not None:
        rows = rows[included]
    present = np.zeros(len(column.values), dtype=np.bool_)
    present[column.codes[rows]] = True
    pods = matching_pods(pod, constraint, snapshot)
    counts = np.zeros(len(present), dtype=np.int64) if pods is None else column.sums(pods, rows)
    return Domains(constraint, column, counts, present, constraint.selector.matches(pod.labels))
