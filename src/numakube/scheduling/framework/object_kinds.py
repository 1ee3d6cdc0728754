"""The kinds besides nodes, pods and topologies that decisions depend on.

Each row says what the kind is called, where its objects are kept (`ClusterObjects`), as which type,
and what their change may help with. A scheduler watches them, tools read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

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
from numakube.api.workloads import (
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from numakube.scheduling.framework.cluster_events import EventKind

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


POD_GROUP_KINDS: Final = (
    # Beta in 1.37; stable in 1.38 by the milestone of KEP-4671, and a server then has v1 alone.
    _groups("scheduling.k8s.io", "v1beta1", "pod_groups", PodGroup, ("v1beta1", "v1")),
    _groups("scheduling.x-k8s.io", "v1alpha1", "coscheduling_groups", MemberGroup),
    _groups("scheduling.volcano.sh", "v1beta1", "volcano_groups", MemberGroup),
)
"""Groups of pods that run together; only a scheduler watches them."""
