"""The objects that controllers handle, with only the fields they use.

Defaults are those of the API server, so that an object that was stored without them means the same.
"""

from typing import Any, TypeAlias

from numakube.api.codec import Timestamp, Wire, always
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.resource_claims import ResourceClaim
from numakube.kube import Document, Resource

IntOrPercent: TypeAlias = int | str
"""A number of pods, or a share of them such as ``25%``."""


def _apps(plural: str, kind: str, type_: type[Any]) -> Resource[Any]:
    return Resource(
        group="apps", version="v1", plural=plural, kind=kind, namespaced=True, object_type=type_
    )


class Condition(Wire, frozen=True):
    """One aspect of a workload's state."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None


class ReplicaSetSpec(Wire, frozen=True):
    """How many pods of which kind are wanted."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: Document = {}
    min_ready_seconds: int = 0


class ReplicaSetStatus(Wire, frozen=True):
    """How many pods there are."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Wire, frozen=True):
    """A number of like pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
    api_version: str = always("apps/v1")
    kind: str = always("ReplicaSet")


class RollingUpdate(Wire, frozen=True):
    """How fast pods are replaced; what a kind does not know it leaves unset."""

    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    partition: int = 0


class DeploymentStrategy(Wire, frozen=True):
    """How pods are replaced: ``RollingUpdate`` or ``Recreate``."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Wire, frozen=True):
    """What a deployment wants."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: Document = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int | None = 600


class DeploymentStatus(Wire, frozen=True):
    """What a deployment has."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class Deployment(Wire, frozen=True):
    """Replica sets that follow each other."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()
    api_version: str = always("apps/v1")
    kind: str = always("Deployment")


class UpdateStrategy(Wire, frozen=True):
    """How a stateful or daemon set replaces pods: ``RollingUpdate`` or ``OnDelete``."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class StatefulSetOrdinals(Wire, frozen=True):
    """The number of the first pod."""

    start: int = 0


class ClaimRetentionPolicy(Wire, frozen=True):
    """What becomes of claims: ``Retain`` or ``Delete``."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetSpec(Wire, frozen=True):
    """What a stateful set wants."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: Document = {}
    service_name: str = ""
    volume_claim_templates: tuple[Document, ...] = ()
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()


class StatefulSetStatus(Wire, frozen=True):
    """What a stateful set has."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class StatefulSet(Wire, frozen=True):
    """Pods with names and storage of their own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()
    api_version: str = always("apps/v1")
    kind: str = always("StatefulSet")


class DaemonSetSpec(Wire, frozen=True):
    """What a daemon set wants."""

    selector: LabelSelector = LabelSelector()
    template: Document = {}
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(Wire, frozen=True):
    """What a daemon set has."""

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class DaemonSet(Wire, frozen=True):
    """A pod on every node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()
    api_version: str = always("apps/v1")
    kind: str = always("DaemonSet")


class ControllerRevision(Wire, frozen=True):
    """A template that a stateful or daemon set had or has."""

    metadata: ObjectMeta = ObjectMeta()
    data: Document = {}
    revision: int = 0
    api_version: str = always("apps/v1")
    kind: str = always("ControllerRevision")


REPLICA_SETS: Resource[ReplicaSet] = _apps("replicasets", "ReplicaSet", ReplicaSet)
DEPLOYMENTS: Resource[Deployment] = _apps("deployments", "Deployment", Deployment)
STATEFUL_SETS: Resource[StatefulSet] = _apps("statefulsets", "StatefulSet", StatefulSet)
DAEMON_SETS: Resource[DaemonSet] = _apps("daemonsets", "DaemonSet", DaemonSet)
CONTROLLER_REVISIONS: Resource[ControllerRevision] = _apps(
    "controllerrevisions", "ControllerRevision", ControllerRevision
)


class JobSpec(Wire, frozen=True):
    """What a job wants."""

    parallelism: int = 1
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int = 6
    selector: LabelSelector = LabelSelector()
    template: Document = {}
    ttl_seconds_after_finished: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False


