"""What a node offers to claims: its CPUs in groups, each a device of a ResourceSlice.

A CPU is in one device only, so that no two schedulers' promises can be about the same one. Names
come from hardware numbers alone: they are the same after a restart and with other settings, and so
claims that were allocated before still mean what they meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.resource_slices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
)
from numakube.values.cpuset import CpuMask, CpuSet, union

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from numakube.kubelet.cpu_topology import CpuTopology

DRIVER: Final = "numakube.dev"
CPU_CAPACITY: Final = f"{DRIVER}/cpu"
DRA_CPU: Final = "dra.cpu"
"""The name of dra-driver-cpu."""
DRA_CPU_CAPACITY: Final = f"{DRA_CPU}/cpu"
DRA_CPU_MACHINE: Final = "cpudevmachine"
"""Its device of all CPUs, of which claims have to name theirs."""
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
LONGEST_TEXT: Final = 64
"""Bytes that a string attribute can have."""


class Grouping(StrEnum):
    """Which CPUs are one device."""

    AUTO = "auto"
    NUMA = "numa"
    L3 = "l3"
    SOCKET = "socket"
    MACHINE = "machine"
    CORE = "core"
    CPU = "cpu"

    @property
    def is_shared(self) -> bool:
        """Whether several claims can have parts of a device."""
        return self not in (Grouping.CORE, Grouping.CPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuGroup:
    """CPUs that are offered as one device.

    Attributes:
        name: of the device.
        cpus: what of it can be claimed.
        is_shared: whether several claims can have parts of it.
        step: so many CPUs at a time.
        numa_nodes: those that its hardware is on.
        sockets: likewise.
        caches: the last-level caches, likewise.
        cores: physical cores.
        threads: CPUs in a core.
        capacity: what claims take parts of it by.
    """

    name: str
    cpus: CpuMask
    is_shared: bool
    step: int
    numa_nodes: tuple[int, ...]
    sockets: tuple[int, ...]
    caches: tuple[int, ...]
    cores: int
    threads: int
    capacity: str = CPU_CAPACITY


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedFunction:
    """A PCI function, or another device of a pool, that one claim at a time can have.

    Attributes:
        device: as slices have it.
        id: its name on the host: the address of a PCI function.
        resource: the pool that it is of.
        trouble: why no claim can have it now; empty if one can.
    """

    device: Device
    id: str
    resource: str
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedFunctions:
    """All devices of pools, by the names of their devices.

    Attributes:
        trouble: why some are not known; empty if there is no reason.
    """

    by_name: Mapping[str, OfferedFunction] = field(default_factory=lambda: MappingProxyType({}))
    trouble: str = ""


def cpu_groups(
    topology: CpuTopology, offered: CpuMask, grouping: Grouping, *, step: int
) -> tuple[CpuGroup, ...]:
    """Return the groups of the CPUs in *offered* that can be claimed *step* at a time.

    Where CPUs go by whole cores, a core of which some CPU is not offered is left out: claims could
    have only part of it.
    """
    if step > 1:
        whole = (cpus for cpus in topology.cores.values() if cpus & ~offered == 0)
        offered = union(whole)
    groups = (
        group_of(topology, name, CpuMask(cpus & offered), grouping=grouping, step=step)
        for name, cpus in _elements(topology, grouping)
    )
    return tuple(group for group in groups if group.cpus)


def _elements(topology: CpuTopology, grouping: Grouping) -> Iterator[tuple[str, CpuMask]]:
    """Yield name and CPUs of what the hardware has of a kind."""
    match grouping:
        case Grouping.AUTO | Grouping.NUMA:
            yield from ((f"cpu-numa{one}", cpus) for one, cpus in sorted(topology.numa.items()))
        case Grouping.L3:
            caches = sorted(topology.uncore_caches.items())
            yield from ((f"cpu-l3-{one}", cpus) for one, cpus in caches)
        case Grouping.SOCKET:
            yield from ((f"cpu-socket{n}", cpus) for n, cpus in sorted(topology.sockets.items()))
        case Grouping.MACHINE:
            yield "cpu-machine", topology.all_cpus
        case Grouping.CORE:
            yield from ((f"core-{one:04}", cpus) for one, cpus in sorted(topology.cores.items()))
        case Grouping.CPU:
            yield from ((f"cpu-{one:04}", CpuMask(1 << one)) for one in CpuSet(topology.all_cpus))


def group_of(
    topology: CpuTopology,
    name: str,
    cpus: CpuMask,
    *,
    grouping: Grouping,
    step: int,
    capacity: str = CPU_CAPACITY,
) -> CpuGroup:
    """Return the group of *cpus*, with where it is."""
    cores = [core for core in topology.cores.values() if core & cpus]
    return CpuGroup(
        name=name,
        cpus=cpus,
        is_shared=grouping.is_shared,
        step=step if grouping.is_shared else cpus.bit_count(),
        numa_nodes=_touched(topology.numa, cpus),
        sockets=_touched(topology.sockets, cpus),
        caches=_touched(topology.uncore_caches, cpus),
        cores=len(cores),
        threads=max((core.bit_count() for core in cores), default=1),
        capacity=capacity,
    )


def _touched(level: Mapping[int, CpuMask], cpus: CpuMask) -> tuple[int, ...]:
    return tuple(sorted(one for one, members in level.items() if members & cpus))


def node_allocatable(resource: str, capacity: str) -> dict[str, NodeAllocatableResource]:
    """Return that what claims take of a capacity is taken of the node (KEP-5517)."""
    mapping = NodeAllocatableResourceMapping(capacity_key=capacity, capacity_multiplier="1")
    return {resource: NodeAllocatableResource(mapping=mapping)}


def pcie_roots(numa_nodes: Collection[int], roots: Mapping[str, int]) -> dict[str, DeviceAttribute]:
    """Return which PCIe roots are on some of *numa_nodes*, of all *roots* by their own."""
    near = tuple(sorted(root for root, node in roots.items() if node in numa_nodes))
    return {PCIE_ROOT: DeviceAttribute(strings=near)} if near else {}


def device_of(group: CpuGroup) -> Device:
    """Return a group as slices have it.

    Besides ours it has the attributes of dra-driver-cpu and dranet, by which claims for those match
    devices of several drivers.
    """
    count = group.cpus.bit_count()
    attributes: dict[str, DeviceAttribute] = {
        f"{DRIVER}/kind": DeviceAttribute(string="cpu"),
        f"{DRIVER}/cores": DeviceAttribute(integer=group.cores),
        f"{DRIVER}/threadsPerCore": DeviceAttribute(integer=group.threads),
        "dra.cpu/numCPUs": DeviceAttribute(integer=count),
        "dra.cpu/smtEnabled": DeviceAttribute(boolean=group.threads > 1),
    }
    attributes |= place_attributes(group.numa_nodes, group.sockets)
    attributes |= single(group.caches, f"{DRIVER}/l3")
    text = str(CpuSet(group.cpus))
    if len(text) <= LONGEST_TEXT:
        attributes[f"{DRIVER}/cpus"] = DeviceAttribute(string=text)
    if not group.is_shared:
        return Device(name=group.name, attributes=attributes)
    policy = request_policy(count, group.step, str)
    capacity = DeviceCapacity(value=str(count), request_policy=policy)
    return Device(
        name=group.name,
        attributes=attributes,
        capacity={group.capacity: capacity},
        allow_multiple_allocations=True,
    )


def place_attributes(
    numa_nodes: tuple[int, ...], sockets: tuple[int, ...]
) -> dict[str, DeviceAttribute]:
    """Return where a device is, as far as that is one place, in the words of all drivers."""
    return {
        **single(numa_nodes, NUMA_NODE, "dra.cpu/numaNodeID", "dra.net/numaNode"),
        **single(sockets, f"{DRIVER}/socket", "dra.cpu/socketID"),
    }


def single(numbers: tuple[int, ...], *names: str) -> dict[str, DeviceAttribute]:
    """Return an attribute for the one number that there is; of several none would be true."""
    if len(numbers) != 1:
        return {}
    return dict.fromkeys(names, DeviceAttribute(integer=numbers[0]))


def request_policy(count: int, step: int, text: Callable[[int], str]) -> CapacityRequestPolicy:
    """Return how requests are rounded: a request without an amount takes all.

    A range has to have room for one step at least; a group that is smaller has one valid amount.
    """
    most = count - count % step or count
    if 2 * step > most:
        return CapacityRequestPolicy(default=text(most), valid_values=(text(most),))
    valid = CapacityRequestPolicyRange(min=text(step), step=text(step))
    return CapacityRequestPolicy(default=text(most), valid_range=valid)
