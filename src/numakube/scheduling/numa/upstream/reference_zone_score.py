"""How well a pod suits the zones of a node: LeastAllocated, MostAllocated and BalancedAllocation.

The scheduler does not choose the zone, so a node is worth what its worst zone is that fits.
Quantities are rounded up to whole numbers: half a CPU counts as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.values.gotext import wrap
from numakube.values.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.scheduling.numa.upstream.nrt_zones import NumaZone
    from numakube.scheduling.numa.upstream.pod_requests import Demand, Quantities, Request

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
    strategy: Strategy, requests: Iterable[Request], zones: Sequence[NumaZone], weights: Weights
) -> int:
    """Return the mean over requests; those for nothing suit any zone and do not count."""
    if not zones:
        return 0
    scores = [
        worst_that_fits(strategy(one.quantities, zone.available, weights) for zone in zones)
        for one in requests
        if one.quantities
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
