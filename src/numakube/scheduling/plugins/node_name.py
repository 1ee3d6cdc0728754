"""NodeName: a pod that names its node goes there. Follows kube-scheduler 1.35."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import Filter, VectorFilter
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

ELSEWHERE: Final = unresolvable("node(s) didn't match the requested node name")


class NodeName(Filter, VectorFilter):
    """The node must be the one that the pod names, if it names one."""

    name = "NodeName"
    wakes_on = EventKind.NODE_ADDED
    judges_nodes_alone = True

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodeName:
        """Return the plugin; it has no arguments."""
        return cls()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse every node but the named one."""
        return SUCCESS if pod.node_name in ("", node.name) else ELSEWHERE

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse every node but the named one."""
        if not pod.node_name:
            return None
        return Verdicts.where(rows == snapshot.row_of.get(pod.node_name, -1), ELSEWHERE)

    def likeness(self, pod: PodInfo) -> str:
        """The node that it names."""
        return pod.node_name

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Only the named node helps."""
        return not event.node or event.node == pod.node_name
