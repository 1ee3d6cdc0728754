"""Core v1 objects: only the fields that numakube reads or writes."""

from numakube.api.meta import ObjectMeta
from numakube.api.wire import ResourceList, Wire


class ResourceRequirements(Wire, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: ResourceList | None = None
    limits: ResourceList | None = None


class Container(Wire, frozen=True):
    """A container, init container or sidecar (an init container that restarts always)."""

    name: str
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None


class PodSpec(Wire, frozen=True):
    """What a pod asks for."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    resources: ResourceRequirements | None = None
    overhead: ResourceList | None = None


class PodStatus(Wire, frozen=True):
    """What became of a pod."""

    qos_class: str | None = None


class Pod(Wire, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None
