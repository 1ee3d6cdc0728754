"""How good a place a set of NUMA nodes is: how full it would be, and what the strategy wants.

Koordinator's formulas: the share of CPU and memory that would be free (``LeastAllocated``) or taken
(``MostAllocated``) with the pod there, in percent, each rounded down, and the mean of both.
``DistributeEvenly`` wants emptier places as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_values import Strategy
from numakube.values.numamask import NumaMask
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

FULL_SCORE: Final = 100
SCORED: Final = (CPU, MEMORY)
"""Resources that count, all alike."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Sets of NUMA nodes to be compared for one holder.

    Attributes:
        totals: what each NUMA node has.
        free: what is left of it.
        more: what the holder takes.
    """

    strategy: Strategy
    totals: Mapping[int, Amounts]
    free: Mapping[int, Amounts]
    more: Amounts

    def score(self, mask: NumaMask) -> int:
        """Return how good a place *mask* is, 0 to 100."""
        scores = [
            _score(self.strategy, total[mask], total[mask] - free[mask] + more)
            for total, free, more in self._sums
            if total[mask] > 0
        ]
        return sum(scores) // len(scores) if scores else 0

    @cached_property
    def _sums(self) -> list[tuple[Mapping[NumaMask, int], Mapping[NumaMask, int], int]]:
        return [
            (_sums(self.totals, name), _sums(self.free, name), self.more.get(name, 0))
            for name in SCORED
        ]


def _sums(zones: Mapping[int, Amounts], name: str) -> Mapping[NumaMask, int]:
    return LazySums({1 << zone: amounts.get(name, 0) for zone, amounts in zones.items()})


class LazySums(dict[NumaMask, int]):
    """Sums over sets of NUMA nodes, from those over single ones, as far as they are asked for."""

    def __missing__(self, mask: NumaMask) -> int:
        """Return the sum over *mask*, which is one node and a smaller set."""
        low = mask & -mask
        self[mask] = total = self.get(low, 0) + (self[mask ^ low] if mask ^ low else 0)
        return total


def _score(strategy: Strategy, total: int, taken: int) -> int:
    if strategy is Strategy.MOST_ALLOCATED:
        return min(taken, total) * FULL_SCORE // total
    return max(0, total - taken) * FULL_SCORE // total
