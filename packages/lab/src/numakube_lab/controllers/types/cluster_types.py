"""Objects of which controllers need little: metadata, namespaces, disruption budgets."""

from numakube.api.codec import Timestamp, Wire, always
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.kube.resource_types import Resource
from numakube_lab.controllers.types.workload_types import IntOrPercent


class Metadata(Wire, frozen=True):
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
