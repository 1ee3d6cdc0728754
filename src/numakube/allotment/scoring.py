"""How good a place a set of NUMA nodes is: how full it would be, and what the strategy wants.

Koordinator's formulas: the share of CPU and memory that would be free (``LeastAllocated``) or taken
(``MostAllocated``) with the pod there, in percent, each rounded down, and the mean of both.
``DistributeEvenly`` wants emptier places as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.allotment.words import Strategy
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.values.resources import Amounts

FULL_SCORE: Final = 100
SCORED: Final = (CPU, MEMORY)
"""Resources that count, all alike."""


def fullness_score(strategy: Strategy, *, total: Amounts, taken: Amounts) -> int:
    """Return the score of a place that has *total*, of which *taken* is taken; 0 to 100."""
    scores = [
        _score(strategy, total[name], taken.get(name, 0))
        for name in SCORED
        if total.get(name, 0) > 0
    ]
    return sum(scores) // len(scores) if scores else 0


def sum_of(zones: Mapping[int, Amounts], wanted: Iterable[int]) -> dict[str, int]:
    """Return how much of the scored resources the NUMA nodes *wanted* have together."""
    parts = [zones[zone] for zone in wanted if zone in zones]
    return {name: sum(part.get(name, 0) for part in parts) for name in SCORED}


def _score(strategy: Strategy, total: int, taken: int) -> int:
    if strategy is Strategy.MOST_ALLOCATED:
        return min(taken, total) * FULL_SCORE // total
    return max(0, total - taken) * FULL_SCORE // total
