"""Pods on one NUMA node and pods across several, and whether they keep away from each other.

A pod across several nodes slows down a pod that expects one of them for itself. With ``Required`` a
pod therefore takes neither a single node that a pod across several uses, nor a set of nodes of
which another pod uses one alone. With ``Preferred`` such places come last among those of their
size. Pods that run in shared pools count like those with CPUs of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_values import Exclusive
from numakube.koordinator.ledger.node_ledger import NumaStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.numamask import NumaMask


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who is on which NUMA nodes already: holders of one node, and holders of several."""

    single: NumaMask = 0
    shared: NumaMask = 0

    @classmethod
    def of(cls, status: Mapping[int, NumaStatus]) -> Neighbours:
        """Return the neighbours that a node's status tells of."""
        return cls(_mask(status, NumaStatus.SINGLE), _mask(status, NumaStatus.SHARED))

    def are_disturbed(self, mask: NumaMask) -> bool:
        """Tell whether a pod on *mask* and those that are there would disturb each other."""
        return bool(mask & (self.shared if mask.bit_count() == 1 else self.single))

    def allow(self, mask: NumaMask, exclusive: Exclusive) -> bool:
        """Tell whether *mask* is a place for a pod that is *exclusive*."""
        return exclusive is not Exclusive.REQUIRED or not self.are_disturbed(mask)

    def spoil(self, mask: NumaMask, exclusive: Exclusive) -> bool:
        """Tell whether *mask* comes last for a pod that would rather be *exclusive*."""
        return exclusive is Exclusive.PREFERRED and self.are_disturbed(mask)


NOBODY: Final = Neighbours()
"""On an idle node."""


def _mask(status: Mapping[int, NumaStatus], wanted: NumaStatus) -> NumaMask:
    return sum(1 << zone for zone, is_now in status.items() if is_now is wanted)
