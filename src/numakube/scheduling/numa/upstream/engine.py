"""The Go plugin's decisions behind the protocol of NUMA engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.numa.upstream import filtering, least_numa, strategies
from numakube.scheduling.numa.upstream.demand import demand_of
from numakube.scheduling.numa.upstream.zones import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.state import CycleState
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

LEAST_NUMA_NODES: Final = "LeastNUMANodes"


@dataclass(frozen=True)
class UpstreamEngine:
    """Filter and score of the Go plugin.

    Attributes:
        strategy: a name in `strategies.STRATEGIES`, or `LEAST_NUMA_NODES`.
        weights: of resources, for LeastAllocated and MostAllocated.
    """

    strategy: str = "LeastAllocated"
    weights: Mapping[str, int] = field(default_factory=dict)
    _reader: Reader = field(default_factory=Reader, repr=False, compare=False)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*."""
        demand = demand_of(pod)
        if demand.needs_no_zone or node.numa is None:
            return SUCCESS
        if node.numa.blocked:
            return filtering.INVALID_DATA
        read = self._reader.read(node.numa.nrt)
        if read is None or not read.manager.is_single_numa_node:
            return SUCCESS
        pod_scope = read.manager.is_pod_scope
        align = filtering.align_pod if pod_scope else filtering.align_containers
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
        rate = strategies.score_pod if manager.is_pod_scope else strategies.score_containers
        return rate(strategies.STRATEGIES[self.strategy], demand, zones, self.weights)

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Accept: the Go plugin knows no more than it has filtered by."""
        return SUCCESS
