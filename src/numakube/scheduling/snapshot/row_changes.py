"""Which rows of a table have been written since somebody looked at it last."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numakube.scheduling.arrays import IntArray, Rows

_LATEST: Final = 32
"""Changes that are found without a look at all rows: more than come between two decisions."""


class RowChanges:
    """Numbers the changes of a table.

    Attributes:
        count: how often a row was written, or the table grew: as long as this lasts, all does.
        at: number of the last change of each row; not to be changed.
    """

    def __init__(self, room: int) -> None:
        self.count = 0
        self._latest: deque[int] = deque(maxlen=_LATEST)
        self._use(np.zeros(room, dtype=np.int64))

    def note(self, row: int) -> None:
        """Say that *row* has been written."""
        self.count += 1
        self._cells[row] = self.count
        self._latest.append(row)

    def since(self, seen: int) -> Rows:
        """Return the rows that were written after *count* was *seen*, ascending."""
        new = self.count - seen
        if new > len(self._latest):
            return (self.at > seen).nonzero()[0]
        rows = set(islice(reversed(self._latest), new))
        return np.array(sorted(rows), dtype=np.intp)

    def grow(self, room: int) -> None:
        """Make room for more rows."""
        larger = np.zeros(room, dtype=np.int64)
        larger[: len(self.at)] = self.at
        self._use(larger)
        self.count += 1
        self._latest.clear()

    def _use(self, at: IntArray) -> None:
        self.at = at
        self._cells = at.data  # several times as fast to write one by one
