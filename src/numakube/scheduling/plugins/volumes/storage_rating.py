"""Rating of nodes by how much of their storage the claims of a pod would use.

Follows StorageCapacityScoring of kube-scheduler 1.37, where it is on by default. Volumes that exist
count with their size; if no claim takes one of those, volumes that would be made count with the
capacity that the CSI driver reports. Storage classes have the same weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.plugins.allocation_scores import RequestedToCapacityRatio
from numakube.scheduling.plugins.volumes.volume_search import capacity_of
from numakube.values.quantity import value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.scheduling.plugins.plugin_arguments import UtilizationShapePoint
    from numakube.scheduling.plugins.volumes.volume_search import Finder, NodeVolumes
    from numakube.scheduling.snapshot.nodes import NodeInfo

Usage = dict[str, tuple[int, int]]
"""By storage class: how many bytes there are, and how many of them are requested."""


class StorageRating:
    """Rates nodes along a broken line from the used share to the score."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._line = RequestedToCapacityRatio((), shape)

    def of(self, finder: Finder, node: NodeInfo) -> int:
        """Return the mean over the storage classes; 0 if no capacity is known."""
        found = finder.find(node)
        if not found.status.ok:
            return 0
        usage = _of_matches(found) if found.matches else _of_new(found, finder, node)
        total = sum(self._worth(*amounts) for amounts in usage.values())
        return self._line.mean(total, len(usage)) if usage else 0

    def _worth(self, capacity: int, requested: int) -> int:
        # Nothing to take from is as bad as full.
        return self._line.worth(capacity, requested) if capacity else self._line.worth(0, 1)


def _of_matches(found: NodeVolumes) -> Usage:
    usage: Usage = {}
    for match in found.matches:
        capacity, requested = usage.get(match.claim.class_name, (0, 0))
        usage[match.claim.class_name] = (
            capacity + capacity_of(match.volume),
            requested + value(match.claim.requested),
        )
    return usage


def _of_new(found: NodeVolumes, finder: Finder, node: NodeInfo) -> Usage:
    usage: Usage = {}
    for claim in found.to_make:
        room = finder.room_for(claim, node.labels)
        if room is not None and room.capacity is not None:
            _, requested = usage.get(claim.class_name, (0, 0))
            # Volumes of one class share the capacity, so it is not added up.
            usage[claim.class_name] = value(room.capacity), requested + value(claim.requested)
    return usage
