"""NodeUnschedulable: cordoned nodes take no pods. Follows kube-scheduler 1.35."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import Taint
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import Filter, VectorFilter
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.matching.taints import NO_SCHEDULE, is_tolerated
from numakube.scheduling.snapshot.pod_equivalence import encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

CORDONED: Final = unresolvable("node(s) were unschedulable")
_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeUnschedulable(Filter, VectorFilter):
    """Cordoned nodes take only pods that tolerate the taint that goes with it."""

    name = "NodeUnschedulable"
    wakes_on = EventKind.NODE_ADDED | EventKind.NODE_UPDATED | EventKind.UNSCHEDULED_POD_UPDATED
    judges_nodes_alone = True

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodeUnschedulable:
        """Return the plugin; it has no arguments."""
        return cls()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a cordoned node."""
        if not node.node.spec.unschedulable or is_tolerated(_TAINT, pod.pod.spec.tolerations):
            return SUCCESS
        return CORDONED

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse cordoned nodes."""
        column = snapshot.column("unschedulable", _cordoned)
        if not column.values:
            return None  # none ever was
        cordoned = column.present(rows)
        if not cordoned.any() or is_tolerated(_TAINT, pod.pod.spec.tolerations):
            return None
        return Verdicts.where(~cordoned, CORDONED)

    def likeness(self, pod: PodInfo) -> bytes:
        """What it tolerates."""
        return encoded(pod.pod.spec.tolerations)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A node must be open, or the pod have become tolerant."""
        if event.kind is EventKind.UNSCHEDULED_POD_UPDATED:
            return is_tolerated(_TAINT, pod.pod.spec.tolerations)
        return event.node_info is None or not event.node_info.node.spec.unschedulable


def _cordoned(node: NodeInfo) -> bool | None:
    return True if node.node.spec.unschedulable else None
