"""Nodes of one kind side by side: the arrays that the vectorised decision works on.

All nodes have the same number of zones and the same rules. Nodes that follow each other in the
table without a gap are views; others are copies, made for the resources in question only.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.arrays import span
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.numa.native.node_counts import Distances
    from numakube.scheduling.numa.native.pod_wants import Parts
    from numakube.scheduling.numa.native.rule_columns import RuleColumns
    from numakube.scheduling.snapshot.zone_table import ZoneTable


class NodeBatch:
    """Nodes of one *kind* (a number of the columns); ``rows`` says which, ascending."""

    def __init__(
        self, table: ZoneTable, columns: RuleColumns, rows: Rows, kind: int, *, idle: bool = False
    ) -> None:
        rules = columns.rules[kind]
        self.rows = rows
        self.size = len(rows)
        self.zones = rules.zones if rules is not None else 0
        self._kind = kind
        self._idle = idle
        self._table = table
        self._columns = columns
        self._at = span(rows)
        self._free: dict[str, IntArray] = {}
        self._together: dict[str, IntArray] = {}
        self._totals: dict[str, IntArray] = {}
        self._allocatable: dict[str, IntArray] = {}
        self._holding: dict[Parts, Mask] = {}

    @cached_property
    def index(self) -> Rows:
        """The positions of all nodes."""
        return np.arange(self.size, dtype=np.intp)

    def part(self, positions: Rows) -> NodeBatch:
        """Return some of the nodes, by ascending position."""
        if len(positions) == self.size:
            return self
        rows = self.rows[positions]
        return NodeBatch(self._table, self._columns, rows, self._kind, idle=self._idle)

    def idle(self) -> NodeBatch:
        """Return the nodes as if nothing ran on them."""
        return NodeBatch(self._table, self._columns, self.rows, self._kind, idle=True)

    def free(self, name: str) -> IntArray:
        """Return ``(zones, nodes)``: what is free."""
        if name not in self._free:
            table = self._table
            amounts = table.allocatable(name) if self._idle else table.available(name)
            self._free[name] = self._pick(amounts)
        return self._free[name]

    def together(self, name: str) -> IntArray:
        """Return what is free in all zones of each node together."""
        if name not in self._together:
            self._together[name] = self.free(name).sum(axis=0)
        return self._together[name]

    def holding(self, parts: Parts) -> Mask:
        """Return ``(zones, nodes)``: whether a zone has all of *parts* free; not to be changed."""
        if parts not in self._holding:
            self._holding[parts] = _holding(parts, self.free)
        return self._holding[parts]

    def totals(self, name: str) -> IntArray:
        """Return ``(zones, nodes)``: what there is when nothing runs."""
        if name not in self._totals:
            self._totals[name] = self._pick(self._columns.totals(self._table, name))
        return self._totals[name]

    def largest(self, name: str, count: int) -> IntArray:
        """Return what the *count* largest zones of each node have together when nothing runs."""
        amounts: IntArray = self._columns.largest(self._table, name)[count - 1]
        return amounts[self._at]

    def allocatable(self, name: str) -> IntArray:
        """Return ``(zones, nodes)``: what pods may use."""
        if name not in self._allocatable:
            self._allocatable[name] = self._pick(self._table.allocatable(name))
        return self._allocatable[name]

    def least(self, name: str) -> list[int]:
        """Return what pods may use at least of each zone, whichever node of the kind it is."""
        return self._columns.least(self._table, name, self._kind, self.zones)[0]

    def cells(self, place: Rows, at: Rows | slice = slice(None)) -> Rows:
        """Return where in the table the zones at *place* are, of the nodes *at* some positions.

        For `free_at` and its like.
        """
        cells: Rows = place * self._table.room
        cells += self.rows[at]
        return cells

    def free_at(self, name: str, cells: Rows) -> IntArray:
        """Return what is free in one zone of each node."""
        return self._table.available(name).reshape(-1).take(cells)

    def common(self, names: Sequence[str]) -> IntArray | None:
        """Return ``(resources, 1, 1)``: what pods may use of every zone; ``None`` if it differs."""
        least = self._columns.least
        common = [least(self._table, name, self._kind, self.zones)[1] for name in names]
        return np.array(common)[:, np.newaxis, np.newaxis] if all(common) else None

    def allocatable_at(self, name: str, cells: Rows) -> IntArray:
        """Return what pods may use in one zone of each node."""
        return self._table.allocatable(name).reshape(-1).take(cells)

    def distance(self, one: int, other: int) -> IntArray:
        """Return how far two zones are apart on each node."""
        distance: IntArray = self._table.distance[one, other].take(self.rows).astype(np.int64)
        return distance

    def rated(
        self, sets: IntArray, rate: Callable[[tuple[int, ...], Distances], float]
    ) -> npt.NDArray[np.float64]:
        """Rate the sets of zones of each node; sets that are alike are rated once."""
        rates = np.empty(sets.shape)
        shapes = self._table.shape.take(self.rows)
        for shape in set(shapes.tolist()):
            distances = self._table.shape_at(shape).distances
            alike = shapes == shape
            masks, which = np.unique(sets[:, alike], return_inverse=True)
            # Sixty-four zones fill the number, sign included.
            positions = [nodes_of(mask & ((1 << self.zones) - 1)) for mask in masks.tolist()]
            rated = np.array([rate(one, distances) for one in positions])
            rates[:, alike] = rated[which].reshape(len(sets), -1)
        return rates

    def _pick(self, array: IntArray) -> IntArray:
        if isinstance(self._at, slice):
            view: IntArray = array[: self.zones, self._at]
            return view
        return array[: self.zones].take(self._at, axis=1)


def _holding(parts: Parts, amounts: Callable[[str], IntArray]) -> Mask:
    """Return ``(zones, nodes)``: whether a zone has all of *parts*."""
    (name, wanted), *others = parts
    ok = amounts(name) >= wanted
    for name, wanted in others:
        ok &= amounts(name) >= wanted
    return ok


def lowest(ok: Mask) -> tuple[Mask, Rows]:
    """Return for each node whether any zone is *ok*, and the position of the lowest (else 0)."""
    # The largest of descending weights is the first that holds; much faster than argmax.
    best = np.maximum.reduce(np.multiply(ok.view(np.uint8), _weights(len(ok))), axis=0)
    found = best > 0
    np.subtract(len(ok), best, out=best)
    best *= found
    return found, best.astype(np.intp)


@lru_cache(maxsize=64)
def _weights(count: int) -> npt.NDArray[np.unsignedinteger]:
    """Return numbers from *count* down to 1; there are more sets of zones than fit a byte."""
    return np.arange(count, 0, -1, dtype=np.min_scalar_type(count))[:, np.newaxis]
