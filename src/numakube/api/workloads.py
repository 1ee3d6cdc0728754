"""Owners of pods, and what must not be disturbed: just enough to know which pods they select."""

from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.wire import Wire, always


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
