"""The JSON in annotations of pods: what users wish, and what a scheduler gave."""

import msgspec

from numakube.api.codec import ResourceList, Wire
from numakube.api.koordinator.devices import DeviceAllocations


class NumaTopologySpec(Wire, frozen=True):
    """What a pod (`keys.NUMA_TOPOLOGY_SPEC`) or one of its containers wants of NUMA alignment.

    Attributes:
        numa_topology_policy: ``BestEffort``, ``Restricted``, ``SingleNUMANode`` or empty.
        single_numa_node_exclusive: ``Preferred``, ``Required`` or empty.
        numa_topology_scope: ours: ``pod``, ``container`` or empty.
        numa_allocate_strategy: ``MostAllocated``, ``LeastAllocated``, ``DistributeEvenly`` or
            empty.
        ignored: ours, for a single container: it is not aligned and blocks nothing.
        ignored_resources: ours, for a pod: resources that are not aligned, such as ``memory``.
    """

    numa_topology_policy: str = msgspec.field(default="", name="numaTopologyPolicy")
    single_numa_node_exclusive: str = msgspec.field(default="", name="singleNUMANodeExclusive")
    numa_topology_scope: str = msgspec.field(default="", name="numaTopologyScope")
    numa_allocate_strategy: str = msgspec.field(default="", name="numaAllocateStrategy")
    ignored: bool = False
    ignored_resources: tuple[str, ...] = ()


class ResourceSpec(Wire, frozen=True):
    """How a pod's CPUs are bound: `keys.RESOURCE_SPEC`."""

    required_cpu_bind_policy: str = msgspec.field(default="", name="requiredCPUBindPolicy")
    preferred_cpu_bind_policy: str = msgspec.field(default="", name="preferredCPUBindPolicy")
    preferred_cpu_exclusive_policy: str = msgspec.field(
        default="", name="preferredCPUExclusivePolicy"
    )


class NumaNodeResource(Wire, frozen=True):
    """What is taken of one NUMA node; nothing if the pod may use it but needs none of it yet."""

    node: int
    resources: ResourceList = {}


class ContainerResourceStatus(Wire, frozen=True):
    """Ours: what one container was given."""

    name: str
    cpuset: str = ""
    numa_node_resources: tuple[NumaNodeResource, ...] = ()
    devices: DeviceAllocations = {}


class ResourceStatus(Wire, frozen=True):
    """What a scheduler gave a pod: `keys.RESOURCE_STATUS`.

    Attributes:
        cpuset: a CPU list, only for pods whose CPUs are bound: the union over containers.
        numa_node_resources: only if the pod was placed on NUMA nodes: the sum over containers.
        containers: ours: with scope container, what each was given.
    """

    cpuset: str = ""
    numa_node_resources: tuple[NumaNodeResource, ...] = ()
    containers: tuple[ContainerResourceStatus, ...] = ()


class KaiZone(Wire, frozen=True):
    """What a pod takes of one zone by KAI's word: an entry of `keys.KAI_OBSERVED`."""

    zone: str
    amount: ResourceList = {}
