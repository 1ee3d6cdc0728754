"""Which nodes can take a pod: the filter for all of them at once.

The same decisions as in `reference_zone_filter`, for nodes whose row of the zone table says what
the Go plugin reads. Positions are by ascending NUMA id, so the lowest zone is the first position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.framework.status import unschedulable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.numa.upstream.pod_requests import is_host_level
from numakube.scheduling.numa.upstream.reference_zone_filter import INVALID_DATA
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.arrays import IntArray, Mask
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.upstream.pod_requests import Demand, Request
    from numakube.scheduling.numa.upstream.zone_columns import ZoneColumns


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

    def align(self, request: Request) -> Mask:
        """Tell on which nodes a zone has all of *request*."""
        self._good = None
        for name in request.wanted:
            good = self._zones_with(name, request.amounts[name])
            self._good = good if self._good is None else self._good & good
        if self._good is None:
            return np.ones(len(self._columns), dtype=np.bool_)
        return np.asarray(self._good.any(axis=0))

    def take(self, request: Request, later: set[str]) -> None:
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
