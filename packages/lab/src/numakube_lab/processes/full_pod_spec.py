"""A pod as what runs it reads it: environment and volumes in full.

`numakube.api` holds what schedulers and kubelets decide by; these types add what only matters once
a container really runs.
"""

import msgspec

from numakube.api.codec import QuantityText, Wire
from numakube.api.meta import ObjectMeta
from numakube.api.pod import EmptyDirVolumeSource, HostPathVolumeSource, ResourceRequirements
from numakube.kube.catalog import PODS


class KeyRef(Wire, frozen=True):
    """A key of a config map or secret."""

    key: str
    name: str = ""
    optional: bool = False


class FieldRef(Wire, frozen=True):
    """A field of the pod."""

    field_path: str


class ResourceFieldRef(Wire, frozen=True):
    """A request or limit of a container, divided by a quantity."""

    resource: str
    container_name: str = ""
    divisor: QuantityText = 0


class ValueSource(Wire, frozen=True):
    """Where the value of a variable comes from."""

    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None


class Variable(Wire, frozen=True):
    """An environment variable."""

    name: str
    value: str = ""
    value_from: ValueSource | None = None


class ObjectRef(Wire, frozen=True):
    """A config map or secret as a whole."""

    name: str = ""
    optional: bool = False


class VariablesFrom(Wire, frozen=True):
    """All keys of a config map or secret as variables."""

    prefix: str = ""
    config_map_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None


class Mount(Wire, frozen=True):
    """Where a container sees a volume, or a path in it."""

    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""


class KeyToPath(Wire, frozen=True):
    """Under which path a key appears as a file."""

    key: str
    path: str
    mode: int | None = None


class ConfigMapSource(Wire, frozen=True):
    """The keys of a config map as files; all of them if no items are named."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretSource(Wire, frozen=True):
    """The keys of a secret as files."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class DownwardFile(Wire, frozen=True):
    """A field of the pod as a file."""

    path: str
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    mode: int | None = None


class DownwardSource(Wire, frozen=True):
    """Fields of the pod as files."""

    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class SecretProjection(Wire, frozen=True):
    """The keys of a secret as files among others."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class TokenProjection(Wire, frozen=True):
    """A token of the pod's service account as a file."""

    path: str
    expiration_seconds: int = 3600
    audience: str = ""


class Projection(Wire, frozen=True):
    """One of the sources that share a folder."""

    config_map: ConfigMapSource | None = None
    secret: SecretProjection | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenProjection | None = None


class ProjectedSource(Wire, frozen=True):
    """Several sources in one folder."""

    sources: tuple[Projection, ...] = ()
    default_mode: int = 0o644


class MountedVolume(Wire, frozen=True):
    """A volume; sources that the lab does not mount leave all of these empty."""

    name: str
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    projected: ProjectedSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class RunnableContainer(Wire, frozen=True):
    """A container that can be run."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesFrom, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None


class RunnableSpec(Wire, frozen=True):
    """What a pod consists of."""

    containers: tuple[RunnableContainer, ...] = ()
    init_containers: tuple[RunnableContainer, ...] = ()
    volumes: tuple[MountedVolume, ...] = ()
    node_name: str = ""
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    host_network: bool = False
    hostname: str = ""


class RunnableStatus(Wire, frozen=True):
    """Where a pod is."""

    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")


class RunnablePod(Wire, frozen=True):
    """A pod that can be run."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RunnableSpec = RunnableSpec()
    status: RunnableStatus = RunnableStatus()

    def container(self, name: str) -> RunnableContainer:
        """Return one of its containers."""
        every = (*self.spec.init_containers, *self.spec.containers)
        return next(one for one in every if one.name == name)


RUNNABLE_PODS = PODS.decoded_as(RunnablePod)
