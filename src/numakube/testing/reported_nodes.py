"""What the Go plugin NodeResourceTopologyMatch knows of a node: its report, as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.topology.topology_view import NodeTopology, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.values.resources import Amounts

STRATEGIES: Final = ("BalancedAllocation", "LeastAllocated", "LeastNUMANodes", "MostAllocated")


@dataclass(frozen=True, slots=True)
class Reported:
    """Belief in a report as it is, which is what the Go plugin's passthrough cache has."""

    nrt: NodeResourceTopology
    topology: NodeTopology | None
    available: tuple[Amounts, ...]
    blocked: str = ""

    def model(self) -> KubeletNode | None:
        """Return nothing: the Go plugin has counts only."""
        return None

    def without(self, uids: Iterable[str]) -> Reported:
        """Return the same: the places of the pods are unknown."""
        return self


def reported(nrt: NodeResourceTopology) -> Reported:
    """Return the belief in *nrt*; also in one that only the Go plugin can use."""
    view = view_of(nrt)
    topology = view if isinstance(view, NodeTopology) else None
    return Reported(nrt, topology, tuple(z.available for z in topology.zones) if topology else ())
