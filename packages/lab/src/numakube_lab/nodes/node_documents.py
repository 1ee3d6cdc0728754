"""The Node and Lease documents that a kubelet writes: registration, status, heartbeats.

Addresses of nodes and pods. Nothing listens on them; they tell pods and nodes apart. Nodes are
numbered from 0. Node *n* is 172.16.0.2 + n and gives its pods addresses of a /24 of its own
within 10.128.0.0/9, which makes room for 32,768 nodes of 253 pods.

What a lab node is to be: its machine, its kubelet's configuration, its place in the cluster.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.meta import Lease, LeaseSpec, ObjectMeta, OwnerReference
from numakube.errors import ConfigError
from numakube.kubelet import DEFAULT, allocatable_of, capacity_of
from numakube.values.resources import quantities_of
from numakube.values.times import format_micro_time, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.nodes import Node
    from numakube.kubelet import Device, Machine
    from numakube.values.resources import Amounts


Document: TypeAlias = dict[str, Any]

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
STORAGE: Final = "ephemeral-storage"
_KUBELET_PORT: Final = 10250
# The kubelet keeps this much of the disk from pods: its default eviction threshold is 10 %.
_USABLE_DISK_PERCENT: Final = 90

_PRESSURES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY: Final = ("Ready", "KubeletReady", "kubelet is posting ready status")


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What a node has, and what of it pods may use."""

    capacity: Amounts
    allocatable: Amounts


def base_offer(plan: NodePlan) -> NodeOffer:
    """Return what a node offers besides devices."""
    machine = plan.machine
    capacity = capacity_of(machine, max_pods=plan.config.max_pods or 110)
    allocatable = allocatable_of(plan.config, machine)
    for resource in machine.devices:
        del capacity[resource], allocatable[resource]
    disk = plan.ephemeral_storage_bytes
    capacity[STORAGE] = disk
    allocatable[STORAGE] = disk * _USABLE_DISK_PERCENT // 100
    return NodeOffer(capacity, allocatable)


def node_document(
    plan: NodePlan, offer: NodeOffer, *, address: str, cidr: str, now: datetime
) -> Document:
    """Return the Node object that the kubelet registers."""
    return {
        "metadata": {
            "name": plan.name,
            "labels": node_labels(plan),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {
            "podCIDR": cidr,
            "podCIDRs": [cidr],
            "taints": [msgspec.to_builtins(taint) for taint in plan.taints],
            **({"unschedulable": True} if plan.unschedulable else {}),
        },
        "status": {
            **status_document(offer, conditions=conditions(now=now, since=now)),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": plan.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": _KUBELET_PORT}},
            "nodeInfo": node_info(plan),
            "runtimeHandlers": runtime_handlers(),
            "images": [],
        },
    }


def node_labels(plan: NodePlan) -> dict[str, str]:
    """Return the labels of a node: its own and those that every node has."""
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": plan.name,
        "kubernetes.io/os": "linux",
        **plan.labels,
    }


def node_info(plan: NodePlan) -> Document:
    """Return the versions and ids of the node's software; the ids follow from the name."""
    id_ = hashlib.sha256(plan.name.encode()).hexdigest()
    uuid = f"{id_[:8]}-{id_[8:12]}-{id_[12:16]}-{id_[16:20]}-{id_[20:32]}"
    return {
        "machineID": id_[:32],
        "systemUUID": uuid,
        "bootID": uuid,
        "kernelVersion": "6.12.0-numakube",
        "osImage": "numakube lab",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kubeletVersion": plan.kubelet_version,
        # Required by the API, and empty since 1.31.
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def runtime_handlers() -> list[Document]:
    """Return what RuntimeClasses may name: the default handler, which has no name, and runc."""
    features = {"recursiveReadOnlyMounts": True, "userNamespaces": True}
    return [{"name": name, "features": features} for name in ("", "runc")]


def status_document(offer: NodeOffer, *, conditions: list[Document]) -> Document:
    """Return the part of the status that changes."""
    return {
        "capacity": quantities_of(offer.capacity),
        "allocatable": quantities_of(offer.allocatable),
        "conditions": conditions,
    }


def conditions(*, now: datetime, since: datetime | None = None) -> list[Document]:
    """Return the conditions of a healthy node; with *since*, as of a node that just got healthy."""
    rows = [(*pressure, "False") for pressure in _PRESSURES] + [(*_READY, "True")]
    changed = {} if since is None else {"lastTransitionTime": format_time(since)}
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": format_time(now),
            **changed,
        }
        for kind, reason, message, status in rows
    ]


