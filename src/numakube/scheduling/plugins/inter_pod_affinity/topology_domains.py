"""Amounts per domain of several topology keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_columns import Column
    from numakube.scheduling.snapshot.nodes import NodeInfo


class DomainAmounts:
    """For each topology key, an amount for each of its domains."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._columns: dict[str, Column[str]] = {}
        self._amounts: dict[str, IntArray] = {}

    def clone(self) -> DomainAmounts:
        """Return an independent copy."""
        copy = DomainAmounts(self._snapshot)
        copy._columns = dict(self._columns)
        copy._amounts = {key: amounts.copy() for key, amounts in self._amounts.items()}
        return copy

    @property
    def is_empty(self) -> bool:
        """Tell whether no domain has any."""
        return not any(amounts.any() for amounts in self._amounts.values())

    @property
    def keys(self) -> Iterable[str]:
        """The topology keys."""
        return self._amounts.keys()

    def add_all(self, key: str, amounts: npt.NDArray[np.integer]) -> None:
        """Add *amounts*, which are by row, to the domains that the nodes are in."""
        self._know(key)
        self._amounts[key] += self._columns[key].sums(amounts, self._snapshot.rows)

    def add(self, key: str, node: NodeInfo, amount: int) -> None:
        """Add *amount* to the domain that *node* is in, if it is in one."""
        self._know(key)
        code = self._code(key, node)
        if code is not None:
            self._amounts[key][code] += amount

    def at(self, key: str, node: NodeInfo) -> int:
        """Return the amount of the domain that *node* is in."""
        code = self._code(key, node)
        return 0 if code is None else int(self._amounts[key][code])

    def at_all(self, key: str, rows: Rows) -> IntArray:
        """Return the same for *rows*."""
        amounts: IntArray = np.append(self._amounts[key], 0)[self._columns[key].codes[rows]]
        return amounts

    def lacking(self, key: str, rows: Rows) -> Mask:
        """Return which of *rows* are in no domain."""
        return ~self._columns[key].present(rows)

    def _know(self, key: str) -> None:
        if key not in self._columns:
            column = self._columns[key] = self._snapshot.label(key)
            self._amounts[key] = np.zeros(len(column.values), dtype=np.int64)

    def _code(self, key: str, node: NodeInfo) -> int | None:
        column = self._columns.get(key)
        value = node.labels.get(key)
        return None if column is None or value is None else column.code_of.get(value)
