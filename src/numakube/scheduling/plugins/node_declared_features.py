"""NodeDeclaredFeatures: a pod goes only to nodes that declare the features it uses.

Kubelets list optional features in ``status.declaredFeatures`` (KEP-5328, on by default since
Kubernetes 1.36). Follows kube-scheduler 1.37, where three of them decide about scheduling; what it
says was compared with it. No version is looked at: kubelets that can run such pods declare it, but
for those of 1.35 with the alpha gate UserNamespacesHostNetworkSupport.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import Filter, VectorFilter
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

UNDECLARED: Final = unresolvable("node(s) didn't match Pod's required features")

RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"


class NodeDeclaredFeatures(Filter, VectorFilter):
    """Nodes must declare every feature that the pod uses."""

    name = "NodeDeclaredFeatures"
    wakes_on = EventKind.NODE_ADDED | EventKind.NODE_UPDATED | EventKind.UNSCHEDULED_POD_UPDATED
    judges_nodes_alone = True

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodeDeclaredFeatures:
        """Return the plugin; it has no arguments."""
        return cls()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that lacks a feature."""
        return SUCCESS if _needed(pod) <= _declared(node) else UNDECLARED

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes that lack a feature."""
        needed = _needed(pod)
        if not needed:
            return None
        column = snapshot.column("declared-features", _declared)
        return Verdicts.where(column.where(lambda has: needed <= (has or set()), rows), UNDECLARED)

    def likeness(self, pod: PodInfo) -> frozenset[str]:
        """What it needs of nodes."""
        return _needed(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A node must declare all of it, or the pod itself have changed."""
        return event.node_info is None or _needed(pod) <= _declared(event.node_info)


def features_of(pod: Pod) -> frozenset[str]:
    """Return the declared features without which a node cannot run *pod*."""
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    uses = {
        RESTART_ALL: any(
            rule.action == "RestartAllContainers"
            for one in containers
            for rule in one.restart_policy_rules
        ),
        USER_NAMESPACES_ON_HOST_NETWORK: spec.host_network and spec.host_users is False,
        BIND_MOUNT_OPTIONS: any(
            mount.bind_mount_options for one in containers for mount in one.volume_mounts
        ),
    }
    return frozenset(name for name, used in uses.items() if used)


def _needed(pod: PodInfo) -> frozenset[str]:
    return pod.memo("declared-features", features_of)


def _declared(node: NodeInfo) -> frozenset[str]:
    return frozenset(node.node.status.declared_features)
