"""VolumeZone: a volume with zone labels is reached only from nodes of its zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.storage_objects import WAIT_FOR_FIRST_CONSUMER
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import Filter, PreFilter, PreFilterResult
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status, unresolvable
from numakube.scheduling.plugins.volumes.volume_claims import (
    claim_not_found,
    uses_claim,
    volume_likeness,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.storage_objects import PersistentVolume, PersistentVolumeClaim
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

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
