"""Pods: what the scheduler and the kubelet read of them, who rejected them, and static pods.

Only the fields that numakube reads or writes: what containers ask for and what became of them, the
sources of volumes that decide where a pod can run, and those that the lab mounts.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from numakube.api.affinity_and_taints import Affinity, Toleration, TopologySpreadConstraint
from numakube.api.codec import QuantityText, ResourceList, Timestamp, Wire, always
from numakube.api.meta import LabelSelector, ObjectMeta, ObjectReference

TEMPLATES: Final = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where kinds keep the pod that they make."""


class ResourceClaimUse(Wire, frozen=True):
    """A claim of the pod that one of its containers uses."""

    name: str
    request: str = ""


class ResourceRequirements(Wire, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerPort(Wire, frozen=True):
    """A port of a container; ``host_port`` is taken on the node itself."""

    container_port: int
    name: str = ""
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class ObjectFieldSelector(Wire, frozen=True):
    """A field of the pod, such as ``spec.nodeName``."""

    field_path: str
    api_version: str = ""


class EnvVarSource(Wire, frozen=True):
    """Where the value of an environment variable comes from."""

    field_ref: ObjectFieldSelector | None = None


class EnvVar(Wire, frozen=True):
    """An environment variable."""

    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class VolumeMount(Wire, frozen=True):
    """Where a container sees a volume."""

    name: str
    mount_path: str
    sub_path: str = ""
    read_only: bool = False
    bind_mount_options: tuple[str, ...] = ()


class ContainerResizePolicy(Wire, frozen=True):
    """Whether a change of a resource restarts the container."""

    resource_name: str
    restart_policy: str


class ContainerRestartRule(Wire, frozen=True):
    """What happens when a container exits in a certain way."""

    action: str = ""


class Container(Wire, frozen=True):
    """A container, init container or sidecar (an init container that restarts always)."""

    name: str
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class ContainerStateWaiting(Wire, frozen=True):
    """The container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Wire, frozen=True):
    """The container runs."""

    started_at: Timestamp | None = None


class ContainerStateTerminated(Wire, frozen=True):
    """The container has ended."""

    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(Wire, frozen=True):
    """Exactly one of the three; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Wire, frozen=True):
    """What became of a container, and which resources the kubelet gave it."""

    name: str
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    started: bool | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None


class PersistentVolumeClaimVolumeSource(Wire, frozen=True):
    """A claim of the pod's namespace."""

    claim_name: str
    read_only: bool = False


class PersistentVolumeClaimSpec(Wire, frozen=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Wire, frozen=True):
    """The claim that is made for a pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire, frozen=True):
    """A claim that lives as long as the pod; it is named ``<pod>-<volume>``."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class HostPathVolumeSource(Wire, frozen=True):
    """A path of the node."""

    path: str
    type: str | None = None


class EmptyDirVolumeSource(Wire, frozen=True):
    """An empty folder; medium ``HugePages-2Mi`` takes hugepages."""

    medium: str = ""
    size_limit: QuantityText | None = None


class ConfigMapVolumeSource(Wire, frozen=True):
    """The keys of a config map as files."""

    name: str = ""
    optional: bool | None = None


class SecretVolumeSource(Wire, frozen=True):
    """The keys of a secret as files."""

    secret_name: str = ""
    optional: bool | None = None


class CSIVolumeSource(Wire, frozen=True):
    """A volume that a CSI driver makes for the pod alone."""

    driver: str
    read_only: bool | None = None


class GCEPersistentDiskVolumeSource(Wire, frozen=True):
    """A disk that only one node may write to."""

    pd_name: str
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Wire, frozen=True):
    """A disk that only one node may use."""

    volume_id: str = msgspec.field(name="volumeID")
    read_only: bool = False


class ISCSIVolumeSource(Wire, frozen=True):
    """A disk that only one node may write to."""

    iqn: str
    read_only: bool = False


class RBDVolumeSource(Wire, frozen=True):
    """A Ceph image that only one node may write to."""

    monitors: tuple[str, ...]
    image: str
    pool: str = ""
    read_only: bool = False


class Volume(Wire, frozen=True):
    """A volume; sources that numakube does not know leave all of these empty."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None


ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})


class PodReadinessGate(Wire, frozen=True):
    """A condition without which a pod is not ready."""

    condition_type: str


class PodSchedulingGate(Wire, frozen=True):
    """Keeps a pod from being scheduled until it is removed."""

    name: str


class PodResourceClaim(Wire, frozen=True):
    """A claim for devices (dynamic resource allocation) of the whole pod."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Wire, frozen=True):
    """The group of pods that a pod is scheduled with."""

    pod_group_name: str | None = None


class PodOS(Wire, frozen=True):
    """The operating system of the pod's images."""

    name: str


class PodSpec(Wire, frozen=True):
    """What a pod asks for."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    runtime_class_name: str | None = None
    service_account_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    host_users: bool | None = None
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    host_ipc: bool = msgspec.field(default=False, name="hostIPC")
    os: PodOS | None = None


class PodCondition(Wire, frozen=True):
    """One aspect of a pod's state, such as ``PodScheduled``."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None
    observed_generation: int = 0


class PodIP(Wire, frozen=True):
    """An address of a pod."""

    ip: str = ""


class HostIP(Wire, frozen=True):
    """An address of the node that a pod runs on."""

    ip: str = ""


class PodResourceClaimStatus(Wire, frozen=True):
    """Which claim was made for a claim of the pod."""

    name: str
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Wire, frozen=True):
    """Which request of a claim serves an extended resource of a container."""

    container_name: str
    resource_name: str
    request_name: str


