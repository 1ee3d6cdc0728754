"""The NUMA nodes of a machine as the Topology Manager ranks them.

*Fitter* is the kubelet's order on masks: fewer nodes first, then, with
``prefer-closest-numa-nodes``, the smaller average distance, then the smaller number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.values.numamask import NumaMask, mask_of, nodes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kubelet.machine import Machine


@dataclass(frozen=True, slots=True)
class NumaInfo:
    """All NUMA nodes, also those without CPUs or memory, with their distances."""

    nodes: tuple[int, ...]
    everywhere: NumaMask
    distances: Mapping[int, Mapping[int, int]]
    closest: bool = False

    @classmethod
    def of(cls, machine: Machine, *, closest: bool = False) -> NumaInfo:
        """Read the nodes of *machine*; *closest* makes distances count."""
        ids = tuple(node.id for node in machine.nodes)
        distances = {node.id: _by_id(node.distances, ids) for node in machine.nodes}
        return cls(nodes=ids, everywhere=mask_of(ids), distances=distances, closest=closest)

    def fitness(self, mask: NumaMask) -> tuple[int, int, int]:
        """Return the key whose minimum is the fittest mask."""
        return mask.bit_count(), self.total_distance(mask) if self.closest else 0, mask

    def total_distance(self, mask: NumaMask) -> int:
        """Return the sum over all ordered pairs; for masks of one size it orders as the average."""
        nodes = nodes_of(mask)
        return sum(self.distances[one].get(other, 0) for one in nodes for other in nodes)

    def between(self, one: int, other: int) -> int:
        """Return the distance there and back."""
        return self.distances[one].get(other, 0) + self.distances[other].get(one, 0)


def _by_id(row: tuple[int, ...], ids: tuple[int, ...]) -> Mapping[int, int]:
    """Return a row of distances by node id.

    The kubelet indexes the row by id. The kernel lists the nodes in ascending order without gaps,
    so that ids with holes run over its end and crash the kubelet; there the position is meant.
    """
    if len(row) > max(ids, default=0):
        return dict(enumerate(row))
    return dict(zip(sorted(ids), row, strict=False))
