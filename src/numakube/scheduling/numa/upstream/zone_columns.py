"""The zones of the nodes that one decision is about, as columns of the snapshot's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.upstream.reference_zone_filter import is_always_offered, offers

if TYPE_CHECKING:
    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.zone_table import Choice, Small, ZoneTable


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