class JobCondition(Wire, frozen=True):
    """One aspect of a job's state: ``Complete``, ``Failed`` or ``Suspended``."""

    type: str
    status: str
    last_probe_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None
    reason: str = ""
    message: str = ""


class UncountedPods(Wire, frozen=True):
    """Pods that ended and are not yet part of the counts."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire, frozen=True):
    """What a job has done."""

    conditions: tuple[JobCondition, ...] = ()
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    uncounted_terminated_pods: UncountedPods | None = None


class Job(Wire, frozen=True):
    """Pods that run to an end."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
    api_version: str = always("batch/v1")
    kind: str = always("Job")


JOBS = Resource(
    group="batch", version="v1", plural="jobs", kind="Job", namespaced=True, object_type=Job
)


# Objects of which controllers need little: metadata, namespaces, disruption budgets.


class MetadataObject(Wire, frozen=True):
    """Any object, with nothing but its metadata."""

    metadata: ObjectMeta = ObjectMeta()
    api_version: str = ""
    kind: str = ""


class NamespaceSpec(Wire, frozen=True):
    """What has to be done before a namespace can go."""

    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Wire, frozen=True):
    """What keeps a namespace from going."""

    type: str
    status: str
    last_transition_time: Timestamp | None = None
    reason: str = ""
    message: str = ""


class NamespaceStatus(Wire, frozen=True):
    """Whether a namespace is ``Active`` or ``Terminating``."""

    phase: str = "Active"
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(Wire, frozen=True):
    """A namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
    api_version: str = always("v1")
    kind: str = always("Namespace")


class DisruptionBudgetSpec(Wire, frozen=True):
    """How many of which pods must stay."""

    selector: LabelSelector | None = None
    min_available: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None


class DisruptionBudgetCondition(Wire, frozen=True):
    """Whether disruptions are allowed."""

    type: str
    status: str
    observed_generation: int = 0
    last_transition_time: Timestamp | None = None
    reason: str = ""
    message: str = ""


class DisruptionBudgetStatus(Wire, frozen=True):
    """How many pods may be evicted.

    Attributes:
        disrupted_pods: those that were evicted, and when, until they are seen to go.
    """

    observed_generation: int = 0
    disrupted_pods: dict[str, Timestamp] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[DisruptionBudgetCondition, ...] = ()


class DisruptionBudget(Wire, frozen=True):
    """A limit on voluntary disruptions."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()
    api_version: str = always("policy/v1")
    kind: str = always("PodDisruptionBudget")


NAMESPACES = Resource(
    version="v1", plural="namespaces", kind="Namespace", namespaced=False, object_type=Namespace
)
DISRUPTION_BUDGETS = Resource(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    namespaced=True,
    object_type=DisruptionBudget,
)


# Claims of dynamic resource allocation, and templates as far as their controller looks at them.


GROUP = "resource.k8s.io"


class ClaimTemplateMeta(Wire, frozen=True):
    """Labels and annotations of the claims of a template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ResourceClaimTemplateSpec(Wire, frozen=True):
    """What the claims of a template are like."""

    metadata: ClaimTemplateMeta = ClaimTemplateMeta()
    spec: dict[str, Any] = {}


class ResourceClaimTemplate(Wire, frozen=True):
    """A template for claims that are made for one pod each."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
    api_version: str = always(f"{GROUP}/v1")
    kind: str = always("ResourceClaimTemplate")


RESOURCE_CLAIMS = Resource(
    group=GROUP,
    version="v1",
    plural="resourceclaims",
    kind="ResourceClaim",
    namespaced=True,
    object_type=ResourceClaim,
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    group=GROUP,
    version="v1",
    plural="resourceclaimtemplates",
    kind="ResourceClaimTemplate",
    namespaced=True,
    object_type=ResourceClaimTemplate,
)
