"""One property of all nodes as an array of small numbers, and which rows have been written.

A rule about labels or taints is worked out once for each distinct value and then looked up for all
nodes at once. A column is made when it is first asked for and kept up to date from then on: a node
that changes writes its own row and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.snapshot.nodes import NodeInfo


# ------------------------------------------------------------------------------------------------
# Which rows of a table have been written since somebody looked at it last.

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


# ------------------------------------------------------------------------------------------------
# One property of all nodes, such as the value of a label, as an array of small numbers.

V = TypeVar("V", bound="Hashable")
OnFailure: TypeAlias = "Callable[[NodeInfo, Exception], None]"
"""Told of a node whose value cannot be found."""

MISSING: Final = -1
"""Code of rows without a value, and of rows without a node. As an index it means the last."""
MAX_COLUMNS: Final = 256
"""Pods may name any label; only the columns used last are kept up to date."""
_FIRST_CAPACITY: Final = 64
_FORGOTTEN_VALUES: Final = 4096
"""How many values that no node has any more a column may remember before it is rebuilt."""


class NodeColumn(Generic[V]):
    """The values of one thing, coded: ``values[codes[row]]`` is that of the node at *row*."""

    __slots__ = ("code_of", "codes", "of", "on_failure", "values")

    def __init__(self, of: Callable[[NodeInfo], V | None], on_failure: OnFailure) -> None:
        self.of = of
        self.on_failure = on_failure
        self.values: list[V] = []
        self.code_of: dict[V, int] = {}
        self.codes: npt.NDArray[np.int32] = np.full(_FIRST_CAPACITY, MISSING, dtype=np.int32)

    def write(self, node: NodeInfo) -> None:
        """Take over what *node* has."""
        row = node.row
        if row >= len(self.codes):
            self._grow(row)
        try:
            self.codes[row] = self._code(self.of(node))
        except Exception as error:
            # One node that says something unheard of must not spoil the column for all others.
            self.codes[row] = MISSING
            self.on_failure(node, error)

    def clear(self, row: int) -> None:
        """Forget the node that was at *row*."""
        if row < len(self.codes):
            self.codes[row] = MISSING

    def where(self, accepts: Callable[[V | None], bool], rows: Rows) -> Mask:
        """Return which of *rows* have a value, or lack one, that *accepts* is happy with."""
        table = np.empty(len(self.values) + 1, dtype=np.bool_)
        table[:-1] = [accepts(value) for value in self.values]
        table[MISSING] = accepts(None)
        chosen: Mask = table[self.codes[rows]]
        return chosen

    def where_in(self, values: Iterable[V], rows: Rows) -> Mask:
        """Return which of *rows* have one of *values*."""
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        for value in values:
            code = self.code_of.get(value)
            if code is not None:
                table[code] = True
        chosen: Mask = table[self.codes[rows]]
        return chosen

    def present(self, rows: Rows) -> Mask:
        """Return which of *rows* have a value at all."""
        known: Mask = self.codes[rows] != MISSING
        return known

    def sums(self, amounts: npt.NDArray[np.integer], rows: Rows) -> IntArray:
        """Return for each value the sum of *amounts*, which are by row, over those of *rows*."""
        codes = self.codes[rows]
        known = codes != MISSING
        if not known.all():
            rows, codes = rows[known], codes[known]
        totals = np.bincount(codes, weights=amounts[rows], minlength=len(self.values))
        return totals.astype(np.int64)

    @property
    def is_stale(self) -> bool:
        """Tell whether most of the values remembered belong to nodes that are gone."""
        return len(self.values) > len(self.codes) + _FORGOTTEN_VALUES

    def _code(self, value: V | None) -> int:
        if value is None:
            return MISSING
        code = self.code_of.get(value)
        if code is None:
            code = self.code_of[value] = len(self.values)
            self.values.append(value)
        return code

    def _grow(self, row: int) -> None:
        codes = np.full(max(2 * len(self.codes), row + 1), MISSING, dtype=np.int32)
        codes[: len(self.codes)] = self.codes
        self.codes = codes


class NodeColumns:
    """The columns in use, of labels and of anything else that plugins name."""

    def __init__(self, on_failure: OnFailure) -> None:
        self._columns: OrderedDict[Hashable, NodeColumn[Hashable]] = OrderedDict()
        self._on_failure = on_failure

    def get(
        self, key: Hashable, of: Callable[[NodeInfo], V | None], nodes: Iterable[NodeInfo]
    ) -> NodeColumn[V]:
        """Return the column called *key*; *nodes* and *of* fill it if it does not exist yet."""
        column = self._columns.get(key)
        if column is not None:
            self._columns.move_to_end(key)
            return column  # type: ignore[return-value]
        if len(self._columns) >= MAX_COLUMNS:
            self._columns.popitem(last=False)
        column = self._columns[key] = NodeColumn(of, self._on_failure)
        for node in nodes:
            column.write(node)
        return column  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._columns)

    def write(self, node: NodeInfo) -> None:
        """Take over a new or changed node."""
        for key, column in list(self._columns.items()):
            column.write(node)
            if column.is_stale:
                del self._columns[key]

    def clear(self, row: int) -> None:
        """Forget the node that was at *row*."""
        for column in self._columns.values():
            column.clear(row)
