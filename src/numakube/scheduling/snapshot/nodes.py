"""A node with the pods on it, their host ports, and its images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from numakube.api.koordinator.keys import NODE_DECIDING
from numakube.api.pod_resources import is_sidecar
from numakube.values.resources import PODS, amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.values.resources import Amounts


# ------------------------------------------------------------------------------------------------
# Ports of nodes that pods have taken.
#
# A port is taken per protocol and address; the address ``0.0.0.0`` (or none) collides with every
# other. Follows HostPortInfo of kube-scheduler 1.37, but counts: a port taken twice is free when
# both pods are gone.

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104


class HostPort(NamedTuple):
    """A port of a node."""

    protocol: str
    port: int
    address: str

    def collides(self, other: HostPort) -> bool:
        """Tell whether only one of them can be taken."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return ANY_ADDRESS in (self.address, other.address) or self.address == other.address


def host_ports(pod: PodInfo) -> tuple[HostPort, ...]:
    """Return the ports of the node that *pod* takes, those of sidecars first."""
    spec = pod.pod.spec
    if not any(container.ports for container in spec.containers) and not spec.init_containers:
        return ()
    return _host_ports(pod.pod)


def _host_ports(pod: Pod) -> tuple[HostPort, ...]:
    sidecars = (
        init_container for init_container in pod.spec.init_containers if is_sidecar(init_container)
    )
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


class PortTable:
    """Which rows have which ports taken."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def taken(self, wanted: Iterable[HostPort]) -> set[int]:
        """Return the rows where one of the *wanted* ports is taken."""
        found: set[int] = set()
        for want in wanted:
            for row, addresses in self._rows.get((want.protocol, want.port), {}).items():
                if (
                    want.address == ANY_ADDRESS
                    or ANY_ADDRESS in addresses
                    or want.address in addresses
                ):
                    found.add(row)
        return found

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        for port in host_ports(pod):
            rows = self._rows.setdefault((port.protocol, port.port), {})
            addresses = rows.setdefault(row, {})
            addresses[port.address] = addresses.get(port.address, 0) + 1

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        for port in host_ports(pod):
            rows = self._rows[port.protocol, port.port]
            addresses = rows[row]
            addresses[port.address] -= 1
            if not addresses[port.address]:
                del addresses[port.address]
                if not addresses:
                    del rows[row]
                    if not rows:
                        del self._rows[port.protocol, port.port]


# ------------------------------------------------------------------------------------------------
# Which nodes have which container images.
#
# The size of an image is what the first node said that had it, as in kube-scheduler's cache
# (1.37).


class Image:
    """An image and the rows of the nodes that have it."""

    __slots__ = ("_array", "_rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._rows: set[int] = set()
        self._array: Rows | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    @property
    def rows(self) -> Rows:
        """The rows as an array."""
        if self._array is None:
            self._array = np.fromiter(self._rows, dtype=np.intp, count=len(self._rows))
        return self._array

    def add(self, row: int) -> None:
        """Take into account that the node at *row* has it."""
        self._rows.add(row)
        self._array = None

    def discard(self, row: int) -> None:
        """Take into account that the node at *row* has it no more."""
        self._rows.discard(row)
        self._array = None


class ImageTable:
    """All images by name."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._names: dict[int, frozenset[str]] = {}

    def get(self, name: str) -> Image | None:
        """Return the image called *name*, if any node has it."""
        return self._images.get(name)

    def write(self, node: NodeInfo) -> None:
        """Take over the images that *node* has."""
        sizes: dict[str, int] = {}
        for image in node.node.status.images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
        before = self._names.get(node.row, frozenset())
        now = frozenset(sizes)
        if now == before:
            return
        self._forget(node.row, before - now)
        for name in now - before:
            if name not in self._images:
                self._images[name] = Image(sizes[name])
            self._images[name].add(node.row)
        self._names[node.row] = now

    def clear(self, row: int) -> None:
        """Forget the node that was at *row*."""
        self._forget(row, self._names.pop(row, frozenset()))

    def _forget(self, row: int, names: frozenset[str]) -> None:
        for name in names:
            image = self._images[name]
            image.discard(row)
            if not len(image):
                del self._images[name]


# ------------------------------------------------------------------------------------------------
# A node with the pods on it.


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
