"""The Node and Lease documents that a kubelet writes: registration, status, heartbeats."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from numakube.api.meta import Lease, LeaseSpec, ObjectMeta, OwnerReference
from numakube.kubelet.settings_from_config import allocatable_of, capacity_of
from numakube.values.resources import quantities_of
from numakube.values.times import format_micro_time, format_time

if TYPE_CHECKING:
    from datetime import datetime

    from numakube.api.nodes import Node
    from numakube.values.resources import Amounts
    from numakube_lab.nodes.node_plan import NodePlan

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
class Offer:
    """What a node has, and what of it pods may use."""

    capacity: Amounts
    allocatable: Amounts


def base_offer(plan: NodePlan) -> Offer:
    """Return what a node offers besides devices."""
    machine = plan.machine
    capacity = capacity_of(machine, max_pods=plan.config.max_pods or 110)
    allocatable = allocatable_of(plan.config, machine)
    for resource in machine.devices:
        del capacity[resource], allocatable[resource]
    disk = plan.ephemeral_storage_bytes
    capacity[STORAGE] = disk
    allocatable[STORAGE] = disk * _USABLE_DISK_PERCENT // 100
    return Offer(capacity, allocatable)


def node_document(
    plan: NodePlan, offer: Offer, *, address: str, cidr: str, now: datetime
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


def status_document(offer: Offer, *, conditions: list[Document]) -> Document:
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
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)


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
