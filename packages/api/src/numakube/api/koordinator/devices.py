"""The Device resource, its resources, and the JSON in annotations of pods that is about devices."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from numakube.api.codec import QuantityText, ResourceList, Wire, always
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.values.resources import Amounts, add_amounts

GROUP: Final = "scheduling.koordinator.sh"
V1ALPHA1: Final = f"{GROUP}/v1alpha1"
KIND: Final = "Device"
PLURAL: Final = "devices"

GPU: Final = "gpu"
RDMA: Final = "rdma"
FPGA: Final = "fpga"

GPU_SHARE: Final = "koordinator.sh/gpu"
"""Percent of a GPU: short for as much of `GPU_CORE` and `GPU_MEMORY_RATIO`."""
GPU_CORE: Final = "koordinator.sh/gpu-core"
GPU_MEMORY: Final = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
GPU_SHARED: Final = "koordinator.sh/gpu.shared"
"""How many GPUs the other amounts are spread over."""
RDMA_SHARE: Final = "koordinator.sh/rdma"
FPGA_SHARE: Final = "koordinator.sh/fpga"
WHOLE_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu")
"""Counts of GPUs by vendor; each is 100 of `GPU_CORE` and of `GPU_MEMORY_RATIO`."""
FORMER_NAMES: Final = {
    f"kubernetes.io/{name.partition('/')[2]}": name
    for name in (GPU_SHARE, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA_SHARE, FPGA_SHARE)
}
"""Names that Koordinator gave to its resources before, and what they are called now."""


WHOLE_DEVICE: Final = 100
"""What a whole device has of a percent resource."""
_TYPE_OF: Final = {
    **dict.fromkeys(WHOLE_GPUS, GPU),
    **dict.fromkeys((GPU_SHARE, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED), GPU),
    RDMA_SHARE: RDMA,
    FPGA_SHARE: FPGA,
}


class DeviceTopology(Wire, frozen=True):
    """Where a device is; a NUMA node below 0 means that it is close to none in particular."""

    socket_id: int = msgspec.field(default=-1, name="socketID")
    node_id: int = msgspec.field(default=-1, name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")
    bus_id: str = msgspec.field(default="", name="busID")


class VirtualFunction(Wire, frozen=True):
    """A virtual function of a device; those of network cards have the minor -1, always written."""

    minor: int = msgspec.field(default_factory=lambda: -1)
    bus_id: str = msgspec.field(default="", name="busID")


class VirtualFunctionGroup(Wire, frozen=True):
    """Virtual functions that share labels."""

    labels: Mapping[str, str] = {}
    vfs: tuple[VirtualFunction, ...] = ()


class DeviceInfo(Wire, frozen=True):
    """One device of a node."""

    type: str
    id: str = msgspec.field(default="", name="id")
    minor: int = 0
    module_id: int | None = msgspec.field(default=None, name="moduleID")
    health: bool = False
    labels: Mapping[str, str] = {}
    resources: ResourceList = {}
    topology: DeviceTopology | None = None
    vf_groups: tuple[VirtualFunctionGroup, ...] = ()


class DeviceSpec(Wire, frozen=True):
    """The devices of a node."""

    devices: tuple[DeviceInfo, ...] = ()


class DeviceCr(Wire, frozen=True):
    """The devices of the node with the same name; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceSpec = DeviceSpec()
    api_version: str = always(V1ALPHA1)
    kind: str = always(KIND)


class GpuPartitionEntry(Wire, frozen=True):
    """GPUs that can be given together: `keys.GPU_PARTITIONS` has lists of them by their number."""

    minors: tuple[int, ...]
    gpu_link_type: str = ""
    ring_bus_bandwidth: QuantityText | None = None
    allocation_score: int = 0


class GpuPartitionSpec(Wire, frozen=True):
    """What a pod wants of the partition that it gets: `keys.GPU_PARTITION_SPEC`."""

    allocate_policy: str = ""
    ring_bus_bandwidth: QuantityText | None = None


class AllocationExtension(Wire, frozen=True):
    """What an allocated device has besides its minor."""

    vfs: tuple[VirtualFunction, ...] = ()


class DeviceAllocation(Wire, frozen=True):
    """A device, or a part of one, that a pod was given."""

    minor: int
    resources: ResourceList = {}
    id: str = msgspec.field(default="", name="id")
    extension: AllocationExtension | None = None


DeviceAllocations: TypeAlias = Mapping[str, tuple[DeviceAllocation, ...]]
"""By device type: `keys.DEVICE_ALLOCATED`."""


class DeviceJointAllocate(Wire, frozen=True):
    """Which devices belong together: `keys.DEVICE_JOINT_ALLOCATE`."""

    device_types: tuple[str, ...] = ()
    required_scope: str = ""


class DeviceHint(Wire, frozen=True):
    """How devices of one type are chosen: an entry of `keys.DEVICE_ALLOCATE_HINT`.

    Attributes:
        vf_selector: present if a virtual function is wanted, even if it selects nothing special.
    """

    selector: LabelSelector | None = None
    vf_selector: LabelSelector | None = None
    allocate_strategy: str = ""
    required_topology_scope: str = ""
    exclusive_policy: str = ""


DeviceHints: TypeAlias = Mapping[str, DeviceHint]


def device_type_of(resource: str) -> str:
    """Return the type of devices that *resource* is about; empty if it is about none."""
    return _TYPE_OF.get(resource, "")


def is_chosen_by_scheduler(resource: str) -> bool:
    """Tell whether no kubelet has devices of *resource*: it is one of Koordinator's own."""
    return device_type_of(resource) != "" and resource not in WHOLE_GPUS


def requests_by_type(requests: Amounts) -> dict[str, dict[str, int]]:
    """Return the part of *requests* that is about devices, by type, in the Device's resources."""
    wanted: dict[str, dict[str, int]] = {}
    for name, amount in by_present_names(requests).items():
        if amount <= 0 or name not in _TYPE_OF:
            continue
        into = wanted.setdefault(_TYPE_OF[name], {})
        for part, size in _spelled_out(name, amount).items():
            into[part] = into.get(part, 0) + size
    return wanted


def by_present_names(amounts: Amounts) -> Amounts:
    """Return *amounts* with resources under the names that they have now."""
    if amounts.keys().isdisjoint(FORMER_NAMES):
        return amounts
    renamed = ({FORMER_NAMES.get(name, name): size} for name, size in amounts.items())
    return add_amounts(*renamed)


def _spelled_out(name: str, amount: int) -> dict[str, int]:
    if name in WHOLE_GPUS:
        amount *= WHOLE_DEVICE
    elif name != GPU_SHARE:
        return {name: amount}
    return {GPU_CORE: amount, GPU_MEMORY_RATIO: amount}
