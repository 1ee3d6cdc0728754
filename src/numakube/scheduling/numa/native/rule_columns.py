"""What native mode derives from reports, by row, kept until a report changes.

`RuleColumns` belongs to one `ZoneTable`. Reading a report's rules is Python, so it is done once for
each report; the sums that ``restricted`` compares with are arrays, brought up to date where a
report has changed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.arrays import picked, span
from numakube.scheduling.numa.native.node_counts import Rules, rules_of
from numakube.scheduling.snapshot.equal_rows import EqualRows
from numakube.values.resources import is_memory

if TYPE_CHECKING:
    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.equal_rows import EqualRowsFound
    from numakube.scheduling.snapshot.zone_table import ZoneTable

NO_DATA = 0
"""The kind of nodes without a usable report."""


class RuleColumns:
    """Kinds of nodes and totals of their zones."""

    def __init__(self) -> None:
        self.kind: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """For each row which of `rules` holds; `NO_DATA` for none."""
        self.rules: list[Rules | None] = [None]
        self._numbers: dict[Rules, int] = {}
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
