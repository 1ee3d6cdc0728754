"""Which nodes can take a pod, and how well it suits their zones: all of them at once.

The same decisions as in `reference_zone_verdicts`, for nodes whose row of the zone table says what
the Go plugin reads. Positions are by ascending NUMA id, so the lowest zone is the first position.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.framework.status import Verdicts, unschedulable
from numakube.scheduling.numa.upstream.plugin_inputs import is_host_level
from numakube.scheduling.numa.upstream.reference_zone_verdicts import INVALID_DATA, weight_of
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube.scheduling.arrays import IntArray, Mask
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.upstream.plugin_inputs import Demand, PluginRequest
    from numakube.scheduling.numa.upstream.reference_zone_verdicts import Weights
    from numakube.scheduling.numa.upstream.zone_columns import ZoneColumns

    Number = TypeVar("Number", int, IntArray)
    Floats: TypeAlias = npt.NDArray[np.float64]
    Strategy: TypeAlias = Callable[[PluginRequest, ZoneColumns, Weights], IntArray]


def judge(demand: Demand, columns: ZoneColumns) -> Verdicts:
    """Return the verdict on each node."""
    return Verdicts.first_of(len(columns), _refusals(demand, columns))


def _refusals(demand: Demand, columns: ZoneColumns) -> Iterator[tuple[Mask, Status]]:
    blocked = columns.blocked
    yield blocked, INVALID_DATA
    single = (columns.policy == TopologyPolicy.SINGLE_NUMA_NODE.code) & ~blocked
    for scope, requests in (
        (TopologyScope.POD, (demand.whole,)),
        (TopologyScope.CONTAINER, demand.each),
    ):
        positions = np.flatnonzero(single & (columns.scope == scope.code))
        if not len(positions):
            continue
        placing = Placing(demand, columns.part(positions))
        for index, request in enumerate(requests):
            refused = np.zeros(len(columns), dtype=np.bool_)
            refused[positions] = ~placing.align(request)
            yield refused, unschedulable(request.complaint)
            if request.lasts:
                placing.take(
                    request, {name for one in requests[index + 1 :] for name in one.wanted}
                )


class Placing:
    """The zones of many nodes while the containers of a pod are placed one after the other."""

    def __init__(self, demand: Demand, columns: ZoneColumns) -> None:
        self._demand = demand
        self._columns = columns
        self._each = np.arange(len(columns))
        self._free: dict[str, IntArray] = {}
        self._good: Mask | None = None

    def align(self, request: PluginRequest) -> Mask:
        """Tell on which nodes a zone has all of *request*."""
        self._good = None
        for name in request.wanted:
            good = self._zones_with(name, request.amounts[name])
            self._good = good if self._good is None else self._good & good
        if self._good is None:
            return np.ones(len(self._columns), dtype=np.bool_)
        return np.asarray(self._good.any(axis=0))

    def take(self, request: PluginRequest, later: set[str]) -> None:
        """Take *request* from the lowest zone that has it; only what is asked for *later* too."""
        names = [one for one in request.wanted if one in later and self._demand.counts(one)]
        if self._good is None or not names:
            return
        lowest = self._good.argmax(axis=0)
        for name in names:
            if name not in self._free:
                self._free[name] = self._columns.available(name).copy()
            # Where no zone names the resource this changes numbers that are not used.
            self._free[name][lowest, self._each] -= request.amounts[name]

    def _zones_with(self, name: str, amount: int) -> Mask:
        reports = self._columns.reports(name)
        good = reports
        if self._demand.counts(name):
            free = self._free.get(name)
            good = reports & ((self._columns.available(name) if free is None else free) >= amount)
        if is_host_level(name):
            good = good | ~reports.any(axis=0)
        offered = self._columns.offers(name)
        return good if offered is None else good & offered


# ------------------------------------------------------------------------------------------------
# Scores of all nodes at once: LeastAllocated, MostAllocated and BalancedAllocation.
#
# The same numbers as in `reference_zone_verdicts`, to the last digit: every sum is taken in the
# same order.

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
    strategy: Strategy, requests: Sequence[PluginRequest], columns: ZoneColumns, weights: Weights
) -> IntArray:
    counted = [request for request in requests if request.quantities]
    if not counted:
        return np.full(len(columns), MAX_NODE_SCORE, dtype=np.int64)
    total = np.zeros(len(columns), dtype=np.int64)
    # Containers that ask for the same are common.
    times = Counter(tuple(request.amounts.items()) for request in counted)
    distinct = {tuple(request.amounts.items()): request for request in counted}
    for key, one in distinct.items():
        total += times[key] * _worst_that_fits(strategy(one, columns, weights), columns)
    return total // len(counted)


def _worst_that_fits(scores: IntArray, columns: ZoneColumns) -> IntArray:
    fits = (scores > 0) & columns.present
    worst = np.where(fits, scores, _NONE_FITS).min(axis=0)
    return np.where(worst == _NONE_FITS, 0, worst)


def least_allocated(request: PluginRequest, columns: ZoneColumns, weights: Weights) -> IntArray:
    """Rate zones by the share that stays free."""
    return _weighted(request, columns, weights, lambda taken, of: of - taken)


def most_allocated(request: PluginRequest, columns: ZoneColumns, weights: Weights) -> IntArray:
    """Rate zones by the share that is taken."""
    return _weighted(request, columns, weights, lambda taken, of: np.full(of.shape, taken))


def balanced_allocation(request: PluginRequest, columns: ZoneColumns, weights: Weights) -> IntArray:
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
    request: PluginRequest,
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
