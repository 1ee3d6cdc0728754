"""Kueue's queue, as far as an admission check needs it (``kueue.x-k8s.io``, v1beta1 and v1beta2).

Both versions have these fields alike. A workload that has its quota waits for its admission checks;
the controller of a check sets the state of its own entry.
"""

from typing import Final

from numakube.api.affinity_and_taints import Toleration
from numakube.api.codec import Timestamp, Wire
from numakube.api.meta import ObjectMeta
from numakube.api.workloads import PodTemplate

GROUP: Final = "kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
"""What we read, the best first."""

PENDING: Final = "Pending"
READY: Final = "Ready"
RETRY: Final = "Retry"


class KueueCondition(Wire, frozen=True):
    """A condition."""

    type: str = ""
    status: str = ""
    last_transition_time: Timestamp | None = None


class PodSet(Wire, frozen=True):
    """Pods of one kind."""

    name: str = "main"
    template: PodTemplate = PodTemplate()
    count: int = 1


class QueuedWorkloadSpec(Wire, frozen=True):
    """What waits."""

    pod_sets: tuple[PodSet, ...] = ()
    priority: int = 0
    active: bool = True


class IndividualValues(Wire, frozen=True):
    """Values of labels, one for each domain, without what they begin and end with alike."""

    prefix: str = ""
    suffix: str = ""
    roots: tuple[str, ...] = ()


class LevelValues(Wire, frozen=True):
    """The value of one label in each domain of a slice: the same in all, or one by one."""

    universal: str | None = None
    individual: IndividualValues | None = None


class PodCounts(Wire, frozen=True):
    """How many pods each domain of a slice gets: the same number, or one by one."""

    universal: int | None = None
    individual: tuple[int, ...] = ()


class TopologyAssignmentSlice(Wire, frozen=True):
    """Some domains, as v1beta2 has them."""

    domain_count: int = 0
    values_per_level: tuple[LevelValues, ...] = ()
    pod_counts: PodCounts = PodCounts()


class AssignedDomain(Wire, frozen=True):
    """A domain, by the values of the levels, and how many pods it gets; so v1beta1 has them."""

    values: tuple[str, ...] = ()
    count: int = 0


class TopologyAssignment(Wire, frozen=True):
    """The nodes that pods of one kind were given, by values of node labels.

    Attributes:
        levels: the labels.
        slices: domains as v1beta2 writes them.
        domains: or as v1beta1 does.
    """

    levels: tuple[str, ...] = ()
    slices: tuple[TopologyAssignmentSlice, ...] = ()
    domains: tuple[AssignedDomain, ...] = ()


class PodSetAssignment(Wire, frozen=True):
    """What was given to the pods of one kind.

    Attributes:
        flavors: by resource, the flavor of which there is quota.
        count: how many pods.
        topology_assignment: where they go, if Kueue has chosen.
        delayed_topology_request: ``Pending`` while Kueue has still to choose.
    """

    name: str = "main"
    flavors: dict[str, str] = {}
    count: int | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: str = ""

    @property
    def is_delayed(self) -> bool:
        """Whether Kueue has still to choose nodes."""
        return self.delayed_topology_request == PENDING and self.topology_assignment is None


class Admission(Wire, frozen=True):
    """What quota was given."""

    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class PodSetUpdate(Wire, frozen=True):
    """What a check adds to the pods of one kind."""

    name: str = "main"
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class CheckState(Wire, frozen=True):
    """How far a check is with a workload."""

    name: str = ""
    state: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None
    retry_count: int = 0
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class QueuedWorkloadStatus(Wire, frozen=True):
    """How far a workload is."""

    conditions: tuple[KueueCondition, ...] = ()
    admission: Admission | None = None
    admission_checks: tuple[CheckState, ...] = ()


class QueuedWorkload(Wire, frozen=True):
    """A job in a queue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueuedWorkloadSpec = QueuedWorkloadSpec()
    status: QueuedWorkloadStatus = QueuedWorkloadStatus()

    def condition(self, type_: str) -> KueueCondition | None:
        """Return the condition of that type if it is true."""
        found = (condition for condition in self.status.conditions if condition.type == type_)
        return next((condition for condition in found if condition.status == "True"), None)


class AdmissionCheckSpec(Wire, frozen=True):
    """Whose check it is."""

    controller_name: str = ""


class AdmissionCheckStatus(Wire, frozen=True):
    """Whether it is being looked after."""

    conditions: tuple[KueueCondition, ...] = ()


class AdmissionCheck(Wire, frozen=True):
    """A check that workloads of some queues have to pass."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class ResourceFlavorSpec(Wire, frozen=True):
    """The nodes that a flavor stands for."""

    node_labels: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class ResourceFlavor(Wire, frozen=True):
    """A kind of resource that quota is given of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceFlavorSpec = ResourceFlavorSpec()
