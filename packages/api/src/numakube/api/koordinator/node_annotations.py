"""The JSON in annotations of nodes and NodeResourceTopologies.

Owners of nodes and Koordinator's manager write on the Node; koordlet writes what it found on the
NodeResourceTopology, where it also copies some of the Node's annotations.
"""

from collections.abc import Mapping

import msgspec

from numakube.api.codec import ResourceList, Wire


class CpuInfo(Wire, frozen=True):
    """Where one logical CPU is."""

    id: int
    core: int
    socket: int
    node: int


class AnnotatedCpuTopology(Wire, frozen=True):
    """All logical CPUs: `keys.CPU_TOPOLOGY`."""

    detail: tuple[CpuInfo, ...] = ()


class CpuManagerPolicy(Wire, frozen=True):
    """The kubelet's CPU Manager configuration: `keys.CPU_MANAGER_POLICY`."""

    policy: str = ""
    options: Mapping[str, str] = {}
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")


class PodCpuAlloc(Wire, frozen=True):
    """CPUs that a pod holds: an entry of `keys.POD_CPU_ALLOCS`."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    cpuset: str = ""
    managed_by_kubelet: bool = False


class CpuSharedPool(Wire, frozen=True):
    """CPUs of one NUMA node that pods share: an entry of `keys.CPU_SHARED_POOLS`."""

    socket: int
    node: int
    cpuset: str = ""


class CpuBasicInfo(Wire, frozen=True):
    """The make of the CPUs: `keys.CPU_BASIC_INFO`."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False
    cat_l3_cbm_mask: str = msgspec.field(default="", name="catL3CbmMask")
    vendor_id: str = msgspec.field(default="", name="vendorID")


class NodeReservation(Wire, frozen=True):
    """What the owner of a node keeps from pods: `keys.NODE_RESERVATION`."""

    resources: ResourceList = {}
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")
    apply_policy: str = ""


class SystemQosResource(Wire, frozen=True):
    """CPUs of the system's own processes: `keys.NODE_SYSTEM_QOS`.

    Attributes:
        cpuset_exclusive: whether pods keep off them; they do unless it says otherwise.
    """

    cpuset: str = ""
    cpuset_exclusive: bool | None = None
