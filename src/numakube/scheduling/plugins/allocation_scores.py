"""Rating of nodes by how much of their resources is in use.

Each strategy gives a resource a score from what a node offers and what would be in use, and takes
the weighted mean over the resources that the node offers. All arithmetic is on integers as in
kube-scheduler 1.35.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.plugins.plugin_arguments import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    ScoringStrategy,
    UtilizationShapePoint,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.scheduling.arrays import IntArray, Mask
    from numakube.scheduling.plugins.plugin_arguments import ResourceSpec

_MAX_SHAPE_SCORE: Final = 10
_FULL: Final = 100


class AllocationScorer(ABC):
    """Rates nodes; subclasses say what one resource is worth."""

    def __init__(self, resources: Sequence[ResourceSpec]) -> None:
        self.weights = tuple(one.weight for one in resources)

    @abstractmethod
    def worth(self, offered: int, used: int) -> int:
        """Return the score of one resource of which *offered* is not zero."""

    @abstractmethod
    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the same for many nodes; rows that offer nothing do not matter."""

    def counts(self, worth: int) -> bool:
        """Tell whether a resource with that score takes part in the mean."""
        return True

    def counting(self, worth: IntArray) -> Mask | bool:
        """Return the same for many nodes."""
        return True

    def mean(self, total: int, weight: int) -> int:
        """Return the weighted mean."""
        return total // weight

    def mean_all(self, total: IntArray, weight: IntArray | int) -> IntArray:
        """Return the same for many nodes."""
        return total // weight

    def score(self, usages: Sequence[tuple[int, int]]) -> int:
        """Rate a node of which resources are offered and used like this."""
        total = weight = 0
        for (offered, used), share in zip(usages, self.weights, strict=True):
            if not offered:
                continue
            worth = self.worth(offered, used)
            if self.counts(worth):
                total += worth * share
                weight += share
        return self.mean(total, weight) if weight else 0

    def score_all(self, usages: Sequence[tuple[IntArray, IntArray] | None], size: int) -> IntArray:
        """Rate *size* nodes of which resources are offered and used like this."""
        total = np.zeros(size, dtype=np.int64)
        weight: IntArray | int = 0
        for usage, share in zip(usages, self.weights, strict=True):
            if usage is None:
                continue
            offered, used = usage
            there: Mask | bool = True
            if not offered.all():
                there = offered != 0
                offered = np.where(there, offered, 1)
            worth = self.worth_all(offered, used)
            counts = share * (there & self.counting(worth))
            total += worth if isinstance(counts, int) and counts == 1 else worth * counts
            weight = weight + counts
        # A resource that counts on every node has one number for its weight, which is fast.
        if isinstance(weight, int):
            return self.mean_all(total, weight) if weight else total
        return np.where(weight, self.mean_all(total, np.maximum(weight, 1)), 0)


class LeastAllocated(AllocationScorer):
    """The more is free, the better."""

    def worth(self, offered: int, used: int) -> int:
        """Return the free share."""
        return 0 if used > offered else (offered - used) * MAX_NODE_SCORE // offered

    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the free share."""
        free = offered - used
        np.maximum(free, 0, out=free)
        free *= MAX_NODE_SCORE
        free //= offered
        return free


class MostAllocated(AllocationScorer):
    """The more is in use, the better."""

    def worth(self, offered: int, used: int) -> int:
        """Return the used share."""
        return min(used, offered) * MAX_NODE_SCORE // offered

    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the used share."""
        return np.minimum(used, offered) * MAX_NODE_SCORE // offered


class RequestedToCapacityRatio(AllocationScorer):
    """A broken line from the used share to the score; resources that score nothing do not count."""

    def __init__(
        self, resources: Sequence[ResourceSpec], shape: Sequence[UtilizationShapePoint]
    ) -> None:
        super().__init__(resources)
        factor = MAX_NODE_SCORE // _MAX_SHAPE_SCORE
        points = [(point.utilization, point.score * factor) for point in shape]
        self._line = np.array([_on_line(points, p) for p in range(_FULL + 1)], dtype=np.int64)

    def worth(self, offered: int, used: int) -> int:
        """Return the score at the used share."""
        return int(self._line[_FULL if used > offered else used * _FULL // offered])

    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the score at the used share."""
        worth: IntArray = self._line[np.where(used > offered, _FULL, used * _FULL // offered)]
        return worth

    def counts(self, worth: int) -> bool:
        """Only scores above zero take part."""
        return worth > 0

    def counting(self, worth: IntArray) -> Mask | bool:
        """Only scores above zero take part."""
        above: Mask = worth > 0
        return above

    def mean(self, total: int, weight: int) -> int:
        """Round half up; nothing here is negative."""
        return (2 * total + weight) // (2 * weight)

    def mean_all(self, total: IntArray, weight: IntArray | int) -> IntArray:
        """Round half up."""
        return (2 * total + weight) // (2 * weight)


def allocation_scorer(strategy: ScoringStrategy) -> AllocationScorer:
    """Return what rates nodes by *strategy*."""
    if strategy.type == LEAST_ALLOCATED:
        return LeastAllocated(strategy.resources)
    if strategy.type == MOST_ALLOCATED:
        return MostAllocated(strategy.resources)
    ratio = strategy.requested_to_capacity_ratio
    return RequestedToCapacityRatio(strategy.resources, ratio.shape if ratio else ())


def _on_line(points: Sequence[tuple[int, int]], at: int) -> int:
    """Return the height of the broken line through *points*, flat beyond its ends."""
    for index, (x, y) in enumerate(points):
        if at <= x:
            if index == 0:
                return y
            before_x, before_y = points[index - 1]
            # Divided towards zero, as Go does for lines that fall.
            rise = (y - before_y) * (at - before_x)
            step = abs(rise) // (x - before_x)
            return before_y + (step if rise >= 0 else -step)
    return points[-1][1] if points else 0
