"""The kinds besides nodes, pods and topologies that decisions depend on.

Each row says where objects of a kind are kept (`ClusterObjects`), as which type, and what their
change may help with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from numakube.api.koordinator import devices as koordinator
from numakube.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from numakube.api.workloads import (
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from numakube.kube.resource_types import Resource
from numakube.scheduling.framework.events import EventKind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MirroredKind:
    """One kind.

    Attributes:
        field: the mapping of `ClusterObjects` that holds the objects.
        event: what its changes are told as; ``None`` if they help no pod.
        optional: whether decisions are made without it where the server does not have the kind, or
            where we may not read it.
        of_node: whether each object is about the node with its name.
    """

    resource: Resource[Any]
    field: str
    event: EventKind | None
    optional: bool = False
    of_node: bool = False


def _kind(group: str, plural: str, type_: type[T], *, namespaced: bool) -> Resource[T]:
    version = "v1"
    return Resource(
        group=group,
        version=version,
        plural=plural,
        kind=type_.__name__,
        namespaced=namespaced,
        object_type=type_,
    )


_STORAGE: Final = "storage.k8s.io"
_TOLD: Final = EventKind.STORAGE_CHANGED

NAMESPACES: Final = _kind("", "namespaces", Namespace, namespaced=False)
CLAIMS: Final = _kind("", "persistentvolumeclaims", PersistentVolumeClaim, namespaced=True)
VOLUMES: Final = _kind("", "persistentvolumes", PersistentVolume, namespaced=False)

DEVICES: Final = Resource(
    group=koordinator.GROUP,
    version="v1alpha1",
    plural=koordinator.PLURAL,
    kind=koordinator.KIND,
    namespaced=False,
    object_type=koordinator.DeviceCr,
)

KINDS: Final = (
    MirroredKind(CLAIMS, "claims", _TOLD),
    MirroredKind(VOLUMES, "volumes", _TOLD),
    MirroredKind(
        _kind(_STORAGE, "storageclasses", StorageClass, namespaced=False),
        "storage_classes",
        _TOLD,
    ),
    MirroredKind(_kind(_STORAGE, "csinodes", CSINode, namespaced=False), "csi_nodes", _TOLD),
    MirroredKind(_kind(_STORAGE, "csidrivers", CSIDriver, namespaced=False), "csi_drivers", _TOLD),
    MirroredKind(
        _kind(_STORAGE, "csistoragecapacities", CSIStorageCapacity, namespaced=True),
        "csi_capacities",
        _TOLD,
    ),
    MirroredKind(
        _kind(_STORAGE, "volumeattachments", VolumeAttachment, namespaced=False),
        "attachments",
        _TOLD,
    ),
    MirroredKind(_kind("", "services", Service, namespaced=True), "services", None),
    MirroredKind(
        _kind("", "replicationcontrollers", ReplicationController, namespaced=True),
        "replication_controllers",
        None,
    ),
    MirroredKind(_kind("apps", "replicasets", ReplicaSet, namespaced=True), "replica_sets", None),
    MirroredKind(
        _kind("apps", "statefulsets", StatefulSet, namespaced=True), "stateful_sets", None
    ),
    MirroredKind(
        _kind("policy", "poddisruptionbudgets", PodDisruptionBudget, namespaced=True),
        "disruption_budgets",
        None,
    ),
    MirroredKind(DEVICES, "devices", EventKind.TOPOLOGY_CHANGED, optional=True, of_node=True),
)
