"""Nodes of one kind side by side, and the columns that they are taken from.

All nodes have the same number of zones and the same rules. Nodes that follow each other in the
table without a gap are views; others are copies, made for the resources in question only.
"""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.arrays import picked, span
from numakube.scheduling.numa.native.node_counts import NodeRules, rules_of
from numakube.scheduling.snapshot.node_resources import EqualRows
from numakube.values.numamask import nodes_of
from numakube.values.resources import is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.numa.native.node_counts import Distances
    from numakube.scheduling.numa.native.pod_wants import Parts
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_resources import EqualRowsFound
    from numakube.scheduling.snapshot.zone_table import ZoneTable


# ------------------------------------------------------------------------------------------------
# What native mode derives from reports, by row, kept until a report changes.
#
# `RuleColumns` belongs to one `ZoneTable`. Reading a report's rules is Python, so it is done once
# for each report; the sums that ``restricted`` compares with are arrays, brought up to date where
# a report has changed.

NO_DATA = 0
"""The kind of nodes without a usable report."""


class RuleColumns:
    """Kinds of nodes and totals of their zones."""

    def __init__(self) -> None:
        self.kind: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """For each row which of `rules` holds; `NO_DATA` for none."""
        self.rules: list[NodeRules | None] = [None]
        self._numbers: dict[NodeRules, int] = {}
        self._seen: IntArray = np.zeros(0, dtype=np.int64)
        self._revisions = -1
        self._totals: dict[str, _Totals] = {}
        self._equal = EqualRows()

    def update(self, snapshot: Snapshot) -> None:
        """Read the reports that have changed."""
        if self._revisions == snapshot.zones.revisions:
            return
        self._revisions = snapshot.zones.revisions
        revision = snapshot.zones.revision
        if len(self._seen) != len(revision):
            more = len(revision) - len(self._seen)
            self._seen = np.pad(self._seen, (0, more))
            self.kind = np.pad(self.kind, (0, more))
        changed = np.flatnonzero(self._seen != revision)
        for row in changed.tolist():
            self.kind[row] = self._kind_at(snapshot, row)
        self._seen[changed] = revision[changed]

    def equal(self, zones: ZoneTable, rows: Rows) -> EqualRowsFound | None:
        """Return which of *rows* are in the same state; see `EqualRows`."""
        return self._equal.find(zones.changes, rows, partial(self._numbers_at, zones))

    def connected(self, rows: Rows) -> Rows:
        """Return the positions of those of *rows* that say how their devices are connected."""
        by_kind = [rules is not None and rules.connected for rules in self.rules]
        if True not in by_kind:
            return np.zeros(0, dtype=np.intp)
        return np.array(by_kind).take(picked(self.kind, rows)).nonzero()[0]

    def totals(self, zones: ZoneTable, name: str) -> IntArray:
        """Return ``(zones, nodes)``: what zones have of a resource when nothing runs."""
        return self._totals_of(zones, name).amounts

    def largest(self, zones: ZoneTable, name: str) -> IntArray:
        """Return ``(count - 1, nodes)``: what the *count* largest zones have together."""
        return self._totals_of(zones, name).largest

    def least(self, zones: ZoneTable, name: str, kind: int, count: int) -> tuple[list[int], int]:
        """Return what pods may use at least of each of *count* zones on any node of a kind.

        Along with it comes what they may use of every zone of every such node, 0 if it differs.
        """
        known = self._totals_of(zones, name)
        if kind not in known.least:
            members = zones.allocatable(name)[:count, np.flatnonzero(self.kind == kind)]
            least, most = members.min(axis=1).tolist(), int(members.max())
            known.least[kind] = least, most if min(least) == most else 0
        return known.least[kind]

    def _numbers_at(self, zones: ZoneTable, rows: Rows) -> IntArray:
        """Return for each of *rows* a column of all numbers that decisions about it depend on."""
        at = span(rows)
        # A blocked node is refused for a reason of its own, which is not a number.
        apart = np.where(zones.blocked[at], rows, -1)
        by_zone = [
            amounts(name)[:, at]
            for name in zones.resources()
            for amounts in (zones.available, zones.allocatable, zones.capacity)
        ]
        distance = zones.distance.reshape(-1, zones.room)[:, at]
        return np.concatenate([*by_zone, distance, self.kind[np.newaxis, at], apart[np.newaxis]])

    def _totals_of(self, zones: ZoneTable, name: str) -> _Totals:
        known = self._totals.get(name)
        if known is None:
            known = self._totals[name] = _Totals()
        known.update(zones, name)
        return known

    def _kind_at(self, snapshot: Snapshot, row: int) -> int:
        node = snapshot.by_row[row]
        topology = node.numa.topology if node is not None and node.numa is not None else None
        if topology is None:
            return NO_DATA
        try:
            rules = rules_of(topology)
        except Exception as error:
            # It would be raised again for every pod, whatever node that is meant for.
            snapshot.set_aside(topology.node, error)
            return NO_DATA
        number = self._numbers.setdefault(rules, len(self.rules))
        if number == len(self.rules):
            self.rules.append(rules)
        return number


class _Totals:
    """The totals of one resource and the reports that they were computed from."""

    def __init__(self) -> None:
        self.amounts: IntArray = np.zeros((0, 0), dtype=np.int64)
        self.largest: IntArray = self.amounts
        self.least: dict[int, tuple[list[int], int]] = {}
        self._seen: IntArray = np.zeros(0, dtype=np.int64)
        self._revisions = -1

    def update(self, zones: ZoneTable, name: str) -> None:
        if self._revisions == zones.revisions:
            return
        self._revisions = zones.revisions
        allocatable = zones.allocatable(name)
        if self.amounts.shape != allocatable.shape:
            self.amounts = np.zeros(allocatable.shape, dtype=np.int64)
            self.largest = np.zeros(allocatable.shape, dtype=np.int64)
            self._seen = np.full(allocatable.shape[1], -1, dtype=np.int64)
        rows: Rows = np.flatnonzero(self._seen != zones.revision)
        if not rows.size:
            return
        self.least.clear()
        fresh = allocatable[:, rows]
        if not is_memory(name):
            fresh = np.maximum(fresh, zones.capacity(name)[:, rows])
        self.amounts[:, rows] = fresh
        self.largest[:, rows] = np.sort(fresh, axis=0)[::-1].cumsum(axis=0)
        self._seen[rows] = zones.revision[rows]


# ------------------------------------------------------------------------------------------------
# Nodes of one kind side by side: the arrays that the vectorised decision works on.


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
            rated = np.array([rate(position, distances) for position in positions])
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
