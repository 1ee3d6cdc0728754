"""Volumes as objects of their own: claims, persistent volumes, classes, and what nodes can attach.

Only the fields that decide where a pod can run. In-tree sources of a persistent volume are kept as
far as they name a disk that counts against a node's limit.
"""

import msgspec

from numakube.api.affinity_and_taints import NodeSelector
from numakube.api.codec import QuantityText, ResourceList, Wire, always
from numakube.api.meta import LabelSelector, ObjectMeta, ObjectReference
from numakube.api.pod import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    PersistentVolumeClaimSpec,
)

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class PersistentVolumeClaimStatus(Wire, frozen=True):
    """What became of a claim."""

    phase: str = ""


class PersistentVolumeClaim(Wire, frozen=True):
    """A pod's wish for storage."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
    api_version: str = always("v1")
    kind: str = always("PersistentVolumeClaim")

    @property
    def class_name(self) -> str:
        """The storage class, as the old annotation or the spec names it; empty for none."""
        annotated = self.metadata.annotations.get(_CLASS_ANNOTATION)
        return annotated if annotated is not None else self.spec.storage_class_name or ""

    @property
    def is_bound(self) -> bool:
        """Tell whether the claim has its volume for good."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def requested(self) -> QuantityText:
        """How much storage is asked for."""
        resources = self.spec.resources
        return resources.requests.get("storage", 0) if resources is not None else 0


class VolumeNodeAffinity(Wire, frozen=True):
    """Nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Wire, frozen=True):
    """A volume of a CSI driver."""

    driver: str
    volume_handle: str = ""
    read_only: bool = False


class AzureDiskVolumeSource(Wire, frozen=True):
    """A disk of Azure."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderVolumeSource(Wire, frozen=True):
    """A disk of OpenStack."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolumeSource(Wire, frozen=True):
    """A disk of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PersistentVolumeSpec(Wire, frozen=True):
    """What a volume offers, to whom, and from where."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class PersistentVolumeStatus(Wire, frozen=True):
    """Whether a volume is free."""

    phase: str = ""


class PersistentVolume(Wire, frozen=True):
    """Storage that exists."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()
    api_version: str = always("v1")
    kind: str = always("PersistentVolume")

    @property
    def class_name(self) -> str:
        """The storage class, as the old annotation or the spec names it; empty for none."""
        annotated = self.metadata.annotations.get(_CLASS_ANNOTATION)
        return annotated if annotated is not None else self.spec.storage_class_name


class TopologySelectorLabelRequirement(Wire, frozen=True):
    """A label and the values it may have."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire, frozen=True):
    """Requirements that must all hold; an empty term matches nothing."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Wire, frozen=True):
    """How storage is made, and whether that waits for the first pod."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("StorageClass")


class VolumeNodeResources(Wire, frozen=True):
    """How many volumes of a driver a node can attach."""

    count: int | None = None


class CSINodeDriver(Wire, frozen=True):
    """A driver on a node."""

    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire, frozen=True):
    """The drivers on a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Wire, frozen=True):
    """What CSI drivers say of a node; it has the node's name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("CSINode")


class CSIDriverSpec(Wire, frozen=True):
    """What a driver can do."""

    storage_capacity: bool | None = None


class CSIDriver(Wire, frozen=True):
    """A CSI driver of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("CSIDriver")


class CSIStorageCapacity(Wire, frozen=True):
    """How much storage of a class can be made for certain nodes."""

    storage_class_name: str
    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("CSIStorageCapacity")

    @property
    def largest_volume(self) -> QuantityText | None:
        """The size of the largest volume that can be made, if it is known."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class VolumeAttachmentSource(Wire, frozen=True):
    """What is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire, frozen=True):
    """A volume, the driver that attaches it, and the node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Wire, frozen=True):
    """A volume that is or shall be attached to a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("VolumeAttachment")