def is_ready(node: Node) -> bool:
    """Tell whether the API says that the node is healthy."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in node.status.conditions
    )


def lease_of(plan: NodePlan, *, node_uid: str, now: datetime, seconds: int) -> Lease:
    """Return the lease by which a node says that it is alive."""
    return Lease(
        metadata=ObjectMeta(
            name=plan.name,
            namespace=LEASE_NAMESPACE,
            owner_references=(
                OwnerReference(api_version="v1", kind="Node", name=plan.name, uid=node_uid),
            ),
        ),
        spec=LeaseSpec(
            holder_identity=plan.name,
            lease_duration_seconds=seconds,
            renew_time=format_micro_time(now),
        ),
    )


def renewal(*, now: datetime, seconds: int) -> Document:
    """Return the merge patch that renews a lease."""
    return {"spec": {"renewTime": format_micro_time(now), "leaseDurationSeconds": seconds}}


_FIRST_HOST: Final = IPv4Address("172.16.0.2")
_PODS: Final = IPv4Address("10.128.0.0")
_BLOCK: Final = 256
MAX_NODES: Final = 32768
# Network address, the node's own bridge and the broadcast address are not given out.
_FIRST_POD: Final = 2
_LAST_POD: Final = _BLOCK - 2


class NodeAddresses:
    """The addresses of one node."""

    def __init__(self, number: int) -> None:
        if not 0 <= number < MAX_NODES:
            raise ConfigError(f"node number {number}: a lab has addresses for {MAX_NODES} nodes")
        self._base = int(_PODS) + number * _BLOCK
        self.host = str(_FIRST_HOST + number)
        self.cidr = str(IPv4Network((self._base, 24)))
        self._next = _FIRST_POD
        self._taken: dict[str, str] = {}
        self._used: set[str] = set()

    def pod(self, uid: str, *, wanted: str = "") -> str:
        """Return the address of a pod; the one it has or *wanted* before a restart, if given."""
        held = self._taken.get(uid)
        if held is not None:
            return held
        address = wanted if wanted and wanted not in self._used else self._free()
        self._taken[uid] = address
        self._used.add(address)
        return address

    def release(self, uid: str) -> None:
        """Take a pod's address back; unknown uids are fine."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._used.discard(address)

    def _free(self) -> str:
        """Return the next unused address, round-robin so that none is reused at once."""
        for _ in range(_BLOCK):
            offset, self._next = self._next, self._next + 1
            if self._next > _LAST_POD:
                self._next = _FIRST_POD
            address = str(IPv4Address(self._base + offset))
            if address not in self._used:
                return address
        raise ConfigError(f"no address left for another pod in {self.cidr}")


STORAGE_BYTES: Final = 100 << 30
"""The size of a node's disk by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """A node to be.

    Attributes:
        name: its name, unique in the cluster.
        machine: the machine; its devices are announced as if their plugins ran already.
        config: the kubelet's configuration.
        kubernetes: the kubelet's version, such as ``1.35``.
        labels: labels besides those that every node has.
        taints: taints that it registers with.
        unschedulable: whether it is cordoned from the start.
        ephemeral_storage_bytes: size of its disk.
        cgroup_version: of its control groups, 1 or 2.
        claimable: devices by the resource that they would be of a device plugin, which DRA drivers
            offer to claims instead.
        virtual_functions: how many a network card on each NUMA node has, in the node's fake sysfs;
            with 0 there are no cards.
    """

    name: str
    machine: Machine
    config: KubeletConfiguration = field(default_factory=KubeletConfiguration)
    kubernetes: str = DEFAULT
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ephemeral_storage_bytes: int = STORAGE_BYTES
    cgroup_version: int = 2
    claimable: Mapping[str, tuple[Device, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    virtual_functions: int = 0

    @property
    def kubelet_version(self) -> str:
        """The version as a kubelet reports it: with a ``v`` and a patch number."""
        version = self.kubernetes.removeprefix("v")
        return f"v{version}" if version.count(".") > 1 else f"v{version}.0"

    def with_claimable(self, *resources: str) -> NodePlan:
        """Return the plan of a node whose devices of these *resources* are for claims.

        Raises:
            ConfigError: the machine has no such devices.
        """
        if not resources:
            return self  # equal nodes go on sharing their machine
        plugins = dict(self.machine.devices)
        for resource in resources:
            if resource not in plugins:
                known = ", ".join(plugins) or "no devices"
                raise ConfigError(f"{self.name} has no {resource}: its machine has {known}")
        claimable = {resource: plugins.pop(resource) for resource in resources}
        return replace(self, machine=replace(self.machine, devices=plugins), claimable=claimable)
