"""Objects other than nodes and pods that decisions depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import ValuesView

    from numakube.api.koordinator.devices import DeviceCr
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

T = TypeVar("T")

_NONE: Final[Mapping[str, object]] = MappingProxyType({})


class Grouped(MutableMapping[str, T], Generic[T]):
    """Objects by key, and by group, such as the services of a namespace."""

    def __init__(self, group_of: Callable[[T], str]) -> None:
        self._group_of = group_of
        self._objects: dict[str, T] = {}
        self._groups: dict[str, dict[str, T]] = {}

    def group(self, name: str) -> Mapping[str, T]:
        """Return the objects of one group by key."""
        return self._groups.get(name) or _NONE  # type: ignore[return-value]

    def __getitem__(self, key: str) -> T:
        return self._objects[key]

    def __setitem__(self, key: str, value: T) -> None:
        if key in self._objects:
            del self[key]
        self._objects[key] = value
        self._groups.setdefault(self._group_of(value), {})[key] = value

    def __delitem__(self, key: str) -> None:
        name = self._group_of(self._objects.pop(key))
        del self._groups[name][key]
        if not self._groups[name]:
            del self._groups[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)


class ObjectChanges:
    """The keys of objects that have changed since their follower last took them.

    Attributes:
        followed: the objects.
    """

    def __init__(self, followed: Followed[T]) -> None:
        self.followed: Followed[T] = followed
        self._keys = set(followed)

    def add(self, key: str) -> None:
        """Note that an object has changed."""
        self._keys.add(key)

    def take(self) -> set[str]:
        """Return the keys, and begin again with none."""
        keys, self._keys = self._keys, set()
        return keys


class Followed(MutableMapping[str, T], Generic[T]):
    """Objects by key, of which followers learn which ones have changed.

    Attributes:
        version: another one after every change.
    """

    def __init__(self, objects: Mapping[str, T] = MappingProxyType({})) -> None:
        self.version = 0
        self._objects: dict[str, T] = dict(objects)
        self._followers: WeakSet[ObjectChanges] = WeakSet()

    def follow(self) -> ObjectChanges:
        """Return what tells of changes from now on, and at first of all objects."""
        changes = ObjectChanges(self)
        self._followers.add(changes)
        return changes

    def _changed(self, key: str) -> None:
        self.version += 1
        for follower in self._followers:
            follower.add(key)

    def __getitem__(self, key: str) -> T:
        return self._objects[key]

    def __setitem__(self, key: str, value: T) -> None:
        self._objects[key] = value
        self._changed(key)

    def __delitem__(self, key: str) -> None:
        del self._objects[key]
        self._changed(key)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def values(self) -> ValuesView[T]:
        """Return the objects."""
        return self._objects.values()


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
        topologies: what Kueue knows of levels of the network; KAI has its own.
        hyper_nodes: domains of the network as Volcano has them, by tier.
        devices: by name of the node, where Koordinator's or another agent publishes them.
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
    resource_claims: Followed[ResourceClaim] = field(default_factory=Followed)
    resource_slices: Followed[ResourceSlice] = field(default_factory=Followed)
    device_classes: Followed[DeviceClass] = field(default_factory=Followed)
    device_taint_rules: Followed[DeviceTaintRule] = field(default_factory=Followed)
    pod_groups: dict[str, PodGroup] = field(default_factory=dict)
    coscheduling_groups: dict[str, MemberGroup] = field(default_factory=dict)
    volcano_groups: dict[str, MemberGroup] = field(default_factory=dict)
    topologies: dict[str, Topology] = field(default_factory=dict)
    kai_topologies: dict[str, Topology] = field(default_factory=dict)
    hyper_nodes: Followed[HyperNode] = field(default_factory=Followed)
