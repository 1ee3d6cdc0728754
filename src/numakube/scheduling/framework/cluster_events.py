"""What can happen in a cluster that lets a refused pod fit after all, and to which objects.

A plugin that refuses pods says which events may change its mind (`Plugin.wakes_on`) and, given the
event, whether it could for this pod (`Plugin.wakes`). The queue asks only the plugins that refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.koordinator.devices import GROUP as KOORDINATOR
from numakube.api.koordinator.devices import KIND, PLURAL, DeviceCr
from numakube.api.pod_groups import MemberGroup, PodGroup
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, DeviceTaintRule, ResourceSlice
from numakube.api.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from numakube.api.topology_objects import HyperNode, Topology
from numakube.api.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


class EventKind(Flag):
    """Kinds of events; a plugin registers for several by ``|``."""

    POD_ADDED = auto()
    """A pod was bound by anybody (it may satisfy affinity)."""
    POD_UPDATED = auto()
    """A bound pod changed labels or shrank."""
    POD_DELETED = auto()
    """A bound pod is gone or has ended."""
    UNSCHEDULED_POD_UPDATED = auto()
    """The waiting pod itself changed (gates, tolerations, labels, requests)."""
    NODE_ADDED = auto()
    NODE_UPDATED = auto()
    """Allocatable, labels, taints, conditions or ``unschedulable`` changed."""
    NODE_REMOVED = auto()
    """A node is gone, and with it perhaps the emptiest domain that pods are spread over."""
    TOPOLOGY_CHANGED = auto()
    """The NRT of a node changed, or a cache resynced it."""
    STORAGE_CHANGED = auto()
    """A claim, volume, storage class or CSI node changed."""
    CLAIM_CHANGED = auto()
    """A ResourceClaim was created, changed or deleted."""
    DEVICES_CHANGED = auto()
    """A ResourceSlice, DeviceClass or DeviceTaintRule changed."""
    POD_GROUP_CHANGED = auto()
    """A PodGroup was created, changed or deleted."""
    NAMESPACE_CHANGED = auto()
    OTHER = auto()
    """Periodic flush and forced wake-ups."""

    def names(self) -> list[str]:
        """Return the kinds by name, such as ``pod-deleted``."""
        return [kind.name.lower().replace("_", "-") for kind in self if kind.name]

    @classmethod
    def every(cls) -> EventKind:
        """Return all kinds together."""
        return ~cls(0)


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event.

    Attributes:
        node: name of the node it happened on, if it has one.
        node_info: that node as it is now, if it is known.
        pod: the pod that it happened to, as it was before a deletion and after anything else.
        claim: key of the claim that it happened to.
        claim_before: the ResourceClaim as it was, if it was there.
        claim_now: the ResourceClaim as it is, if it is there.
        pod_group: API, namespace and name of the PodGroup that it happened to.
    """

    kind: EventKind
    node: str = ""
    node_info: NodeInfo | None = None
    pod: PodInfo | None = None
    claim: str = ""
    claim_before: ResourceClaim | None = None
    claim_now: ResourceClaim | None = None
    pod_group: tuple[str, str, str] | None = None

    def __str__(self) -> str:
        what = "|".join(self.kind.names())
        about = [f"of {self.pod.key}"] if self.pod is not None else []
        about += [f"of {self.claim}"] if self.claim else []
        about += ["of {1}/{2}".format(*self.pod_group)] if self.pod_group else []
        about += [f"on {self.node}"] if self.node else []
        return " ".join((what, *about))


# ------------------------------------------------------------------------------------------------
# The kinds besides nodes, pods and topologies that decisions depend on.
#
# Each row says what the kind is called, where its objects are kept (`ClusterObjects`), as which
# type, and what their change may help with. A scheduler watches them, tools read them.

