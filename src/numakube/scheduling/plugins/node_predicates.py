"""The filters about the node itself: its name, ports, taints, cordon and declared features.

`NodeName`, `NodePorts`, `NodeUnschedulable`, `TaintToleration` and `NodeDeclaredFeatures`, with the
verdicts and scores of kube-scheduler 1.37.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.affinity_and_taints import Taint
from numakube.scheduling.arrays import uniform
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Filter,
    NormalizesScores,
    PreFilter,
    PreFilterResult,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    Verdicts,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.matching import (
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    is_tolerated,
    keeps_away,
    taint_sets,
)
from numakube.scheduling.snapshot.nodes import HostPort, host_ports
from numakube.scheduling.snapshot.pod_equivalence import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.affinity_and_taints import Toleration
    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import IntArray, Rows
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


# ------------------------------------------------------------------------------------------------
# NodePorts: a port of a node serves one pod. Follows kube-scheduler 1.37.

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


# ------------------------------------------------------------------------------------------------
# NodeUnschedulable: cordoned nodes take no pods. Follows kube-scheduler 1.37.

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


# ------------------------------------------------------------------------------------------------
# TaintToleration: taints keep pods away unless tolerated. Follows kube-scheduler 1.37.

TAINTED: Final = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration(Filter, VectorFilter, Score, VectorScore, NormalizesScores):
    """Nodes with fewer taints that merely discourage the pod score higher."""

    name = "TaintToleration"
    wakes_on = EventKind.NODE_ADDED | EventKind.NODE_UPDATED | EventKind.UNSCHEDULED_POD_UPDATED
    judges_nodes_alone = True

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> TaintToleration:
        """Return the plugin; it has no arguments."""
        return cls()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node with a taint that forbids the pod."""
        away = keeps_away(node.node.spec.taints, pod.pod.spec.tolerations)
        return TAINTED if away else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes with a taint that forbids the pod."""
        column = taint_sets(snapshot)
        if not column.values:
            return None
        tolerations = pod.pod.spec.tolerations
        ok = column.where(lambda taints: not keeps_away(taints or (), tolerations), rows)
        return None if ok.all() else Verdicts.where(ok, TAINTED)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Count the taints that discourage the pod."""
        return _discouraging(node.node.spec.taints, _relevant(pod))

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Count the taints that discourage the pod."""
        column = taint_sets(snapshot)
        if not column.values:
            return uniform(0, len(rows))
        tolerations = _relevant(pod)
        counts = [_discouraging(taints, tolerations) for taints in column.values]
        if not any(counts):
            return uniform(0, len(rows))
        table = np.array([*counts, 0], dtype=np.int64)
        scores: IntArray = table[column.codes[rows]]
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Fewer is better."""
        return _share_below_largest(scores)

    def likeness(self, pod: PodInfo) -> bytes:
        """What it tolerates."""
        return encoded(pod.pod.spec.tolerations)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A node must be without forbidding taints, or the pod itself have changed."""
        if event.kind is EventKind.UNSCHEDULED_POD_UPDATED or event.node_info is None:
            return True
        return not keeps_away(event.node_info.node.spec.taints, pod.pod.spec.tolerations)


def _relevant(pod: PodInfo) -> tuple[Toleration, ...]:
    return tuple(t for t in pod.pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))


def _discouraging(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> int:
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations)
        for taint in taints
    )


def _share_below_largest(scores: IntArray) -> IntArray:
    """Return how far each of *scores*, which count what is bad, lies below the largest."""
    largest = int(scores.max(initial=0))
    if not largest:
        return np.full_like(scores, MAX_NODE_SCORE)
    return MAX_NODE_SCORE - MAX_NODE_SCORE * scores // largest


# ------------------------------------------------------------------------------------------------
# NodeDeclaredFeatures: a pod goes only to nodes that declare the features it uses.
#
# Kubelets list optional features in ``status.declaredFeatures`` (KEP-5328, on by default since
# Kubernetes 1.36). Follows kube-scheduler 1.37, where three of them decide about scheduling; what
# it says was compared with it. No version is looked at: kubelets that can run such pods declare
# it, but for those of 1.35 with the alpha gate UserNamespacesHostNetworkSupport.

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
            for container in containers
            for rule in container.restart_policy_rules
        ),
        USER_NAMESPACES_ON_HOST_NETWORK: spec.host_network and spec.host_users is False,
        BIND_MOUNT_OPTIONS: any(
            mount.bind_mount_options
            for container in containers
            for mount in container.volume_mounts
        ),
    }
    return frozenset(name for name, used in uses.items() if used)


def _needed(pod: PodInfo) -> frozenset[str]:
    return pod.memo("declared-features", features_of)


def _declared(node: NodeInfo) -> frozenset[str]:
    return frozenset(node.node.status.declared_features)
