"""What a node lacks for a pod: a quick way to tell which pods cannot make room by leaving.

It only ever says no where filters and kubelet model would say no: of the node as a whole by
requests, and of its zones where the kubelet puts all of a container on one NUMA node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.insight.defrag.movable_pods import MovablePods
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.exact_report import ExactReport
    from numakube.values.resources import Amounts

_GUARANTEED: Final = "Guaranteed"


class LackingAmounts:
    """What one node, and each of its zones, lacks for one pod."""

    def __init__(self, pod: PodInfo, node: NodeInfo, movable: MovablePods) -> None:
        wanted, node_has = pod.requests, node.allocatable
        free = {name: node_has.get(name, 0) - node.requested.get(name, 0) for name in wanted}
        self._whole = _lacking(wanted, free)
        self._node, self._movable = node, movable
        self._zones: dict[int, Amounts] = {}
        belief = node.numa
        if isinstance(belief, ExactBelief):
            aligned = _aligned(pod, belief.basis.exact)
            pairs = zip(belief.topology.zones, belief.available, strict=True)
            if aligned:
                self._zones = {zone.id: _lacking(aligned, free) for zone, free in pairs}

    def may_be_covered_by(self, leaving: Sequence[PodInfo]) -> bool:
        """Tell whether the pod may fit when those *leaving* are gone."""
        if not _covers(leaving, self._whole):
            return False
        return not self._zones or any(
            _covers([one for one in leaving if zone in self._places_of(one)], lacking)
            for zone, lacking in self._zones.items()
        )

    def _places_of(self, pod: PodInfo) -> frozenset[int]:
        return self._movable.places_of(pod, self._node)


def _lacking(wanted: Amounts, free: Amounts) -> Amounts:
    return {
        name: amount - free.get(name, 0)
        for name, amount in wanted.items()
        if amount > free.get(name, 0)
    }


def _covers(leaving: Sequence[PodInfo], lacking: Amounts) -> bool:
    for name, amount in lacking.items():
        if sum([one.requests.get(name, 0) for one in leaving]) < amount:
            return False
    return True


def _aligned(pod: PodInfo, report: ExactReport) -> Amounts:
    """Return what of *pod* has to be on one NUMA node, as far as that is certain."""
    settings, spec = report.settings, pod.pod.spec
    if settings.topology_policy != TopologyPolicy.SINGLE_NUMA_NODE or spec.init_containers:
        return {}
    if len(spec.containers) > 1 or pod.qos_class != _GUARANTEED:
        return {}
    wanted = pod.requests
    return {name: amount for name, amount in wanted.items() if _is_aligned(name, amount, report)}


def _is_aligned(resource: str, amount: int, report: ExactReport) -> bool:
    settings = report.settings
    if resource == CPU:
        return settings.cpu_policy == "static" and amount % MILLI_PER_CPU == 0
    if resource == MEMORY:
        return settings.memory_policy == "Static"
    table = report.devices.get(resource)
    return table is not None and all(table.numa_nodes)
