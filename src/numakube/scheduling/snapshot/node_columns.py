"""One property of all nodes, such as the value of a label, as an array of small numbers.

A rule about labels or taints is worked out once for each distinct value and then looked up for all
nodes at once. A column is made when it is first asked for and kept up to date from then on: a node
that changes writes its own row and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.snapshot.nodes import NodeInfo

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


class Column(Generic[V]):
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
        self._columns: OrderedDict[Hashable, Column[Hashable]] = OrderedDict()
        self._on_failure = on_failure

    def get(
        self, key: Hashable, of: Callable[[NodeInfo], V | None], nodes: Iterable[NodeInfo]
    ) -> Column[V]:
        """Return the column called *key*; *nodes* and *of* fill it if it does not exist yet."""
        column = self._columns.get(key)
        if column is not None:
            self._columns.move_to_end(key)
            return column  # type: ignore[return-value]
        if len(self._columns) >= MAX_COLUMNS:
            self._columns.popitem(last=False)
        column = self._columns[key] = Column(of, self._on_failure)
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
