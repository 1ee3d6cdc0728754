"""NodeVolumeLimits: a node can attach only so many volumes of a CSI driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import Filter, PreFilter, PreFilterResult, VectorFilter
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.plugins.volumes.volume_claims import (
    claim_uses,
    ownership_problem,
    uses_claim,
    volume_likeness,
)
from numakube.scheduling.snapshot.pod_indexes import attachable_volumes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Volume
    from numakube.api.storage_objects import CSINode, PersistentVolume, PersistentVolumeClaim
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# Which CSI driver attaches a volume; in-tree volumes of clouds go to the driver that took over.

_MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

GCE: Final = "kubernetes.io/gce-pd"
AWS: Final = "kubernetes.io/aws-ebs"
AZURE: Final = "kubernetes.io/azure-disk"
CINDER: Final = "kubernetes.io/cinder"
PORTWORX: Final = "kubernetes.io/portworx-volume"

_DRIVER_OF: Final = {
    GCE: "pd.csi.storage.gke.io",
    AWS: "ebs.csi.aws.com",
    AZURE: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
_NEVER_MIGRATED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})


@dataclass(frozen=True, slots=True)
class Attachable:
    """A volume that is attached to nodes.

    Attributes:
        in_tree: the old plugin that it is written for; empty for a volume of a CSI driver.
    """

    driver: str
    handle: str
    in_tree: str = ""

    @property
    def unique_name(self) -> str:
        """Names the volume among those of all drivers."""
        return f"{self.driver}/{self.handle}"


def is_migrated(in_tree: str, csi_node: CSINode) -> bool:
    """Tell whether a CSI driver does the work of an in-tree plugin on that node."""
    if in_tree != PORTWORX:
        return True
    return PORTWORX in csi_node.metadata.annotations.get(_MIGRATED_PLUGINS, "").split(",")


def inline_volume(volume: Volume) -> Attachable | None:
    """Return what is attached for a disk that a pod names itself."""
    if volume.gce_persistent_disk is not None:
        return Attachable(_DRIVER_OF[GCE], volume.gce_persistent_disk.pd_name, GCE)
    if volume.aws_elastic_block_store is not None:
        handle = volume.aws_elastic_block_store.volume_id.rpartition("/")[2]
        return Attachable(_DRIVER_OF[AWS], handle, AWS)
    return None


def attached_volume(claim: PersistentVolumeClaim, objects: ClusterObjects) -> Attachable | None:
    """Return what is attached for a claim, by its volume or by the class it will come from."""
    volume = objects.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        return _to_be_made(claim, objects)
    if volume.spec.csi is not None:
        csi = volume.spec.csi
        return Attachable(csi.driver, csi.volume_handle) if csi.volume_handle else None
    return _in_tree(volume)


def _to_be_made(claim: PersistentVolumeClaim, objects: ClusterObjects) -> Attachable | None:
    found = objects.storage_classes.get(claim.class_name)
    if found is None or not found.provisioner or found.provisioner in _NEVER_MIGRATED:
        return None
    # No volume can have this handle; two claims never share one.
    handle = f"to be made for {claim.metadata.key}"
    if found.provisioner in _DRIVER_OF:
        return Attachable(_DRIVER_OF[found.provisioner], handle, found.provisioner)
    return Attachable(found.provisioner, handle)


def _in_tree(volume: PersistentVolume) -> Attachable | None:
    spec = volume.spec
    found = (
        (GCE, spec.gce_persistent_disk.pd_name if spec.gce_persistent_disk else ""),
        (AWS, spec.aws_elastic_block_store.volume_id if spec.aws_elastic_block_store else ""),
        (AZURE, spec.azure_disk.disk_uri if spec.azure_disk else ""),
        (CINDER, spec.cinder.volume_id if spec.cinder else ""),
        (PORTWORX, spec.portworx_volume.volume_id if spec.portworx_volume else ""),
    )
    for plugin, handle in found:
        if handle:
            return Attachable(_DRIVER_OF[plugin], handle.rpartition("/")[2], plugin)
    return None


# ------------------------------------------------------------------------------------------------
# NodeVolumeLimits: a node can attach only so many volumes of a CSI driver.

_NO_LIMIT: Final = 1 << 31
TOO_MANY: Final = unschedulable("node(s) exceed max volume count")


@dataclass(frozen=True, slots=True)
class _WantedVolumes:
    """What the pod wants attached, or why that is unknown, and where the rest is looked up."""

    volumes: tuple[Attachable, ...] | Status
    objects: ClusterObjects


_STATE: Final = StateKey[_WantedVolumes]("NodeVolumeLimits")


class NodeVolumeLimits(PreFilter, Filter, VectorFilter):
    """The volumes on the node, and the pod's, must not exceed the drivers' limits."""

    name = "NodeVolumeLimits"
    wakes_on = EventKind.POD_DELETED | EventKind.NODE_ADDED | EventKind.STORAGE_CHANGED

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodeVolumeLimits:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Skip a pod without volumes that are attached."""
        if not attachable_volumes(pod):
            return PreFilterResult(SKIP)
        objects = snapshot.objects
        state.write(_STATE, _WantedVolumes(_volumes(pod, objects, is_new=True), objects))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node on which a driver would have too many volumes."""
        known = state.read(_STATE)
        if known is None:
            return SUCCESS
        if isinstance(known.volumes, Status):
            return known.volumes
        csi_node = known.objects.csi_nodes.get(node.name)
        if csi_node is None:
            return SUCCESS
        limits = _limits(csi_node)
        wanted = _attached(known.volumes, csi_node)
        if not any(driver in limits for driver in wanted.values()):
            return SUCCESS
        held = _held(node, csi_node, known.objects)
        if isinstance(held, Status):
            return held
        new = {volume: driver for volume, driver in wanted.items() if volume not in held}
        held |= _attachments(node.name, known.objects)
        return TOO_MANY if _exceeds(limits, held, new) else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes on which a driver would have too many volumes; count where it is close."""
        known = state.read(_STATE)
        if known is None:
            return None
        if isinstance(known.volumes, Status):
            return Verdicts.where(np.zeros(len(rows), dtype=np.bool_), known.volumes)
        drivers = {volume.driver for volume in known.volumes}
        objects, slots, wanted = known.objects, snapshot.pods.slots, len(known.volumes)

        def judge(row: int) -> Status:
            node = snapshot.at(row)
            csi_node = objects.csi_nodes.get(node.name)
            if csi_node is None:
                return SUCCESS
            room = _smallest_limit(csi_node, drivers) - slots.at(row) - wanted
            if room >= 0 and room >= len(objects.attachments.group(node.name)):
                return SUCCESS
            return self.filter(state, pod, node)

        verdicts = Verdicts.each(rows, judge)
        return None if verdicts.ok.all() else verdicts

    def likeness(self, pod: PodInfo) -> bytes:
        """Its volumes."""
        return volume_likeness(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A deleted pod must have had volumes, a claim that changed be the pod's."""
        if event.kind is EventKind.POD_DELETED and event.pod is not None:
            return attachable_volumes(event.pod) > 0
        if event.kind is EventKind.STORAGE_CHANGED and event.claim:
            return uses_claim(pod, event.claim)
        return True


def _volumes(
    pod: PodInfo, objects: ClusterObjects, *, is_new: bool
) -> tuple[Attachable, ...] | Status:
    """Return what *pod* wants attached; claims of a running pod that are gone do not matter."""
    if not pod.pod.spec.volumes:
        return ()
    found = []
    for use in claim_uses(pod):
        claim = objects.claims.get(use.key)
        if claim is None:
            if is_new:
                text = f'looking up PVC {use.key}: persistentvolumeclaim "{use.name}" not found'
                return unresolvable(text)
            continue
        problem = ownership_problem(pod, claim) if use.is_ephemeral else ""
        if problem:
            return failure(problem)
        found.append(attached_volume(claim, objects))
    inline = (inline_volume(volume) for volume in pod.pod.spec.volumes)
    return tuple(one for one in (*found, *inline) if one is not None)


def _limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _smallest_limit(csi_node: CSINode, drivers: set[str]) -> int:
    """Return the smallest limit of those *drivers* that have one on the node."""
    limits = _limits(csi_node)
    return min((limits[driver] for driver in drivers & limits.keys()), default=_NO_LIMIT)


def _attached(volumes: tuple[Attachable, ...], csi_node: CSINode) -> dict[str, str]:
    """Return driver by volume for those that a CSI driver attaches on that node."""
    return {
        volume.unique_name: volume.driver
        for volume in volumes
        if not volume.in_tree or is_migrated(volume.in_tree, csi_node)
    }


def _held(node: NodeInfo, csi_node: CSINode, objects: ClusterObjects) -> dict[str, str] | Status:
    """Return driver by volume for what the pods on *node* have attached."""
    held: dict[str, str] = {}
    for pod in node.pods.values():
        volumes = _volumes(pod, objects, is_new=False)
        if isinstance(volumes, Status):
            return volumes
        held |= _attached(volumes, csi_node)
    return held


def _attachments(node: str, objects: ClusterObjects) -> dict[str, str]:
    found = {}
    for attachment in objects.attachments.group(node).values():
        spec = attachment.spec
        volume = objects.volumes.get(spec.source.persistent_volume_name or "")
        if spec.attacher and volume is not None and volume.spec.csi is not None:
            found[f"{spec.attacher}/{volume.spec.csi.volume_handle}"] = spec.attacher
    return found


def _exceeds(limits: Mapping[str, int], held: Mapping[str, str], new: Mapping[str, str]) -> bool:
    drivers = list(held.values())
    wanted = list(new.values())
    return any(
        driver in limits and drivers.count(driver) + wanted.count(driver) > limits[driver]
        for driver in set(wanted)
    )
