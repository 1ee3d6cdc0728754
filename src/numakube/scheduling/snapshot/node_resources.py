"""Amounts of all nodes as arrays, one row of numbers per resource, and which rows are equal.

Each resource has arrays of its own, so that a resource seen for the first time adds arrays and
moves nothing. Room for nodes grows by doubling. What follows from the amounts of a node for a kind
of pods is worked out again only for nodes that have changed (`ResourceTable.derived`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from numakube.scheduling.arrays import picked, span
from numakube.scheduling.snapshot.node_columns import RowChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.snapshot.nodes import NodeInfo

    Numbers = Callable[[Rows], npt.NDArray[np.integer]]


# ------------------------------------------------------------------------------------------------
# Which rows of a table hold the same numbers, so that one of them is judged for all.
#
# Nodes of one kind that run the same pods, or none, have the same numbers in every array that a
# decision looks at: they are in one state. A new kind of pods is judged on one node of each state;
# clusters have far fewer states than nodes, unless no two nodes run the same pods.

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


# ------------------------------------------------------------------------------------------------
# Allocatable and requested amounts of all nodes as arrays, one row of numbers per resource.

_FIRST_CAPACITY: Final = 64
_FEW: Final = 4
_DERIVED_KEPT: Final = 128
"""Arrays of what follows from amounts; each takes a byte or two a node."""
MOST: Final = (1 << 62) - 1
"""Amounts in arrays go up to here, so that the sum of two of them is still a number.

A pod may ask for exabytes, and several such pods may be put on one node by name.
"""


@lru_cache(maxsize=64)
def _bounds(dtype: np.dtype[np.integer]) -> tuple[int, int]:
    """Return what *dtype* holds at least and at most; NumPy takes longer to look it up."""
    bounds = np.iinfo(dtype)
    return bounds.min, bounds.max


def bounded(amount: int) -> int:
    """Return *amount*, or the most or least that an array holds.

    Amounts below zero are what Kubernetes makes of more thousandths than it can count.
    """
    return max(-MOST, min(amount, MOST))


class ResourceTable:
    """What nodes offer and what their pods ask for; indexed by `NodeInfo.row`."""

    def __init__(self) -> None:
        self.capacity = _FIRST_CAPACITY
        self._allocatable: dict[str, IntArray] = {}
        self._requested: dict[str, IntArray] = {}
        self.pod_count = self._zeros()
        self.allowed_pods = self._zeros()
        self.nonzero_cpu_milli = self._zeros()
        self.nonzero_memory_bytes = self._zeros()
        self._none = self._zeros()
        self._changes = RowChanges(self.capacity)
        self._equal = EqualRows()
        self._reserved = 0
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._derived: OrderedDict[Hashable, tuple[int, npt.NDArray[np.integer]]] = OrderedDict()

    def derived(
        self,
        key: Hashable,
        compute: Callable[[Rows | slice, int], npt.NDArray[np.integer]],
        one: Callable[[int], int],
        dtype: npt.DTypeLike,
    ) -> npt.NDArray[np.integer]:
        """Return by row what *compute* makes of the amounts in this table; not to be changed.

        It is asked about rows that have changed since it was asked under the same *key*, and told
        how many. Its answer for a row must depend on the amounts at that row alone. *one* says the
        same of one row, and is asked about few: an array of one number costs as much as one of a
        hundred. *dtype* holds the answers, the nearest it can: the fewer bytes, the less memory has
        to be fetched from the system.
        """
        known = self._derived.get(key)
        seen, values = known or (0, np.zeros(self.capacity, dtype))
        least, most = _bounds(values.dtype)
        equal = None if known else self._equal_rows()
        changed = self._changes.since(seen) if equal is None else equal.judged
        if len(changed) > _FEW:
            at = span(changed)
            found = compute(at, len(changed))
            values[at] = found if found.dtype == dtype else found.clip(least, most)
        else:
            for row in changed.tolist():
                values[row] = max(least, min(one(row), most))
        if equal is not None:
            equal.spread(values)
        self._derived[key] = self._changes.count, values
        self._derived.move_to_end(key)
        if len(self._derived) > _DERIVED_KEPT:
            self._derived.popitem(last=False)
        return values

    def _equal_rows(self) -> EqualRowsFound | None:
        if len(self._rows) != self._reserved:
            self._rows = np.arange(self._reserved)
        return self._equal.find(self._changes, self._rows, self._numbers_at)

    def allocatable(self, resource: str) -> IntArray:
        """Return what each node offers of *resource*; not to be changed."""
        return self._allocatable.get(resource, self._none)

    def requested(self, resource: str) -> IntArray:
        """Return what the pods of each node ask for of *resource*; not to be changed."""
        return self._requested.get(resource, self._none)

    def reserve(self, rows: int) -> None:
        """Make room for nodes at rows below *rows*."""
        self._reserved = rows
        while self.capacity < rows:
            self.capacity *= 2
        if len(self._none) == self.capacity:
            return
        for arrays in (self._allocatable, self._requested):
            for name, array in arrays.items():
                arrays[name] = self._grown(array)
        for field in (
            "pod_count", "allowed_pods", "nonzero_cpu_milli", "nonzero_memory_bytes", "_none",
        ):  # fmt: skip
            setattr(self, field, self._grown(getattr(self, field)))
        self._changes.grow(self.capacity)
        self._derived.clear()

    def write_node(self, node: NodeInfo) -> None:
        """Write everything about *node* into its row."""
        row = node.row
        for name, array in self._allocatable.items():
            array[row] = bounded(node.allocatable.get(name, 0))
        for name in node.allocatable.keys() - self._allocatable.keys():
            self._add(self._allocatable, name)[row] = bounded(node.allocatable[name])
        self.allowed_pods[row] = bounded(node.allowed_pods)
        for array in self._requested.values():
            array[row] = 0
        self.write_pods(node)

    def write_pods(self, node: NodeInfo) -> None:
        """Write what the pods of *node* ask for into its row."""
        row = node.row
        for name, amount in node.requested.items():
            array = self._requested.get(name)
            if array is None:
                array = self._add(self._requested, name)
            array[row] = bounded(amount)
        self.pod_count[row] = len(node.pods)
        self.nonzero_cpu_milli[row] = bounded(node.nonzero_cpu_milli)
        self.nonzero_memory_bytes[row] = bounded(node.nonzero_memory_bytes)
        self._changes.note(row)

    def clear(self, row: int) -> None:
        """Forget the node that was at *row*."""
        for arrays in (self._allocatable, self._requested):
            for array in arrays.values():
                array[row] = 0
        for array in (
            self.pod_count, self.allowed_pods, self.nonzero_cpu_milli, self.nonzero_memory_bytes,
        ):  # fmt: skip
            array[row] = 0
        self._changes.note(row)

    def _numbers_at(self, rows: Rows) -> IntArray:
        """Return for each of *rows* a column of all its amounts."""
        at = span(rows)
        arrays = (
            *self._allocatable.values(), *self._requested.values(), self.pod_count,
            self.allowed_pods, self.nonzero_cpu_milli, self.nonzero_memory_bytes,
        )  # fmt: skip
        return np.stack([array[at] for array in arrays])

    def _add(self, arrays: dict[str, IntArray], name: str) -> IntArray:
        arrays[name] = self._zeros()
        return arrays[name]

    def _zeros(self) -> IntArray:
        return np.zeros(self.capacity, dtype=np.int64)

    def _grown(self, array: IntArray) -> IntArray:
        new = self._zeros()
        new[: len(array)] = array
        return new
