"""Names for the arrays that nodes are judged with: positions, yes and no, whole numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)

Rows: TypeAlias = npt.NDArray[np.intp]
"""Positions of nodes in the arrays of a snapshot."""
Mask: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
SmallScores: TypeAlias = npt.NDArray[np.int8]
"""Ratings of nodes from 0 to `MAX_NODE_SCORE`."""
Ratings: TypeAlias = npt.NDArray[np.integer]
"""Ratings of any size; of small ones not even the sum of two can be kept."""


@lru_cache(maxsize=64)
def uniform(value: int, size: int) -> IntArray:
    """Return *size* times *value*, in the room of one; not to be changed."""
    return np.broadcast_to(np.int64(value), size)


def is_uniform(numbers: Ratings) -> bool:
    """Tell whether *numbers* were made by `uniform`."""
    return numbers.strides == (0,)


def span(rows: Rows) -> Rows | slice:
    """Return *rows*, which ascend, as a slice if there is no gap between them.

    What a slice reads is not copied, so it is not to be changed.
    """
    if not len(rows):
        return rows
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


def picked(column: npt.NDArray[T], rows: Rows) -> npt.NDArray[T]:
    """Return what *column* has at *rows*, which ascend; not to be changed."""
    at = span(rows)
    return column[at] if isinstance(at, slice) else column.take(at)
