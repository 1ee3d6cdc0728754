"""The two objects that tell the operator what to run (``nodetopology.openshift.io/v1``).

`NUMAResourcesOperator` asks for an exporter on every node of some pools, `NUMAResourcesScheduler`
for a scheduler. Names, fields and defaults are those of the NUMA Resources Operator, so its objects
work unchanged. These fields are ours: ``nodeSelector``, ``sriov`` and ``dra`` of a node group, for
clusters without pools, for network devices and for claims, and ``profiles``, ``extender``,
``rebalancer`` and ``admissionCheck`` of a scheduler. Both kinds are singletons with a fixed name.
"""

from typing import Any, Final

import msgspec

from numakube.api.affinity_and_taints import Toleration
from numakube.api.codec import DurationText, Timestamp, Wire, always
from numakube.api.meta import LabelSelector, ObjectMeta

GROUP: Final = "nodetopology.openshift.io"
V1: Final = f"{GROUP}/v1"

OPERATOR_NAME: Final = "numaresourcesoperator"
"""What the only NUMAResourcesOperator is called."""

SCHEDULER_NAME: Final = "numaresourcesscheduler"
"""What the only NUMAResourcesScheduler is called."""


class NamespacedName(Wire, frozen=True):
    """Which object of a kind."""

    namespace: str = ""
    name: str = ""


class RelatedObject(Wire, frozen=True):
    """An object that a support bundle should contain; an empty name means all of the kind."""

    resource: str
    group: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    namespace: str = ""


class OperatorCondition(Wire, frozen=True):
    """One aspect of an object's state."""

    type: str
    status: str
    reason: str
    last_transition_time: Timestamp
    message: str = msgspec.field(default_factory=str)
    observed_generation: int = 0


class NodeGroupConfig(Wire, frozen=True):
    """How the exporters of a node group work; ``None`` leaves it to the default."""

    pods_fingerprinting: str | None = None
    info_refresh_mode: str | None = None
    info_refresh_period: DurationText | None = None
    info_refresh_pause: str | None = None
    max_silence: DurationText | None = None
    measure: str | None = None
    tolerations: tuple[Toleration, ...] = ()


class SriovGroup(Wire, frozen=True):
    """The SR-IOV device plugin on the nodes of a group.

    Attributes:
        resources: what it offers, as in the plugin's ``resourceList``.
        cdi: whether runtimes get device files by CDI.
    """

    resources: tuple[dict[str, Any], ...] = ()
    cdi: bool = False


class DraGroup(Wire, frozen=True):
    """The DRA driver on the nodes of a group; what is empty is left to its own default.

    Attributes:
        cpu_devices: which CPUs are one device: ``numa``, ``l3`` and others.
        cpu_step: whether claims get whole ``cores``, or single ``cpus``.
        reserved_cpus: CPUs that are not offered, such as ``0-1``.
        resources: PCI functions that are offered, as in the ``resourceList`` of the device plugin.
    """

    cpu_devices: str = ""
    cpu_step: str = ""
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")
    resources: tuple[dict[str, Any], ...] = ()


class NodeGroup(Wire, frozen=True):
    """Nodes that get exporters: a pool by its name or labels, or the nodes with given labels."""

    pool_name: str | None = None
    machine_config_pool_selector: LabelSelector | None = None
    node_selector: LabelSelector | None = None
    config: NodeGroupConfig | None = None
    sriov: SriovGroup | None = None
    dra: DraGroup | None = None
    annotations: dict[str, str] = {}


class OperatorSpec(Wire, frozen=True):
    """Which nodes get exporters, and what they are like."""

    node_groups: tuple[NodeGroup, ...] = ()
    image_spec: str = ""
    log_level: str = ""
    pod_excludes: tuple[NamespacedName, ...] = ()


class PoolStatus(Wire, frozen=True):
    """A machine config pool that a node group stands for."""

    name: str
    config: NodeGroupConfig | None = None


