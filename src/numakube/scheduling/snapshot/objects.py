"""Objects other than nodes and pods that decisions depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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


@dataclass(slots=True)
class ClusterObjects:
    """The latest known objects by key (``namespace/name``, or the name alone).

    Attributes:
        namespace_labels: labels of each namespace, for namespace selectors.
        csi_nodes: by name of the node.
        attachments: by name of the node and then by their own.
        services: by namespace and then by name, because a pod asks for those of its namespace.
    """

    namespace_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    storage_classes: dict[str, StorageClass] = field(default_factory=dict)
    csi_nodes: dict[str, CSINode] = field(default_factory=dict)
    csi_drivers: dict[str, CSIDriver] = field(default_factory=dict)
    csi_capacities: dict[str, CSIStorageCapacity] = field(default_factory=dict)
    attachments: dict[str, dict[str, VolumeAttachment]] = field(default_factory=dict)
    services: dict[str, dict[str, Service]] = field(default_factory=dict)
    replication_controllers: dict[str, ReplicationController] = field(default_factory=dict)
    replica_sets: dict[str, ReplicaSet] = field(default_factory=dict)
    stateful_sets: dict[str, StatefulSet] = field(default_factory=dict)
    disruption_budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
