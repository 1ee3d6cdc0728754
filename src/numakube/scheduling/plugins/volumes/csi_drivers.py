"""Which CSI driver attaches a volume; in-tree volumes of clouds go to the driver that took over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.api.pod import Volume
    from numakube.api.storage_objects import CSINode, PersistentVolume, PersistentVolumeClaim
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

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
