"""A node with the pods on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.koordinator.keys import NODE_DECIDING
from numakube.values.resources import PODS, amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nodes import Node
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.values.resources import Amounts


class NodeInfo:
    """A node as the scheduler sees it.

    Changed in place by `numakube.scheduling.snapshot.cluster.Cluster` only; to try something out,
    change a `clone`.

    Attributes:
        row: its position in the arrays of the snapshot.
        pods: by uid, in the order in which they were seen; assumed pods are among them.
        requested: sum of the pods' requests.
        numa: what is believed to be free in its NUMA zones; ``None`` without any report.
        generation: changes whenever anything here does.
    """

    __slots__ = (
        "allocatable",
        "allowed_pods",
        "generation",
        "name",
        "node",
        "nonzero_cpu_milli",
        "nonzero_memory_bytes",
        "numa",
        "pods",
        "requested",
        "row",
    )

    def __init__(self, node: Node, *, row: int = 0, pods: Iterable[PodInfo] = ()) -> None:
        self.node: Node = node
        self.row = row
        self.generation = 0
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.nonzero_cpu_milli = 0
        self.nonzero_memory_bytes = 0
        self.numa: NumaBelief | None = None
        self._take(node)
        for pod in pods:
            self.add_pod(pod)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name}, {len(self.pods)} pods)"

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the node."""
        return self.node.metadata.labels

    def set_node(self, node: Node) -> bool:
        """Take over a new version of the node; tell whether anything that decides changed."""
        before = self.node
        self.node = node
        if _decides(before) == _decides(node):
            return False
        self._take(node)
        return True

    def _take(self, node: Node) -> None:
        self.node = node
        self.name = node.metadata.name
        self.allocatable: Amounts = amounts_of(node.status.allocatable)
        self.allowed_pods = self.allocatable.get(PODS, 0)

    def add_pod(self, pod: PodInfo) -> None:
        """Put *pod* on the node; a pod with its uid is replaced."""
        self.remove_pod(pod.uid)
        self.pods[pod.uid] = pod
        self._account(pod, 1)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Take the pod with that uid off the node, if it is there."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._account(pod, -1)
        return pod

    def clone(self) -> NodeInfo:
        """Return a what-if copy from which pods can be removed."""
        copy = object.__new__(NodeInfo)
        for name in NodeInfo.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.pods = dict(self.pods)
        copy.requested = dict(self.requested)
        return copy

    def _account(self, pod: PodInfo, sign: int) -> None:
        for name, amount in pod.requests.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        self.nonzero_cpu_milli += sign * pod.nonzero_cpu_milli
        self.nonzero_memory_bytes += sign * pod.nonzero_memory_bytes


def _decides(node: Node) -> tuple[object, ...]:
    """Return what of *node* scheduling depends on; conditions do so only through taints."""
    meta, spec, status = node.metadata, node.spec, node.status
    return (
        meta.uid, meta.labels, spec.taints, spec.unschedulable, status.allocatable, status.images,
        status.declared_features, [meta.annotations.get(key) for key in NODE_DECIDING],
    )  # fmt: skip
