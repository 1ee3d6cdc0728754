"""What pods hold by their annotations, as `numakube.topology.allotments` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.topology.allotments import Allotment, ZoneRoom
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.read_node import facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.topology.topology_view import NodeTopology


class AnnotationReader:
    """Reads Koordinator's annotations, and KAI's."""

    def allotment_of(self, pod: Pod) -> Allotment | None:
        """Return what *pod* holds; what cannot be read counts as not said."""
        return allotment_of(pod, [])

    def room_on(
        self,
        node: Node,
        report: NodeResourceTopology | None,
        view: NodeTopology,
        held: Mapping[str, Allotment],
    ) -> Mapping[int, ZoneRoom]:
        """Return the room in each zone of *node* by the ledger of its pods, without devices."""
        ledger = NodeLedger.of(facts_of(node, report, view, None), held)
        totals = ledger.capacity.totals
        return {zone: ZoneRoom(totals[zone], free) for zone, free in ledger.free_zones.items()}


READER: Final = AnnotationReader()
