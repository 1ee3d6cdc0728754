"""Volumes of a pod: the sources that decide where it can run, and those the lab mounts."""

import msgspec

from numakube.api.containers import ResourceRequirements
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.wire import QuantityText, Wire


class PersistentVolumeClaimVolumeSource(Wire, frozen=True):
    """A claim of the pod's namespace."""

    claim_name: str
    read_only: bool = False


class PersistentVolumeClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Wire, frozen=True):
    """The claim that is made for a pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire, frozen=True):
    """A claim that lives as long as the pod; it is named ``<pod>-<volume>``."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class HostPathVolumeSource(Wire, frozen=True):
    """A path of the node."""

    path: str
    type: str | None = None


class EmptyDirVolumeSource(Wire, frozen=True):
    """An empty folder; medium ``HugePages-2Mi`` takes hugepages."""

    medium: str = ""
    size_limit: QuantityText | None = None


class ConfigMapVolumeSource(Wire, frozen=True):
    """The keys of a config map as files."""

    name: str = ""
    optional: bool | None = None


class SecretVolumeSource(Wire, frozen=True):
    """The keys of a secret as files."""

    secret_name: str = ""
    optional: bool | None = None


class CSIVolumeSource(Wire, frozen=True):
    """A volume that a CSI driver makes for the pod alone."""

    driver: str
    read_only: bool | None = None


class GCEPersistentDiskVolumeSource(Wire, frozen=True):
    """A disk that only one node may write to."""

    pd_name: str
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Wire, frozen=True):
    """A disk that only one node may use."""

    volume_id: str = msgspec.field(name="volumeID")
    read_only: bool = False


class ISCSIVolumeSource(Wire, frozen=True):
    """A disk that only one node may write to."""

    iqn: str
    read_only: bool = False


class RBDVolumeSource(Wire, frozen=True):
    """A Ceph image that only one node may write to."""

    monitors: tuple[str, ...]
    image: str
    pool: str = ""
    read_only: bool = False


class Volume(Wire, frozen=True):
    """A volume; sources that numakube does not know leave all of these empty."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
