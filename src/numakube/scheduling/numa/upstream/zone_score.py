"""Scores of all nodes at once: LeastAllocated, MostAllocated and BalancedAllocation.

The same numbers as in `reference_zone_score`, to the last digit: every sum is taken in the same
order.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.upstream.reference_zone_score import weight_of
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.numa.upstream.pod_requests import Demand, Request
    from numakube.scheduling.numa.upstream.reference_zone_score import Weights
    from numakube.scheduling.numa.upstream.zone_columns import ZoneColumns

    Number = TypeVar("Number", int, IntArray)
    Floats: TypeAlias = npt.NDArray[np.float64]
    Strategy: TypeAlias = Callable[[Request, ZoneColumns, Weights], IntArray]

_NONE_FITS = MAX_NODE_SCORE + 1


def score(strategy: Strategy, demand: Demand, columns: ZoneColumns, weights: Weights) -> IntArray:
    """Rate each node."""
    scores = np.zeros(len(columns), dtype=np.int64)
    single = (columns.policy == TopologyPolicy.SINGLE_NUMA_NODE.code) & ~columns.blocked
    for scope, requests in (
        (TopologyScope.POD, (demand.whole,)),
        (TopologyScope.CONTAINER, demand.each),
    ):
        positions = np.flatnonzero(single & (columns.scope == scope.code))
        if len(positions):
            part = columns.part(positions)
            scores[positions] = _mean(strategy, requests, part, weights)
    return scores


def _mean(
    strategy: Strategy, requests: Sequence[Request], columns: ZoneColumns, weights: Weights
) -> IntArray:
    counted = [one for one in requests if one.quantities]
    if not counted:
        return np.full(len(columns), MAX_NODE_SCORE, dtype=np.int64)
    total = np.zeros(len(columns), dtype=np.int64)
    # Containers that ask for the same are common.
    times = Counter(tuple(one.amounts.items()) for one in counted)
    distinct = {tuple(one.amounts.items()): one for one in counted}
    for key, one in distinct.items():
        total += times[key] * _worst_that_fits(strategy(one, columns, weights), columns)
    return total // len(counted)


def _worst_that_fits(scores: IntArray, columns: ZoneColumns) -> IntArray:
    fits = (scores > 0) & columns.present
    worst = np.where(fits, scores, _NONE_FITS).min(axis=0)
    return np.where(worst == _NONE_FITS, 0, worst)


def least_allocated(request: Request, columns: ZoneColumns, weights: Weights) -> IntArray:
    """Rate zones by the share that stays free."""
    return _weighted(request, columns, weights, lambda taken, of: of - taken)


def most_allocated(request: Request, columns: ZoneColumns, weights: Weights) -> IntArray:
    """Rate zones by the share that is taken."""
    return _weighted(request, columns, weights, lambda taken, of: np.full(of.shape, taken))


def balanced_allocation(request: Request, columns: ZoneColumns, weights: Weights) -> IntArray:
    """Rate zones by how equal the shares of all resources are."""
    shares: list[Floats] = []
    fits = np.ones((), dtype=np.bool_)
    for name, amount in request.amounts.items():
        of = _whole(name, columns.available(name))
        share = np.where(of == 0, 1.0, _whole(name, amount) / np.maximum(of, 1))
        fits = fits & (share <= 1)
        # Shares that are too large do not count, but their squares would leave an int64.
        shares.append(np.minimum(share, 2.0))
    scores = ((1 - _variance(shares)) * MAX_NODE_SCORE).astype(np.int64)
    return np.where(fits, scores, 0)


def _variance(values: Sequence[Floats]) -> Floats:
    if len(values) < 2:
        return np.zeros_like(values[0])
    mean = values[0]
    for value in values[1:]:
        mean = mean + value
    mean = mean / len(values)
    squares = drift = np.zeros((), dtype=np.float64)
    for value in values:
        difference = value - mean
        squares = squares + difference * difference
        drift = drift + difference
    return (squares - drift * drift / len(values)) / (len(values) - 1)


def _weighted(
    request: Request,
    columns: ZoneColumns,
    weights: Weights,
    part: Callable[[int, IntArray], IntArray],
) -> IntArray:
    total = np.zeros(columns.present.shape, dtype=np.int64)
    divisor = 0
    for name, amount in request.amounts.items():
        weight = weight_of(weights, name)
        divisor += weight
        available = columns.available(name)
        of = _whole(name, available)
        # In place: fresh memory for every step takes longer than the arithmetic.
        share = part(_whole(name, amount), of)
        share *= MAX_NODE_SCORE
        share //= np.maximum(of, 1)
        share *= available >= amount
        share *= weight
        total += share
    total //= divisor
    return total


def _whole(name: str, amount: Number) -> Number:
    """Return an amount in whole units, rounded up: thousandths of CPUs become CPUs."""
    return -(-amount // MILLI_PER_CPU) if name == CPU else amount


STRATEGIES: Mapping[str, Strategy] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}
