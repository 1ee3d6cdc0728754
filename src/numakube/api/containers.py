"""Containers of a pod, what they ask for and what became of them."""

import msgspec

from numakube.api.wire import ResourceList, Timestamp, Wire


class ResourceClaimUse(Wire, frozen=True):
    """A claim of the pod that one of its containers uses."""

    name: str
    request: str = ""


class ResourceRequirements(Wire, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerPort(Wire, frozen=True):
    """A port of a container; ``host_port`` is taken on the node itself."""

    container_port: int
    name: str = ""
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class ObjectFieldSelector(Wire, frozen=True):
    """A field of the pod, such as ``spec.nodeName``."""

    field_path: str
    api_version: str = ""


class EnvVarSource(Wire, frozen=True):
    """Where the value of an environment variable comes from."""

    field_ref: ObjectFieldSelector | None = None


class EnvVar(Wire, frozen=True):
    """An environment variable."""

    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class VolumeMount(Wire, frozen=True):
    """Where a container sees a volume."""

    name: str
    mount_path: str
    sub_path: str = ""
    read_only: bool = False
    bind_mount_options: tuple[str, ...] = ()


class ContainerResizePolicy(Wire, frozen=True):
    """Whether a change of a resource restarts the container."""

    resource_name: str
    restart_policy: str


class ContainerRestartRule(Wire, frozen=True):
    """What happens when a container exits in a certain way."""

    action: str = ""


class Container(Wire, frozen=True):
    """A container, init container or sidecar (an init container that restarts always)."""

    name: str
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class ContainerStateWaiting(Wire, frozen=True):
    """The container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Wire, frozen=True):
    """The container runs."""

    started_at: Timestamp | None = None


class ContainerStateTerminated(Wire, frozen=True):
    """The container has ended."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(Wire, frozen=True):
    """Exactly one of the three; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Wire, frozen=True):
    """What became of a container, and which resources the kubelet gave it."""

    name: str
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    started: bool | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