class PodExtendedResourceClaimStatus(Wire, frozen=True):
    """The claim that serves the pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableMappedResource(Wire, frozen=True):
    """How much of a node's resource a claim's devices stand for."""

    name: str
    quantity: QuantityText | None = None


class NodeAllocatableOverheadResource(Wire, frozen=True):
    """How much of a node's resource using a claim's devices costs besides."""

    name: str
    per_pod: QuantityText | None = None
    per_container: QuantityText | None = None


class NodeAllocatableResourceClaimStatus(Wire, frozen=True):
    """What a claim means for the node's resources (alpha)."""

    resource_claim_name: str
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResource, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResource, ...] = ()


class NodeAllocatableSource(Wire, frozen=True):
    """The object that node resources were allocated by."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdditionalNodeAllocatableResource(Wire, frozen=True):
    """What a claim means for the node's resources, as Kubernetes 1.38 says it.

    Drafts name the claim in two ways: by *source*, or by *source_kind* and *source_name*.
    """

    source: NodeAllocatableSource = NodeAllocatableSource()
    source_kind: str = ""
    source_name: str = ""
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResource, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResource, ...] = ()

    @property
    def as_of_claim(self) -> NodeAllocatableResourceClaimStatus:
        """The same in the words of 1.37."""
        return NodeAllocatableResourceClaimStatus(
            resource_claim_name=self.source.name or self.source_name,
            containers=self.containers,
            mapping=self.mapping,
            overhead=self.overhead,
        )


class PodStatus(Wire, frozen=True):
    """What became of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    qos_class: str | None = None
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    host_ips: tuple[HostIP, ...] = msgspec.field(default=(), name="hostIPs")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    start_time: Timestamp | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    additional_node_allocatable_resources: tuple[AdditionalNodeAllocatableResource, ...] = ()
    observed_generation: int = 0

    @property
    def claimed_node_resources(self) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
        """What claims mean for the node's resources, in whichever words it is told."""
        if not self.additional_node_allocatable_resources:
            return self.node_allocatable_resource_claim_statuses
        return tuple(
            resource.as_of_claim for resource in self.additional_node_allocatable_resources
        )


class Pod(Wire, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None
    api_version: str = always("v1")
    kind: str = always("Pod")


def has_ended(pod: Pod) -> bool:
    """Tell whether *pod* runs no more and holds nothing, though it still exists."""
    return pod.status is not None and pod.status.phase in ENDED_PHASES


class Binding(Wire, frozen=True):
    """Asks the API server to put the pod that the metadata names on the target node."""

    metadata: ObjectMeta
    target: ObjectReference
    api_version: str = always("v1")
    kind: str = always("Binding")


# Which reasons of failed pods mean that a kubelet rejected them.
#
# A kubelet that does not admit a pod which a scheduler has bound to its node makes the pod fail,
# with a reason of its own: those of its resource managers, ``OutOf`` with a resource that the node
# as a whole lacks, or the name of another rule of pkg/kubelet/lifecycle (Kubernetes 1.31 to 1.37).


MANAGER_REJECTIONS: Final = frozenset(
    {
        "TopologyAffinityError",
        "Topology Affinity Error",
        "UnexpectedAdmissionError",
        "SMTAlignmentError",
    }
)
"""Reasons of the resource managers, which NUMA zones may explain; one in an older spelling too."""
_NODE_RULES: Final = frozenset({"NodeAffinity", "NodeName", "NodePorts", "TaintToleration"})
_OUT_OF: Final = "OutOf"


def is_rejected(pod: Pod) -> bool:
    """Tell whether the kubelet of its node refused to run *pod* after it was bound."""
    status = pod.status
    if status is None or status.phase != "Failed" or not pod.spec.node_name:
        return False
    return is_rejection(status.reason)


def is_rejection(reason: str) -> bool:
    """Tell whether a failed pod with this *reason* was rejected by a kubelet."""
    return reason in MANAGER_REJECTIONS or reason.startswith(_OUT_OF) or reason in _NODE_RULES


# Static pods, which a kubelet takes from files, and the objects by which it shows them in the API.
#
# Such an object ("mirror pod") has a uid of its own and names the kubelet's in an annotation.
# Anybody who may create pods may write that annotation. So it counts only with the kubelet's other
# marks: the source of the pod, and the node that the pod is on as its owner (since Kubernetes
# 1.17). Even those can be forged; therefore no object counts as the image of a pod that the API has
# itself.


CONFIG_SOURCE: Final = "kubernetes.io/config.source"
"""Where a kubelet has a pod from; it writes this itself."""
API: Final = "api"
_MIRROR: Final = "kubernetes.io/config.mirror"


def static_uid(pod: Pod) -> str | None:
    """Return the uid by which its kubelet knows a static pod; nothing of any other pod."""
    metadata = pod.metadata
    owner = metadata.controller
    if (
        metadata.annotations.get(CONFIG_SOURCE, API) == API
        or owner is None
        or (owner.kind, owner.name) != ("Node", pod.spec.node_name)
    ):
        return None
    return metadata.annotations.get(_MIRROR) or None


def by_kubelet_uid(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Return the pods of a node by the uids by which its kubelet knows them.

    Images of pods that are there themselves are left out, and of two images of the same pod the
    younger: it is the forged one.
    """
    own = {pod.metadata.uid: pod for pod in pods}
    uids = [(static_uid(pod), pod) for pod in own.values()]
    images = [(uid, pod) for uid, pod in uids if uid is not None and uid not in own]
    images.sort(key=lambda image: image[1].metadata.creation_timestamp or "", reverse=True)
    return {pod.metadata.uid: pod for uid, pod in uids if uid is None} | dict(images)
