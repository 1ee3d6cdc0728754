"""Objects other than nodes and pods that decisions depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube.scheduling.snapshot.grouped import Grouped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.koordinator.devices import DeviceCr
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
        PodDisruptionBudget,
        ReplicaSet,
        ReplicationController,
        Service,
        StatefulSet,
    )


def free_volumes(class_name: str) -> str:
    """Return the group of volumes of a storage class that are for no claim yet."""
    return f"free {class_name}"


def _owner(volume: PersistentVolume) -> str:
    ref = volume.spec.claim_ref
    return free_volumes(volume.class_name) if ref is None else f"{ref.namespace}/{ref.name}"


def _node(attachment: VolumeAttachment) -> str:
    return attachment.spec.node_name


def _namespace(service: Service) -> str:
    return service.metadata.namespace


@dataclass(slots=True)
class ClusterObjects:
    """The latest known objects by key (``namespace/name``, or the name alone).

    Attributes:
        namespace_labels: labels of each namespace, for namespace selectors.
        csi_nodes: by name of the node.
        volumes: also by the claim that they are for (``namespace/name``), or by `free_volumes`.
        attachments: also by node.
        services: also by namespace.
        devices: by name of the node, where Koordinator's agent or somebody else publishes them.
    """

    namespace_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Grouped[PersistentVolume] = field(default_factory=lambda: Grouped(_owner))
    storage_classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    csi_drivers: dict[str, CSIDriver] = field(default_factory=dict)
    csi_capacities: dict[str, CSIStorageCapacity] = field(default_factory=dict)
    attachments: Grouped[VolumeAttachment] = field(default_factory=lambda: Grouped(_node))
    services: Grouped[Service] = field(default_factory=lambda: Grouped(_namespace))
    replication_controllers: dict[str, ReplicationController] = field(default_factory=dict)
    replica_sets: dict[str, ReplicaSet] = field(default_factory=dict)
    stateful_sets: dict[str, StatefulSet] = field(default_factory=dict)
    disruption_budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    devices: dict[str, DeviceCr] = field(default_factory=dict)
