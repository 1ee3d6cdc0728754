"""VolumeRestrictions and VolumeZone: which pods and nodes may use a volume that exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.storage_objects import READ_WRITE_ONCE_POD, WAIT_FOR_FIRST_CONSUMER
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import Filter, PreFilter, PreFilterResult
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable
from numakube.scheduling.plugins.volumes.volume_claims import (
    claim_not_found,
    uses_claim,
    volume_likeness,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Volume
    from numakube.api.storage_objects import PersistentVolume, PersistentVolumeClaim
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


DISK_IN_USE: Final = unschedulable("node(s) had no available disk")
CLAIM_IN_USE: Final = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)


@dataclass(slots=True)
class _Exclusive:
    """Claims of the pod that no other pod may use, and how many uses there are."""

    claims: frozenset[str]
    uses: int

    def clone(self) -> _Exclusive:
        return _Exclusive(self.claims, self.uses)

    def change(self, pod: PodInfo, other: PodInfo, delta: int) -> None:
        if other.namespace == pod.namespace:
            self.uses += delta * sum(name in self.claims for name in _claim_names(other))


_STATE: Final = StateKey[_Exclusive]("VolumeRestrictions")


class VolumeRestrictions(PreFilter, Filter):
    """A disk that only one node may write, or a claim for one pod, must be free."""

    name = "VolumeRestrictions"
    wakes_on = EventKind.POD_DELETED | EventKind.NODE_ADDED | EventKind.STORAGE_CHANGED

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> VolumeRestrictions:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Refuse a pod whose claim is missing; skip one whose volumes can be shared."""
        volumes = pod.pod.spec.volumes
        if not volumes:
            return PreFilterResult(SKIP)
        exclusive = _exclusive_claims(pod, snapshot.objects)
        if isinstance(exclusive, Status):
            return PreFilterResult(exclusive)
        users = snapshot.pods.claims
        uses = sum(users.is_used(f"{pod.namespace}/{name}") for name in exclusive)
        if not uses and not any(map(_is_disk, volumes)):
            return PreFilterResult(SKIP)
        state.write(_STATE, _Exclusive(exclusive, uses))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count its uses."""
        known = state.read(_STATE)
        if known is not None:
            known.change(pod, added, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take its uses off."""
        known = state.read(_STATE)
        if known is not None:
            known.change(pod, removed, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node where a disk is in use, and any while a claim for one pod is."""
        disks = [volume for volume in pod.pod.spec.volumes if _is_disk(volume)]
        if disks and any(_disks_collide(disks, other) for other in node.pods.values()):
            return DISK_IN_USE
        known = state.read(_STATE)
        return CLAIM_IN_USE if known is not None and known.uses > 0 else SUCCESS

    def likeness(self, pod: PodInfo) -> bytes:
        """Its volumes."""
        return volume_likeness(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A deleted pod must have used the same disk or claim."""
        if event.kind is EventKind.STORAGE_CHANGED and event.claim:
            return event.claim in {f"{pod.namespace}/{name}" for name in _claim_names(pod)}
        gone = event.pod
        if event.kind is not EventKind.POD_DELETED or gone is None:
            return True
        if gone.namespace != pod.namespace:
            return False
        disks = [volume for volume in pod.pod.spec.volumes if _is_disk(volume)]
        return _disks_collide(disks, gone) or bool(_claim_names(pod) & _claim_names(gone))


def _exclusive_claims(pod: PodInfo, objects: ClusterObjects) -> frozenset[str] | Status:
    found = set()
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        name = volume.persistent_volume_claim.claim_name
        claim = objects.claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            return unresolvable(claim_not_found(name))
        if READ_WRITE_ONCE_POD in claim.spec.access_modes:
            found.add(name)
    return frozenset(found)


def _claim_names(pod: PodInfo) -> frozenset[str]:
    claims = (volume.persistent_volume_claim for volume in pod.pod.spec.volumes)
    return frozenset(claim.claim_name for claim in claims if claim is not None)


def _is_disk(volume: Volume) -> bool:
    return bool(
        volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.rbd or volume.iscsi
    )


def _disks_collide(disks: list[Volume], other: PodInfo) -> bool:
    volumes = other.pod.spec.volumes
    return any(_collide(mine, theirs) for mine in disks for theirs in volumes)


def _collide(one: Volume, other: Volume) -> bool:
    return _gce(one, other) or _aws(one, other) or _iscsi(one, other) or _rbd(one, other)


def _gce(one: Volume, other: Volume) -> bool:
    a, b = one.gce_persistent_disk, other.gce_persistent_disk
    if a is None or b is None:
        return False
    return a.pd_name == b.pd_name and not (a.read_only and b.read_only)


def _aws(one: Volume, other: Volume) -> bool:
    a, b = one.aws_elastic_block_store, other.aws_elastic_block_store
    return a is not None and b is not None and a.volume_id == b.volume_id


def _iscsi(one: Volume, other: Volume) -> bool:
    a, b = one.iscsi, other.iscsi
    if a is None or b is None:
        return False
    return a.iqn == b.iqn and not (a.read_only and b.read_only)


def _rbd(one: Volume, other: Volume) -> bool:
    a, b = one.rbd, other.rbd
    if a is None or b is None:
        return False
    same = (a.pool, a.image) == (b.pool, b.image) and not set(a.monitors).isdisjoint(b.monitors)
    return same and not (a.read_only and b.read_only)


# ------------------------------------------------------------------------------------------------
# VolumeZone: a volume with zone labels is reached only from nodes of its zones.

WRONG_ZONE: Final = unresolvable("node(s) had no available volume zone")

_CURRENT: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_ZONE_LABELS: Final = (*_CURRENT, *_CURRENT.values())
_BETWEEN_ZONES: Final = "__"
"""Separates the zones of a volume that is in several."""

_ZONES: Final = StateKey[list[tuple[str, frozenset[str]]]]("VolumeZone")


class VolumeZone(PreFilter, Filter):
    """The node must be in a zone of every bound volume."""

    name = "VolumeZone"
    wakes_on = EventKind.STORAGE_CHANGED | EventKind.NODE_ADDED | EventKind.NODE_UPDATED

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> VolumeZone:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Collect the zones of bound volumes; skip a pod whose volumes have none."""
        zones: list[tuple[str, frozenset[str]]] = []
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            found = _zones(
                pod.namespace, volume.persistent_volume_claim.claim_name, snapshot.objects
            )
            if isinstance(found, Status):
                return PreFilterResult(found)
            zones += found
        if not zones:
            return PreFilterResult(SKIP)
        state.write(_ZONES, zones)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that is known to be in another zone."""
        labels = node.labels
        if not any(label in labels for label in _ZONE_LABELS):
            return SUCCESS
        for key, values in state.read(_ZONES) or ():
            value = labels.get(key, labels.get(_CURRENT.get(key, key)))
            if value is None or value not in values:
                return WRONG_ZONE
        return SUCCESS

    def likeness(self, pod: PodInfo) -> bytes:
        """Its volumes."""
        return volume_likeness(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A claim that changed must be one of the pod's."""
        if event.kind is EventKind.STORAGE_CHANGED and event.claim:
            return uses_claim(pod, event.claim)
        return True


def _zones(
    namespace: str, name: str, objects: ClusterObjects
) -> list[tuple[str, frozenset[str]]] | Status:
    if not name:
        return unresolvable("PersistentVolumeClaim had no name")
    claim = objects.claims.get(f"{namespace}/{name}")
    if claim is None:
        return unresolvable(claim_not_found(name))
    if not claim.spec.volume_name:
        return _unbound(claim, objects)
    volume = objects.volumes.get(claim.spec.volume_name)
    if volume is None:
        return unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
    return _zones_of(volume)


def _unbound(
    claim: PersistentVolumeClaim, objects: ClusterObjects
) -> list[tuple[str, frozenset[str]]] | Status:
    name = claim.class_name
    if not name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    found = objects.storage_classes.get(name)
    if found is None:
        return unresolvable(f'storageclass.storage.k8s.io "{name}" not found')
    if found.volume_binding_mode is None:
        return unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
    if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return []
    return unresolvable("PersistentVolume had no name")


def _zones_of(volume: PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    found = []
    for key in _ZONE_LABELS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        zones = frozenset(zone.strip() for zone in value.split(_BETWEEN_ZONES))
        if "" not in zones:
            found.append((key, zones))
    return found
