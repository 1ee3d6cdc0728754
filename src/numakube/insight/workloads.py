"""Deployments, daemon sets and the like, as far as tools look at them: their pods, and how many."""

from numakube.api.core import PodSpec
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.wire import Wire


class PodTemplate(Wire, frozen=True):
    """The pod that a workload makes copies of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class WorkloadSpec(Wire, frozen=True):
    """What a workload is to be; daemon sets have no number of replicas."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class WorkloadStatus(Wire, frozen=True):
    """How much of a workload there is; daemon sets have fields of their own."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    updated_number_scheduled: int = 0


class Workload(Wire, frozen=True):
    """A Deployment, DaemonSet, ReplicaSet, StatefulSet or Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
    api_version: str = ""
    kind: str = ""


class PriorityClass(Wire, frozen=True):
    """A named priority."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class ServerVersion(Wire, frozen=True):
    """The version of an API server."""

    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""
