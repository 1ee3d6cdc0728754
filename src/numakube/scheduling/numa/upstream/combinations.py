"""Combinations of zones in the order in which LeastNUMANodes prefers them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.upstream.reference_least_numa import MOST_COMBINATIONS
from numakube.scheduling.snapshot.zones import UNKNOWN_DISTANCE

if TYPE_CHECKING:
    from numakube.scheduling.arrays import IntArray, Mask
    from numakube.scheduling.snapshot.zones import ZoneShape


@dataclass(frozen=True, slots=True)
class Combinations:
    """All combinations of one size, best first: the first that fits is the one to take.

    Attributes:
        members: ``(combinations, zones)``, whether a zone belongs to it.
        closest: whether no combination of this size is closer.
        is_plain: whether these are just the zones one by one.
    """

    members: Mask
    closest: Mask
    is_plain: bool

    def sums(self, amounts: IntArray) -> IntArray | npt.NDArray[np.float64]:
        """Return what the zones of each combination have together, on each node.

        Floating point, because its product of matrices is the fastest sum there is.
        """
        return amounts if self.is_plain else self.members.astype(np.float64) @ amounts


@lru_cache(maxsize=64)
def largest_size(zones: int) -> int:
    """Return up to which size combinations of so many zones are tried."""
    sizes = range(1, zones + 1)
    return next((size - 1 for size in sizes if comb(zones, size) > MOST_COMBINATIONS), zones)


@lru_cache(maxsize=4096)
def combinations_of(shape: ZoneShape, size: int) -> Combinations:
    """Return the combinations of *size* zones."""
    zones = len(shape.ids)
    every = list(combinations(range(zones), size))
    distances = [sum(shape.distances[a][b] for a in one for b in one) for one in every]
    closest = min(UNKNOWN_DISTANCE * size**2, *distances)
    # Python's sort keeps the order of combinations that are equally far apart.
    order = sorted(range(len(every)), key=distances.__getitem__)
    order = [at for at in order if distances[at] < (UNKNOWN_DISTANCE + 1) * size**2]
    members = np.zeros((len(order), zones), dtype=np.bool_)
    for row, at in enumerate(order):
        members[row, list(every[at])] = True
    closest_ones = np.array([distances[at] == closest for at in order], dtype=np.bool_)
    is_plain = size == 1 and order == list(range(zones))
    return Combinations(members, closest_ones, is_plain)
