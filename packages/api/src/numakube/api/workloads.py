"""What makes pods and what keeps them: only the fields that some program reads.

A scheduler asks which pods a `ReplicaSet` or `Service` selects and does without the templates of
thousands; the operator asks how far a `Deployment` or `DaemonSet` of its own is; tools look at any
`Workload`. Controllers, which write whole objects, are in the lab and have types of their own.
"""

from numakube.api.codec import Wire, always
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.pod import PodSpec


class ServiceSpec(Wire, frozen=True):
    """Which pods a service is made of; without selector, none."""

    selector: dict[str, str] = {}


class Service(Wire, frozen=True):
    """A service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    api_version: str = always("v1")
    kind: str = always("Service")


class ReplicationControllerSpec(Wire, frozen=True):
    """Which pods a replication controller counts."""

    selector: dict[str, str] = {}


class ReplicationController(Wire, frozen=True):
    """A replication controller."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    api_version: str = always("v1")
    kind: str = always("ReplicationController")


class OwnerSpec(Wire, frozen=True):
    """Which pods a replica set or stateful set counts, and how many it wants."""

    selector: LabelSelector | None = None
    replicas: int | None = None


class ReplicaSet(Wire, frozen=True):
    """A replica set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: OwnerSpec = OwnerSpec()
    api_version: str = always("apps/v1")
    kind: str = always("ReplicaSet")


class StatefulSet(Wire, frozen=True):
    """A stateful set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: OwnerSpec = OwnerSpec()
    api_version: str = always("apps/v1")
    kind: str = always("StatefulSet")


class PodDisruptionBudgetSpec(Wire, frozen=True):
    """Which pods a budget protects."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Wire, frozen=True):
    """How many pods may go now, and which are going already (by name, with the time)."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] = {}
    observed_generation: int = 0


class PodDisruptionBudget(Wire, frozen=True):
    """A limit on how many pods of a kind may be evicted at a time."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
    api_version: str = always("policy/v1")
    kind: str = always("PodDisruptionBudget")


class Namespace(Wire, frozen=True):
    """A namespace; its labels are what namespace selectors are about."""

    metadata: ObjectMeta = ObjectMeta()
    api_version: str = always("v1")
    kind: str = always("Namespace")


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


class DaemonSetStatus(Wire, frozen=True):
    """How far a DaemonSet is."""

    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    observed_generation: int = 0


class DaemonSet(Wire, frozen=True):
    """The exporters of a pool."""

    metadata: ObjectMeta = ObjectMeta()
    status: DaemonSetStatus = DaemonSetStatus()

    @property
    def is_ready(self) -> bool:
        """Whether every node that should have an exporter has the present one."""
        status, wanted = self.status, self.status.desired_number_scheduled
        return (
            status.observed_generation >= self.metadata.generation
            and status.number_ready == wanted
            and status.updated_number_scheduled == wanted
        )


class DeploymentCondition(Wire, frozen=True):
    """One aspect of a Deployment's state."""

    type: str
    status: str


class DeploymentStatus(Wire, frozen=True):
    """How far a Deployment is."""

    conditions: tuple[DeploymentCondition, ...] = ()
    observed_generation: int = 0
    updated_replicas: int = 0
    replicas: int = 0


class Deployment(Wire, frozen=True):
    """The scheduler."""

    metadata: ObjectMeta = ObjectMeta()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def is_available(self) -> bool:
        """Whether the present scheduler runs."""
        if self.status.observed_generation < self.metadata.generation:
            return False
        return any(
            condition.type == "Available" and condition.status == "True"
            for condition in self.status.conditions
        )


class ConfigMap(Wire, frozen=True):
    """Configuration of operands."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
