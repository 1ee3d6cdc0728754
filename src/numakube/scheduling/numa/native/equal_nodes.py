"""Which nodes are in the same state, so that one of them is judged for all.

Nodes of one kind that run the same pods, or none, have the same numbers in every array that the
decision looks at. A new kind of pods is judged on one node of each state; clusters have far fewer
states than nodes, unless no two nodes run the same pods.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.arrays import picked, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.snapshot.zone_table import ZoneTable

_AT_ONCE: Final = 128
"""Nodes whose states are looked at for one pod; a cycle must not hold up everybody else."""
_PAUSE: Final = 32
"""Kinds of pods that are judged on every node after hardly any two were found to be equal."""
_DIGEST_BYTES: Final = 16
_UNKNOWN: Final = -1


class EqualNodes:
    """Numbers the states of nodes; belongs to one `ZoneTable`."""

    def __init__(self) -> None:
        self._state: Rows = np.zeros(0, dtype=np.intp)
        self._numbers: dict[bytes, int] = {}
        self._changes = -1
        self._pause = 0

    def like(
        self, zones: ZoneTable, kind: npt.NDArray[np.int32], rows: Rows
    ) -> tuple[Rows, Rows] | None:
        """Return one of *rows* for each state, and for each of *rows* the one in its state.

        ``None`` if most have a state of their own. What *kind* of node is at each row must be up to
        date.
        """
        if self._pause:
            self._pause -= 1
            return None
        unknown = self._update(zones, kind, rows)
        state = picked(self._state, rows)
        # The last place is that of unknown states, which nobody shares.
        member = np.zeros(len(self._numbers) + 1, dtype=np.intp)
        member[state] = rows
        like = member[state]
        like[unknown] = rows[unknown]
        chosen = rows[(like == rows).nonzero()[0]]
        if 2 * len(chosen) > len(rows):
            self._pause = _PAUSE
            return None
        return chosen, like

    def _update(self, zones: ZoneTable, kind: npt.NDArray[np.int32], rows: Rows) -> Rows:
        """Find the states of nodes that have changed; return the positions of those left over."""
        if len(self._state) != zones.room or len(self._numbers) > 2 * zones.room:
            # Otherwise states that no node is in any more would add up.
            self._state, self._numbers = np.full(zones.room, _UNKNOWN, dtype=np.intp), {}
        self._state[zones.changes.since(self._changes)] = _UNKNOWN
        self._changes = zones.changes.count
        unknown: Rows = (picked(self._state, rows) == _UNKNOWN).nonzero()[0]
        most = _AT_ONCE if self._numbers else len(unknown)
        for start in range(0, min(most, len(unknown)), _AT_ONCE):
            some = rows[unknown[start : start + _AT_ONCE]]
            for row, line in zip(some.tolist(), _lines(zones, kind, some), strict=True):
                digest = blake2b(line, digest_size=_DIGEST_BYTES).digest()
                self._state[row] = self._numbers.setdefault(digest, len(self._numbers))
        return unknown[most:]


def _lines(zones: ZoneTable, kind: npt.NDArray[np.int32], rows: Rows) -> Iterator[memoryview]:
    """Yield for each of *rows* all numbers that decisions about it depend on."""
    at = span(rows)
    # A blocked node is refused for a reason of its own, which is not a number.
    apart = np.where(zones.blocked[at], rows, -1)
    by_zone = [
        amounts(name)[:, at]
        for name in zones.resources()
        for amounts in (zones.available, zones.allocatable, zones.capacity)
    ]
    distance = zones.distance.reshape(-1, zones.room)[:, at]
    numbers = np.concatenate([*by_zone, distance, kind[np.newaxis, at], apart[np.newaxis]])
    text = memoryview(numbers.T.tobytes())
    size = len(text) // len(rows)
    return (text[first : first + size] for first in range(0, len(text), size))
