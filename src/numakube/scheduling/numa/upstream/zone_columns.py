"""The zones of the nodes that one decision is about, as columns of the snapshot's tables.

Columns are right only for rows that say exactly what the Go plugin reads from the NRT; `Regularity`
knows the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.upstream.plugin_inputs import read
from numakube.scheduling.numa.upstream.reference_zone_verdicts import is_always_offered, offers
from numakube.scheduling.snapshot.zone_table import UNKNOWN_DISTANCE
from numakube.values.resources import CPU
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.numa.upstream.plugin_inputs import NumaZone, Reading
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.scheduling.snapshot.zone_table import Choice, Small, ZoneTable
    from numakube.topology.topology_view import NodeTopology, ZoneView
    from numakube.values.quantity import Quantity
    from numakube.values.resources import Amounts


class ZoneColumns:
    """What the tables hold for some rows; arrays have a column for each, in their order."""

    def __init__(self, snapshot: Snapshot, rows: Rows) -> None:
        self.snapshot = snapshot
        self.rows = rows
        self.zones: ZoneTable = snapshot.zones
        # All nodes of a cluster usually stand side by side, and a slice copies nothing.
        self._index = _run(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, positions: Rows) -> ZoneColumns:
        """Return the columns at *positions* of these."""
        return (
            self
            if len(positions) == len(self)
            else ZoneColumns(self.snapshot, self.rows[positions])
        )

    @property
    def policy(self) -> Choice:
        """`TopologyPolicy.code` of each node."""
        return self.zones.policy[self._index]

    @property
    def scope(self) -> Choice:
        """`TopologyScope.code` of each node."""
        return self.zones.scope[self._index]

    @property
    def blocked(self) -> Mask:
        """Whether the node's data is in doubt."""
        return self.zones.blocked[self._index]

    @property
    def max_zones(self) -> Small:
        """How many zones the node's kubelet accepts."""
        return self.zones.max_zones[self._index]

    @property
    def shape(self) -> npt.NDArray[np.int32]:
        """Number of the node's `ZoneShape`."""
        return self.zones.shape[self._index]

    @property
    def present(self) -> Mask:
        """Where there are zones."""
        return self.zones.present[:, self._index]

    def available(self, resource: str) -> IntArray:
        """Return what is free of *resource*, by zone."""
        return self.zones.available(resource)[:, self._index]

    def reports(self, resource: str) -> Mask:
        """Return which zones name *resource*."""
        return self.zones.reports(resource)[:, self._index]

    def offers(self, resource: str) -> Mask | None:
        """Return which nodes offer *resource* at all; ``None`` if every node does."""
        if is_always_offered(resource):
            return None

        def find(snapshot: Snapshot) -> Mask:
            every = (node is not None and offers(node, resource) for node in snapshot.by_row)
            return np.fromiter(every, dtype=np.bool_, count=len(snapshot.by_row))

        return self.snapshot.derived(("upstream-offers", resource), find)[self._index]


def _run(rows: Rows) -> Rows | slice:
    """Return *rows* as a slice if they follow each other."""
    if not len(rows):
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1 and bool((rows[1:] > rows[:-1]).all()):
        return slice(first, last + 1)
    return rows


# ------------------------------------------------------------------------------------------------
# Which rows of the zone table say exactly what the Go plugin reads from the NRT.
#
# The zone table holds our reading: it sorts zones, forgives names, mends odd amounts. For a plain
# NRT both readings agree, and the vectorised forms apply. The others are left to the reference. A
# row is looked at once for each report.

_LARGEST_AMOUNT: Final = 2**49
"""Larger amounts are left to the reference: sums and products with them are not exact."""
_LARGEST_COST: Final = 2**15 - 1


class _LookedAt:
    """What was found out about the rows of one table."""

    def __init__(self) -> None:
        self.revision = np.zeros(0, dtype=np.int64)
        self.odd = np.zeros(0, dtype=np.bool_)
        self.shifted = np.zeros(0, dtype=np.bool_)

    def grow(self, room: int) -> None:
        """Make room for that many rows."""
        more = room - len(self.revision)
        if more > 0:
            self.revision = np.pad(self.revision, (0, more))
            self.odd = np.pad(self.odd, (0, more))
            self.shifted = np.pad(self.shifted, (0, more))


class Regularity:
    """Finds out about rows, and remembers it for as long as their reports last."""

    def __init__(self) -> None:
        self._tables: WeakKeyDictionary[ZoneTable, _LookedAt] = WeakKeyDictionary()

    def odd(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return which of *rows* the Go plugin reads differently."""
        return self._update(snapshot, rows).odd[rows]

    def odd_or_shifted(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return which of *rows* it reads differently, or has ids that are not positions."""
        known = self._update(snapshot, rows)
        return known.odd[rows] | known.shifted[rows]

    def _update(self, snapshot: Snapshot, rows: Rows) -> _LookedAt:
        table = snapshot.zones
        known = self._tables.setdefault(table, _LookedAt())
        known.grow(table.room)
        revision = table.revision[rows]
        changed = np.flatnonzero(known.revision[rows] != revision)
        for position in changed:
            row = int(rows[position])
            known.odd[row], known.shifted[row] = _look_at(snapshot.at(row).numa)
            known.revision[row] = revision[position]
        return known


def _look_at(belief: NumaBelief | None) -> tuple[bool, bool]:
    """Tell whether the report is read differently, and whether ids are not positions."""
    if belief is None:
        return False, False
    reading, topology = read(belief.nrt), belief.topology
    if reading is None or topology is None:
        return True, True
    ids = [zone.id for zone in reading.zones]
    same = _same_manager(reading, topology) and sorted(ids) == [z.id for z in topology.zones]
    by_id = {zone.id: zone for zone in reading.zones}
    same = same and all(
        _same_zone(by_id[zone.id], zone, available, ids)
        for zone, available in zip(topology.zones, belief.available, strict=True)
    )
    return not same, ids != list(range(len(ids)))


def _same_manager(reading: Reading, topology: NodeTopology) -> bool:
    manager = reading.manager
    return (
        manager.is_single_numa_node == (topology.policy is TopologyPolicy.SINGLE_NUMA_NODE)
        and manager.scope == topology.scope
        and manager.max_numa_nodes == topology.max_numa_nodes
    )


def _same_zone(theirs: NumaZone, ours: ZoneView, available: Amounts, ids: list[int]) -> bool:
    return (
        theirs.available.keys() == available.keys()
        and all(_is(name, q, available[name]) for name, q in theirs.available.items())
        and _same_costs(theirs.costs, ours.costs, ids)
    )


def _is(name: str, quantity: Quantity, amount: int) -> bool:
    """Tell whether *amount* base units are exactly *quantity*, and few enough."""
    exponent = quantity.exponent + (3 if name == CPU else 0)
    if exponent >= 0:
        exact = quantity.unscaled * 10**exponent == amount
    else:
        exact = quantity.unscaled == amount * 10**-exponent
    return exact and 0 <= amount <= _LARGEST_AMOUNT


def _same_costs(theirs: Mapping[int, int], ours: Mapping[int, int], ids: list[int]) -> bool:
    costs = [theirs.get(to, UNKNOWN_DISTANCE) for to in ids]
    return costs == [ours.get(to, UNKNOWN_DISTANCE) for to in ids] and (
        max(map(abs, costs)) <= _LARGEST_COST
    )
