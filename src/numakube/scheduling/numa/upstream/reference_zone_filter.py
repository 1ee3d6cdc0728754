"""Whether a node can take a pod: the reference, node by node.

Containers are placed greedily, each in the lowest zone that holds it, as the kubelet does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.status import SUCCESS, Status, failure, unschedulable
from numakube.scheduling.numa.upstream.pod_requests import is_host_level
from numakube.values.gotext import go_quote
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.scheduling.numa.upstream.nrt_zones import NumaZone
    from numakube.scheduling.numa.upstream.pod_requests import Demand, Request
    from numakube.scheduling.snapshot.nodes import NodeInfo

INVALID_DATA: Final = unschedulable("invalid node topology data")

_ALWAYS_OFFERED: Final = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})


def is_always_offered(resource: str) -> bool:
    """Tell whether kube-scheduler counts *resource* on every node, be it none of it."""
    return resource in _ALWAYS_OFFERED


def offers(node: NodeInfo, resource: str) -> bool:
    """Tell whether kube-scheduler counts *resource* on *node*, be it none of it."""
    return is_always_offered(resource) or (is_scalar(resource) and resource in node.allocatable)


def align_pod(demand: Demand, node: NodeInfo, zones: Sequence[NumaZone]) -> Status:
    """Tell whether one zone holds the pod as a whole."""
    zone = _lowest_zone(demand, demand.whole, node, zones)
    return unschedulable(demand.whole.complaint) if zone is None else SUCCESS


def align_containers(demand: Demand, node: NodeInfo, zones: Sequence[NumaZone]) -> Status:
    """Tell whether each container finds a zone."""
    zones = [zone.copy() for zone in zones]
    for request in demand.each:
        numa_id = _lowest_zone(demand, request, node, zones)
        if numa_id is None:
            return unschedulable(request.complaint)
        if request.lasts:
            problem = _take(demand, request, numa_id, zones)
            if problem:
                return failure("inconsistent resource accounting", problem)
    return SUCCESS


def _lowest_zone(
    demand: Demand, request: Request, node: NodeInfo, zones: Sequence[NumaZone]
) -> int | None:
    """Return the lowest NUMA id that has all of *request*; 0 if nothing needs a zone."""
    candidates: set[int] | None = None
    for name, quantity in request.wanted.items():
        if not offers(node, name):
            return None
        listing = [zone for zone in zones if name in zone.available]
        if not listing and is_host_level(name):
            continue
        counted = demand.counts(name)
        good = {z.id for z in listing if not counted or z.available[name] >= quantity}
        candidates = good if candidates is None else candidates & good
        if not candidates:
            return None
    return min(candidates) if candidates else 0


def _take(demand: Demand, request: Request, numa_id: int, zones: Sequence[NumaZone]) -> str:
    """Take *request* from the zone; return what is wrong if it does not have as much.

    That happens when two zones have the same id and only one of them has enough.
    """
    for zone in zones:
        if zone.id != numa_id:
            continue
        for name, quantity in request.wanted.items():
            if name not in zone.available or not demand.counts(name):
                continue
            before = zone.available[name]
            if quantity > before:
                return (
                    f"resource {go_quote(name)} request {quantity} exceeds "
                    f"NUMA {numa_id} availability {before}"
                )
            zone.available[name] = before - quantity
    return ""
