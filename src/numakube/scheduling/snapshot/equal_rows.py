"""Which rows of a table hold the same numbers, so that one of them is judged for all.

Nodes of one kind that run the same pods, or none, have the same numbers in every array that a
decision looks at: they are in one state. A new kind of pods is judged on one node of each state;
clusters have far fewer states than nodes, unless no two nodes run the same pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from numakube.scheduling.arrays import picked, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.snapshot.row_changes import RowChanges

    Numbers = Callable[[Rows], npt.NDArray[np.integer]]

_AT_ONCE: Final = 128
"""Rows whose states are looked at each time but the first; a cycle must not hold up the others."""
_PAUSE: Final = 32
"""How often every row is judged without a look after hardly any two were found to be equal."""
_DIGEST_BYTES: Final = 16
_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class EqualRowsFound:
    """What `EqualRows` knows of some rows.

    Attributes:
        judged: one row of each state, and every row whose state is not known; ascending.
        unknown: the latter.
    """

    judged: Rows
    unknown: Rows
    _rows: Rows
    _state: Rows
    _member: Rows

    def spread(self, values: npt.NDArray[np.generic]) -> None:
        """Give every row in *values* what the judged row in its state has there."""
        own = values[self.unknown]
        values[span(self._rows)] = values[self._member].take(picked(self._state, self._rows))
        values[self.unknown] = own


class EqualRows:
    """Numbers the states of rows; belongs to one table."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._state: Rows = np.zeros(0, dtype=np.intp)
        self._member: Rows = np.full(1, _UNKNOWN, dtype=np.intp)
        """A row in each state; the last place is that of unknown states, which nobody shares."""
        self._numbers: dict[bytes, int] = {}
        self._digests: list[bytes] = []
        self._unused: list[int] = []
        self._changes = -1
        self._pause = 0
        self._found: EqualRowsFound | None = None

    def find(self, changes: RowChanges, rows: Rows, numbers: Numbers) -> EqualRowsFound | None:
        """Return which of *rows* to judge; ``None`` if most have a state of their own.

        *numbers* is asked about rows that have changed. It returns a column for each, with all that
        decisions depend on.
        """
        if self._pause:
            self._pause -= 1
            return None
        known = self._found
        if known is None or len(known.unknown) or self._is_old(changes, rows):
            most = len(rows) if self._rows is None else _AT_ONCE
            self._forget_changed(changes, rows)
            self._found = self._judged_for(rows, self._look_at(rows, numbers, most))
        return self._found

    def _is_old(self, changes: RowChanges, rows: Rows) -> bool:
        return rows is not self._rows or changes.count != self._changes

    def _forget_changed(self, changes: RowChanges, rows: Rows) -> None:
        """Note that the states of rows that have changed, or are left out, are not known."""
        if len(self._state) != len(changes.at):
            more = len(changes.at) - len(self._state)
            self._state = np.pad(self._state, (0, more), constant_values=_UNKNOWN)
        changed = changes.since(self._changes)
        before = self._state[changed]
        left = before[self._member[before] == changed]
        self._state[changed] = _UNKNOWN
        if rows is not self._rows:
            kept = self._state[rows]
            self._state.fill(_UNKNOWN)
            self._state[rows] = kept
            left = np.array(list(self._numbers.values()), dtype=np.intp)
        if len(left):
            self._choose_members(rows, left)
        self._rows, self._changes = rows, changes.count

    def _choose_members(self, rows: Rows, left: Rows) -> None:
        """Choose a row for each state; numbers of states that all rows have *left* are free."""
        self._member.fill(_UNKNOWN)
        self._member[picked(self._state, rows)] = rows
        self._member[_UNKNOWN] = _UNKNOWN
        for number in left[self._member[left] == _UNKNOWN].tolist():
            del self._numbers[self._digests[number]]
            self._unused.append(number)

    def _look_at(self, rows: Rows, numbers: Numbers, most: int) -> Rows:
        """Find the states of *most* rows that have changed; return those that are left."""
        unknown: Rows = rows[(picked(self._state, rows) == _UNKNOWN).nonzero()[0]]
        for start in range(0, min(most, len(unknown)), _AT_ONCE):
            some = unknown[start : start + _AT_ONCE]
            for row, line in zip(some.tolist(), _lines(numbers(some)), strict=True):
                number = self._number_of(blake2b(line, digest_size=_DIGEST_BYTES).digest())
                self._state[row] = number
                self._member[number] = row
        return unknown[most:]

    def _number_of(self, digest: bytes) -> int:
        number = self._numbers.get(digest)
        if number is None:
            number = self._unused.pop() if self._unused else self._next_number()
            self._numbers[digest] = number
            self._digests[number] = digest
        return number

    def _next_number(self) -> int:
        number = len(self._digests)
        self._digests.append(b"")
        if number + 1 == len(self._member):
            self._member = np.pad(self._member, (0, number + 1), constant_values=_UNKNOWN)
        return number

    def _judged_for(self, rows: Rows, unknown: Rows) -> EqualRowsFound | None:
        members = self._member[: len(self._digests)]
        judged = members[members != _UNKNOWN]
        if 2 * len(judged) > len(rows):
            self._pause = _PAUSE
        judged = np.concatenate([judged, unknown])
        if 2 * len(judged) > len(rows):
            return None
        judged.sort()
        return EqualRowsFound(judged, unknown, rows, self._state, members)


def _lines(columns: npt.NDArray[np.integer]) -> Iterator[memoryview]:
    """Yield the bytes of each of *columns*."""
    text = memoryview(columns.T.tobytes())
    size = len(text) // columns.shape[1]
    return (text[first : first + size] for first in range(0, len(text), size))
