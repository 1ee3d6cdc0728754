"""NodePorts: a port of a node serves one pod. Follows kube-scheduler 1.35."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import (
    Filter,
    PreFilter,
    PreFilterResult,
    VectorFilter,
)
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status, unschedulable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.snapshot.host_ports import HostPort, host_ports

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

TAKEN: Final = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(PreFilter, Filter, VectorFilter):
    """The ports that the pod wants of the node must be free."""

    name = "NodePorts"
    wakes_on = EventKind.POD_DELETED | EventKind.NODE_ADDED
    judges_nodes_alone = True

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodePorts:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Skip a pod that wants no port of the node."""
        return PreFilterResult() if host_ports(pod) else PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node on which a pod has a port that is wanted."""
        wanted = host_ports(pod)
        if any(_collide(wanted, host_ports(other)) for other in node.pods.values()):
            return TAKEN
        return SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes on which a pod has a port that is wanted."""
        taken = snapshot.pods.ports.taken(host_ports(pod))
        if not taken:
            return None
        return Verdicts.where(~np.isin(rows, list(taken)), TAKEN)

    def likeness(self, pod: PodInfo) -> tuple[HostPort, ...]:
        """The ports that it takes."""
        return host_ports(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A deleted pod must have had a port that is wanted."""
        if event.kind is not EventKind.POD_DELETED or event.pod is None:
            return True
        return _collide(host_ports(pod), host_ports(event.pod))


def _collide(wanted: Iterable[HostPort], held: tuple[HostPort, ...]) -> bool:
    return bool(held) and any(want.collides(other) for want in wanted for other in held)
