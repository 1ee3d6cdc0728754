"""A node's CPUs as dra-driver-cpu offers them (0.2, commit de98098), for ``--compatible``.

Names, attributes and capacities are its own, so that classes, claims and selectors written for it
find what they look for. Its devices have no request policy: a request without an amount takes the
whole group, and an amount that is not whole is refused when the claim is prepared. Single CPUs are
numbered through the cores, siblings next to each other, reserved ones left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace as replace_fields

from numakube.api.resource_slices import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
)
from numakube.values.cpuset import CpuMask, CpuSet
from numakube_dra_driver.devices import (
    DRA_CPU,
    DRA_CPU_CAPACITY,
    DRA_CPU_MACHINE,
    NUMA_NODE,
    CpuGroup,
    Grouping,
    group_of,
    single,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kubelet.cpu_topology import CpuTopology
    from numakube.kubelet.machine import Core, Machine

_CORE_TYPES: Final = {1: "e-core", 2: "p-core"}


def compatible_groups(
    topology: CpuTopology, offered: CpuMask, grouping: Grouping
) -> tuple[CpuGroup, ...]:
    """Return the groups of the CPUs in *offered*, by the names of dra-driver-cpu."""
    return tuple(
        group_of(topology, name, cpus, grouping=grouping, step=1, capacity=DRA_CPU_CAPACITY)
        for name, all_cpus in _elements(topology, offered, grouping)
        if (cpus := CpuMask(all_cpus & offered))
    )


def _elements(
    topology: CpuTopology, offered: CpuMask, grouping: Grouping
) -> Iterator[tuple[str, CpuMask]]:
    if grouping is Grouping.CPU:
        for number, cpu in enumerate(_by_core(topology, offered)):
            yield f"cpudev{number:03}", CpuMask(1 << cpu)
    elif grouping is Grouping.MACHINE:
        yield DRA_CPU_MACHINE, topology.all_cpus
    elif grouping is Grouping.SOCKET:
        yield from ((f"cpudevsocket{n:03}", c) for n, c in sorted(topology.sockets.items()))
    else:
        yield from ((f"cpudevnuma{n:03}", c) for n, c in sorted(topology.numa.items()))


def _by_core(topology: CpuTopology, offered: CpuMask) -> Iterator[int]:
    """Yield CPUs by the lowest CPU of their cores, siblings next to each other."""
    cores = [CpuSet(cpus) for one in topology.cores.values() if (cpus := CpuMask(one & offered))]
    for core in sorted(cores, key=min):
        yield from core


def compatible_device(group: CpuGroup, machine: Machine) -> Device:
    """Return a group as slices of dra-driver-cpu have it."""
    count = group.cpus.bit_count()
    threads = {len(core.threads) for node in machine.nodes for core in node.cores}
    attributes: dict[str, DeviceAttribute] = {
        f"{DRA_CPU}/smtEnabled": DeviceAttribute(boolean=max(threads, default=1) > 1),
        **single(group.sockets, f"{DRA_CPU}/socketID"),
    }
    if group.is_shared:
        attributes[f"{DRA_CPU}/numCPUs"] = DeviceAttribute(integer=count)
    else:
        attributes |= _of_one_cpu(group, machine, mixed=len(threads) > 1)
    if not group.is_shared or group.name.startswith("cpudevnuma"):
        names = (NUMA_NODE, f"{DRA_CPU}/numaNodeID", "dra.net/numaNode")
        attributes |= single(group.numa_nodes, *names)
    device = Device(name=group.name, attributes=attributes)
    if group.is_shared:
        device = replace_fields(
            device,
            capacity={DRA_CPU_CAPACITY: DeviceCapacity(value=str(count))},
            allow_multiple_allocations=True,
        )
    return device


def _of_one_cpu(group: CpuGroup, machine: Machine, *, mixed: bool) -> dict[str, DeviceAttribute]:
    (cpu,) = CpuSet(group.cpus)
    core = _core_of(machine, cpu)
    kind = _CORE_TYPES.get(len(core.threads), "standard") if mixed else "standard"
    return {
        f"{DRA_CPU}/cpuID": DeviceAttribute(integer=cpu),
        f"{DRA_CPU}/coreID": DeviceAttribute(integer=core.id),
        f"{DRA_CPU}/coreType": DeviceAttribute(string=kind),
        **single(group.caches, f"{DRA_CPU}/cacheL3ID"),
    }


def _core_of(machine: Machine, cpu: int) -> Core:
    return next(core for node in machine.nodes for core in node.cores if cpu in core.threads)
