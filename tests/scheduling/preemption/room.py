"""Nodes full of pods, and filters as plain as they can be."""

from __future__ import annotations

from collections.abc import Iterable

from tests.scheduling.numa.caches.reported_node import ReportedNode, taken

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.pod import Pod
from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS, Status, unschedulable
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import GPU, bound


class PlainFilters:
    """The fit of the node as a whole, and the kubelet model or one zone by counts."""

    def __init__(self) -> None:
        self.asked = 0

    def admits(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Judge *node*."""
        del state
        self.asked += 1
        for name, wanted in pod.requests.items():
            if node.requested.get(name, 0) + wanted > node.allocatable.get(name, 0):
                return unschedulable(f"Insufficient {name}")
        if len(node.pods) >= node.allowed_pods:
            return unschedulable("Too many pods")
        return _numa(pod, node)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put *added* on *node*."""
        del state, pod
        node.add_pod(added)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take *removed* off *node*."""
        del state, pod
        node.remove_pod(removed.uid)


def _numa(pod: PodInfo, node: NodeInfo) -> Status:
    if node.numa is None:
        return SUCCESS
    model = node.numa.model()
    if model is not None:
        refused = isinstance(model.clone().admit(pod.pod), Rejected)
        return unschedulable("cannot align pod") if refused else SUCCESS
    for free in node.numa.available:
        if all(free.get(name, 0) >= wanted for name, wanted in pod.requests.items()):
            return SUCCESS
    return unschedulable("cannot align pod")


def node_object(name: str, cpus: int = 15, memory_gib: int = 31, gpus: int = 4) -> Node:
    """A node as large as the machine of `ReportedNode`."""
    allocatable = {"cpu": str(cpus), "memory": f"{memory_gib}Gi", GPU: str(gpus), "pods": "20"}
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=allocatable))


def full_node(
    cluster: Cluster, pods: Iterable[Pod], *, name: str = "n1", site: ReportedNode | None = None
) -> NodeInfo:
    """Add a node on which *pods* run, with a report of *site* if it has one."""
    cluster.set_node(node_object(name))
    cache = Predict()
    for pod in pods:
        running = taken(bound(pod, name))
        if site is not None:
            assert site.admit(running)
        cluster.place(PodInfo(running), name)
        cache.pod_seen(PodInfo(running))
    if site is not None:
        cache.set_report(site.report())
        cluster.suppose(name, cache.belief(name))
    node = cluster.node(name)
    assert node is not None
    return node