class NodeGroupStatus(Wire, frozen=True):
    """What became of a node group; ``daemonsets`` is one object in spite of its name."""

    selector: str
    daemonsets: NamespacedName
    config: NodeGroupConfig = msgspec.field(default_factory=NodeGroupConfig)


class OperatorStatus(Wire, frozen=True):
    """What the operator did."""

    daemonsets: tuple[NamespacedName, ...] = ()
    machineconfigpools: tuple[PoolStatus, ...] = ()
    node_groups: tuple[NodeGroupStatus, ...] = ()
    conditions: tuple[OperatorCondition, ...] = ()
    related_objects: tuple[RelatedObject, ...] = ()


class NUMAResourcesOperator(Wire, frozen=True):
    """Asks for exporters."""

    api_version: str = always(V1)
    kind: str = always("NUMAResourcesOperator")
    metadata: ObjectMeta = ObjectMeta()
    spec: OperatorSpec = OperatorSpec()
    status: OperatorStatus = OperatorStatus()


class ScoredResource(Wire, frozen=True):
    """A resource and how much it counts; no weight means 1."""

    name: str
    weight: int = 0


class ScoringStrategySpec(Wire, frozen=True):
    """How nodes that fit are ranked."""

    type: str = ""
    resources: tuple[ScoredResource, ...] = ()


class ExtenderSpec(Wire, frozen=True):
    """An extender for kube-schedulers beside the scheduler; ``None`` leaves it to the default."""

    replicas: int | None = None
    tls: str | None = None


class RebalancerSpec(Wire, frozen=True):
    """A rebalancer beside the scheduler; ``None`` leaves it to the default."""

    replicas: int | None = None
    moves_per_hour: int | None = None
    quiet_hours: str = ""
    dry_run: bool = False


class AdmissionCheckFields(Wire, frozen=True):
    """An admission check beside the scheduler; ``None`` leaves it to the default."""

    replicas: int | None = None


class SchedulerProfile(Wire, frozen=True):
    """One more name for pods to give; *args* add to what the rest of the specification says."""

    scheduler_name: str = ""
    args: dict[str, Any] = {}


class SchedulerSpec(Wire, frozen=True):
    """What the scheduler is like; ``None`` and the empty text leave it to the default."""

    image_spec: str = ""
    scheduler_name: str = ""
    log_level: str = ""
    cache_resync_period: DurationText | None = None
    cache_resync_debug: str | None = None
    scheduler_informer: str | None = None
    cache_resync_detection: str | None = None
    scoring_strategy: ScoringStrategySpec | None = None
    preemption_mode: str | None = None
    replicas: int | None = None
    profiles: tuple[SchedulerProfile, ...] = ()
    extender: ExtenderSpec | None = None
    rebalancer: RebalancerSpec | None = None
    admission_check: AdmissionCheckFields | None = None


class SchedulerStatus(Wire, frozen=True):
    """What became of the scheduler."""

    deployment: NamespacedName = NamespacedName()
    scheduler_name: str = ""
    cache_resync_period: DurationText | None = None
    conditions: tuple[OperatorCondition, ...] = ()
    related_objects: tuple[RelatedObject, ...] = ()


class NUMAResourcesScheduler(Wire, frozen=True):
    """Asks for a scheduler."""

    api_version: str = always(V1)
    kind: str = always("NUMAResourcesScheduler")
    metadata: ObjectMeta = ObjectMeta()
    spec: SchedulerSpec = SchedulerSpec()
    status: SchedulerStatus = SchedulerStatus()


class MachineConfigPoolSpec(Wire, frozen=True):
    """Which nodes a pool of OpenShift has."""

    node_selector: LabelSelector | None = None
    paused: bool = False


class MachineConfigPool(Wire, frozen=True):
    """A pool of nodes on OpenShift, as much of it as node groups need."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineConfigPoolSpec = MachineConfigPoolSpec()
