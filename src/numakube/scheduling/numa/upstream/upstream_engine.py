"""The Go plugin's decisions behind the protocol of NUMA engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.framework.status import SUCCESS, Verdicts
from numakube.scheduling.numa.upstream import least_numa, reference_zone_verdicts, zone_verdicts
from numakube.scheduling.numa.upstream.plugin_inputs import Reader, demand_of
from numakube.scheduling.numa.upstream.zone_columns import Regularity, ZoneColumns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.upstream.plugin_inputs import Demand
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

LEAST_NUMA_NODES: Final = "LeastNUMANodes"


@dataclass(frozen=True)
class UpstreamEngine:
    """Filter and score of the Go plugin.

    Attributes:
        strategy: a name in `reference_zone_verdicts.STRATEGIES`, or `LEAST_NUMA_NODES`.
        weights: of resources, for LeastAllocated and MostAllocated.
    """

    strategy: str = "LeastAllocated"
    weights: Mapping[str, int] = field(default_factory=dict)
    _reader: Reader = field(default_factory=Reader, repr=False, compare=False)
    _regularity: Regularity = field(default_factory=Regularity, repr=False, compare=False)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*."""
        demand = demand_of(pod)
        if demand.needs_no_zone or node.numa is None:
            return SUCCESS
        if node.numa.blocked:
            return reference_zone_verdicts.INVALID_DATA
        read = self._reader.read(node.numa.nrt)
        if read is None or not read.manager.is_single_numa_node:
            return SUCCESS
        pod_scope = read.manager.is_pod_scope
        align = (
            reference_zone_verdicts.align_pod
            if pod_scope
            else reference_zone_verdicts.align_containers
        )
        return align(demand, node, read.zones)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* for *pod*."""
        demand = demand_of(pod)
        if not demand.is_guaranteed:
            return MAX_NODE_SCORE
        if node.numa is None or node.numa.blocked:
            return 0
        read = self._reader.read(node.numa.nrt)
        if read is None:
            return 0
        manager, zones = read.manager, read.zones
        if self.strategy == LEAST_NUMA_NODES:
            least = least_numa.score_pod if manager.is_pod_scope else least_numa.score_containers
            return least(demand, zones, manager.max_numa_nodes)
        if not manager.is_single_numa_node:
            return 0
        rate = (
            reference_zone_verdicts.score_pod
            if manager.is_pod_scope
            else reference_zone_verdicts.score_containers
        )
        return rate(reference_zone_verdicts.STRATEGIES[self.strategy], demand, zones, self.weights)

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*."""
        demand = demand_of(pod)
        if demand.needs_no_zone:
            return None
        if not demand.is_regular:
            return Verdicts.each(rows, lambda row: self.filter(state, pod, snapshot.at(row)))
        verdicts = zone_verdicts.judge(demand, ZoneColumns(snapshot, rows))
        odd = np.flatnonzero(self._regularity.odd(snapshot, rows))
        if len(odd):
            others = Verdicts.each(rows[odd], lambda row: self.filter(state, pod, snapshot.at(row)))
            verdicts = _with_others(verdicts, odd, others)
        return verdicts if verdicts.choice.any() else None

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate the nodes at *rows* for *pod*."""
        demand = demand_of(pod)
        if not demand.is_guaranteed:
            return np.full(len(rows), MAX_NODE_SCORE, dtype=np.int64)
        scores, odd = self._score_columns(demand, snapshot, rows)
        for position in np.flatnonzero(odd):
            scores[position] = self.score(state, pod, snapshot.at(int(rows[position])))
        return scores

    def _score_columns(
        self, demand: Demand, snapshot: Snapshot, rows: Rows
    ) -> tuple[IntArray, Mask]:
        """Return scores, and which of them are not to be relied on."""
        if not demand.is_regular:
            return np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
        columns = ZoneColumns(snapshot, rows)
        if self.strategy == LEAST_NUMA_NODES:
            odd = self._regularity.odd_or_shifted(snapshot, rows)
            return least_numa.score(demand, columns), odd
        strategy = zone_verdicts.STRATEGIES[self.strategy]
        odd = self._regularity.odd(snapshot, rows)
        return zone_verdicts.score(strategy, demand, columns, self.weights), odd

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Accept: the Go plugin knows no more than it has filtered by."""
        return SUCCESS


def _with_others(verdicts: Verdicts, positions: Rows, others: Verdicts) -> Verdicts:
    """Return *verdicts* with those of *others* at *positions*."""
    choice = verdicts.choice.copy()
    # Both begin with success.
    shift = len(verdicts.statuses) - 1
    choice[positions] = np.where(others.choice == 0, 0, others.choice + shift)
    return Verdicts(choice, verdicts.statuses + others.statuses[1:])