DRA: Final = "resource.k8s.io"
"""The group of Dynamic Resource Allocation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKind:
    """One kind.

    Attributes:
        field: the mapping of `ClusterObjects` that holds the objects.
        kind: the name of the kind; that of the type unless given.
        event: the kind of event for its changes; ``None`` if they help no pod.
        optional: whether decisions are made without it where the server does not have the kind, or
            where we may not read it.
        of_node: whether each object is about the node with its name.
        versions: those in which servers have it, the first that is served is read; just *version*
            if there are none.
    """

    plural: str
    field: str
    object_type: type[Any]
    group: str = ""
    version: str = "v1"
    kind: str = ""
    namespaced: bool = False
    event: EventKind | None = None
    optional: bool = False
    of_node: bool = False
    versions: tuple[str, ...] = ()


def _storage(plural: str, field: str, type_: type[Any], *, namespaced: bool = False) -> ObjectKind:
    return ObjectKind(
        group="storage.k8s.io",
        plural=plural,
        field=field,
        object_type=type_,
        namespaced=namespaced,
        event=EventKind.STORAGE_CHANGED,
    )


def _owner(group: str, plural: str, field: str, type_: type[Any]) -> ObjectKind:
    return ObjectKind(group=group, plural=plural, field=field, object_type=type_, namespaced=True)


def _of_devices(plural: str, field: str, type_: type[Any]) -> ObjectKind:
    return ObjectKind(
        group=DRA,
        plural=plural,
        field=field,
        object_type=type_,
        event=EventKind.DEVICES_CHANGED,
        optional=True,
    )


OBJECT_KINDS: Final = (
    ObjectKind(
        plural="persistentvolumeclaims",
        field="claims",
        object_type=PersistentVolumeClaim,
        namespaced=True,
        event=EventKind.STORAGE_CHANGED,
    ),
    ObjectKind(
        plural="persistentvolumes",
        field="volumes",
        object_type=PersistentVolume,
        event=EventKind.STORAGE_CHANGED,
    ),
    _storage("storageclasses", "storage_classes", StorageClass),
    _storage("csinodes", "csi_nodes", CSINode),
    _storage("csidrivers", "csi_drivers", CSIDriver),
    _storage("csistoragecapacities", "csi_capacities", CSIStorageCapacity, namespaced=True),
    _storage("volumeattachments", "attachments", VolumeAttachment),
    _owner("", "services", "services", Service),
    _owner("", "replicationcontrollers", "replication_controllers", ReplicationController),
    _owner("apps", "replicasets", "replica_sets", ReplicaSet),
    _owner("apps", "statefulsets", "stateful_sets", StatefulSet),
    _owner("policy", "poddisruptionbudgets", "disruption_budgets", PodDisruptionBudget),
    ObjectKind(
        group=KOORDINATOR,
        version="v1alpha1",
        kind=KIND,
        plural=PLURAL,
        field="devices",
        object_type=DeviceCr,
        event=EventKind.TOPOLOGY_CHANGED,
        optional=True,
        of_node=True,
    ),
    ObjectKind(
        group=DRA,
        plural="resourceclaims",
        field="resource_claims",
        object_type=ResourceClaim,
        namespaced=True,
        event=EventKind.CLAIM_CHANGED,
        optional=True,
    ),
    _of_devices("resourceslices", "resource_slices", ResourceSlice),
    _of_devices("deviceclasses", "device_classes", DeviceClass),
    _of_devices("devicetaintrules", "device_taint_rules", DeviceTaintRule),
)


def _groups(
    group: str, version: str, field: str, type_: type[Any], versions: tuple[str, ...] = ()
) -> ObjectKind:
    return ObjectKind(
        group=group,
        version=version,
        versions=versions,
        kind="PodGroup",
        plural="podgroups",
        field=field,
        object_type=type_,
        namespaced=True,
        event=EventKind.POD_GROUP_CHANGED,
        optional=True,
    )


def _topologies(group: str, field: str, versions: tuple[str, ...]) -> ObjectKind:
    return ObjectKind(
        group=group,
        version=versions[0],
        versions=versions if len(versions) > 1 else (),
        plural="topologies",
        field=field,
        object_type=Topology,
        event=EventKind.OTHER,
        optional=True,
    )


POD_GROUP_KINDS: Final = (
    # Beta in 1.37; stable in 1.38 by the milestone of KEP-4671, and a server then has v1 alone.
    _groups("scheduling.k8s.io", "v1beta1", "pod_groups", PodGroup, ("v1beta1", "v1")),
    _groups("scheduling.x-k8s.io", "v1alpha1", "coscheduling_groups", MemberGroup),
    _groups("scheduling.volcano.sh", "v1beta1", "volcano_groups", MemberGroup),
    _topologies("kueue.x-k8s.io", "topologies", ("v1beta2", "v1beta1", "v1alpha1")),
    _topologies("kai.scheduler", "kai_topologies", ("v1alpha1",)),
    ObjectKind(
        group="topology.volcano.sh",
        version="v1alpha1",
        plural="hypernodes",
        field="hyper_nodes",
        object_type=HyperNode,
        event=EventKind.OTHER,
        optional=True,
    ),
)
"""Groups of pods that run together, and levels of the network; only a scheduler watches them."""
