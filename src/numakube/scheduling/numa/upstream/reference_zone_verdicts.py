"""Whether a node can take a pod, and how well it suits its zones: the reference, node by node.

Containers are placed greedily, each in the lowest zone that holds it, as the kubelet does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.framework.status import SUCCESS, Status, failure, unschedulable
from numakube.scheduling.numa.upstream.plugin_inputs import is_host_level
from numakube.values.gotext import go_quote, wrap
from numakube.values.quantity import Quantity
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.scheduling.numa.upstream.plugin_inputs import (
        Demand,
        NumaZone,
        PluginRequest,
        Quantities,
    )
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
    demand: Demand, request: PluginRequest, node: NodeInfo, zones: Sequence[NumaZone]
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


def _take(demand: Demand, request: PluginRequest, numa_id: int, zones: Sequence[NumaZone]) -> str:
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


# ------------------------------------------------------------------------------------------------
# How well a pod suits the zones of a node: LeastAllocated, MostAllocated and BalancedAllocation.
#
# The scheduler does not choose the zone, so a node is worth what its worst zone is that fits.
# Quantities are rounded up to whole numbers: half a CPU counts as one.

Weights: TypeAlias = "Mapping[str, int]"
Strategy: TypeAlias = "Callable[[Quantities, Quantities, Weights], int]"

_NONE = Quantity.of_count(0)
_LARGEST_WEIGHT = 2**50
"""Larger weights count as this one, so that weighted scores stay within an int64."""


def weight_of(weights: Weights, resource: str) -> int:
    """Return the weight of *resource*; what is not configured, or not positive, counts once."""
    return min(max(1, weights.get(resource, 1)), _LARGEST_WEIGHT)


def least_allocated(wanted: Quantities, available: Quantities, weights: Weights) -> int:
    """Rate a zone by the share that stays free."""
    return _weighted(wanted, available, weights, lambda taken, of: of - taken)


def most_allocated(wanted: Quantities, available: Quantities, weights: Weights) -> int:
    """Rate a zone by the share that is taken."""
    return _weighted(wanted, available, weights, lambda taken, of: taken)


def balanced_allocation(wanted: Quantities, available: Quantities, weights: Weights) -> int:
    """Rate a zone by how equal the shares of all resources are."""
    shares = []
    for name, quantity in sorted(wanted.items()):
        of = available.get(name, _NONE).value()
        share = quantity.value() / of if of else 1.0
        if share > 1:
            return 0
        shares.append(share)
    return int((1 - variance(shares)) * MAX_NODE_SCORE)


def variance(values: Sequence[float]) -> float:
    """Return the unbiased sample variance; a single value does not vary.

    Two passes with a correction for the mean's rounding, and every sum from left to right, so that
    the last digit is the Go plugin's too.
    """
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    squares = drift = 0.0
    for value in values:
        difference = value - mean
        squares += difference * difference
        drift += difference
    return (squares - drift * drift / len(values)) / (len(values) - 1)


def score_pod(
    strategy: Strategy, demand: Demand, zones: Sequence[NumaZone], weights: Weights
) -> int:
    """Rate a node whose kubelet aligns the pod as a whole."""
    return _mean(strategy, [demand.whole], zones, weights)


def score_containers(
    strategy: Strategy, demand: Demand, zones: Sequence[NumaZone], weights: Weights
) -> int:
    """Rate a node whose kubelet aligns each container: the mean over all of them."""
    return _mean(strategy, demand.each, zones, weights)


def _mean(
    strategy: Strategy,
    requests: Iterable[PluginRequest],
    zones: Sequence[NumaZone],
    weights: Weights,
) -> int:
    """Return the mean over requests; those for nothing suit any zone and do not count."""
    if not zones:
        return 0
    scores = [
        worst_that_fits(strategy(request.quantities, zone.available, weights) for zone in zones)
        for request in requests
        if request.quantities
    ]
    if not scores:
        return MAX_NODE_SCORE
    return min(max(0, int(sum(scores) / len(scores))), MAX_NODE_SCORE)


def worst_that_fits(scores: Iterable[int]) -> int:
    """Return the smallest score that is not 0, or 0 if there is none."""
    return min((score for score in scores if score), default=0)


def _weighted(
    wanted: Quantities,
    available: Quantities,
    weights: Weights,
    part: Callable[[int, int], int],
) -> int:
    total = divisor = 0
    for name, quantity in wanted.items():
        weight = weight_of(weights, name)
        divisor += weight
        of = available.get(name, _NONE)
        if of and quantity <= of:
            total += weight * _percentage(part(quantity.value(), of.value()), of.value())
    return _toward_zero(total, divisor)


def _percentage(part: int, of: int) -> int:
    """Return the share in whole per cent; beyond 92 PB it overflows as the Go plugin's does.

    Beyond 9.2 EB the whole itself overflows, to zero in the end, on which the Go plugin panics.
    """
    return _toward_zero(wrap(part * MAX_NODE_SCORE), of) if of else 0


def _toward_zero(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


STRATEGIES: Mapping[str, Strategy] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}
