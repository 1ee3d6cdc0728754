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


class PodSetAssignment(Wire, frozen=True):
    """What quota was given to the pods of one kind: by resource the flavor, and how many pods."""

    name: str = "main"
    flavors: dict[str, str] = {}
    count: int | None = None


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
