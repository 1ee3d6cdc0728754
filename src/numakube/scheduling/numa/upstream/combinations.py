"""Combinations of zones in the order in which LeastNUMANodes prefers them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.upstream.least_numa import MOST_COMBINATIONS
from numakube.scheduling.snapshot.zones import UNKNOWN_DISTANCE

if TYPE_CHECKING:
    from numakube.scheduling.framework.verdicts import Mask
    from numakube.scheduling.snapshot.zones import ZoneShape


@dataclass(frozen=True, slots=True)
class Combinations:
    """All combinations of one size, best first: the first that fits is the one to take.

    Attributes:
        positions: ``(combinations, size)``, positions of zones.
        members: ``(combinations, zones)``, whether a zone belongs to it.
        closest: whether no combination of this size is closer.
        is_plain: whether these are just the zones one by one.
    """

    positions: npt.NDArray[np.intp]
    members: Mask
    closest: Mask
    is_plain: bool


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
    positions = np.array([every[at] for at in order], dtype=np.intp).reshape(len(order), size)
    members = np.zeros((len(order), zones), dtype=np.bool_)
    members[np.arange(len(order))[:, None], positions] = True
    return Combinations(
        positions,
        members,
        np.array([distances[at] == closest for at in order], dtype=np.bool_),
        is_plain=size == 1 and order == list(range(zones)),
    )
