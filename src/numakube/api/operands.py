"""What the operator runs, as far as it looks at it again: how far it is, and whose it is."""

from numakube.api.meta import ObjectMeta
from numakube.api.wire import Wire


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
            one.type == "Available" and one.status == "True" for one in self.status.conditions
        )


class ConfigMap(Wire, frozen=True):
    """Configuration of operands."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
