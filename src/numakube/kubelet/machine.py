"""A machine as the kubelet sees it: NUMA nodes with cores, memory, hugepages, distances, devices.

The shape follows cAdvisor's MachineInfo, which is what the kubelet's managers read. Node ids may
have holes; a node may have no CPUs (CXL memory) or no memory; cores may differ in thread count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.kubelet.device_connections import NO_TREE, DeviceTree

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class HugePages:
    """A pool of hugepages of one size on one NUMA node."""

    page_bytes: int
    count: int

    @property
    def total_bytes(self) -> int:
        """Bytes in the pool."""
        return self.page_bytes * self.count


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core. ``id`` is the kernel's core id, which is unique only within a socket."""

    id: int
    threads: tuple[int, ...]
    socket: int
    uncore_cache: int | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node.

    ``distances`` has an entry for every node of the machine in ascending order of their ids, as
    the kernel prints them; it is empty when the kernel gave none.
    """

    id: int
    memory_bytes: int
    cores: tuple[Core, ...] = ()
    hugepages: tuple[HugePages, ...] = ()
    distances: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A device-plugin device; no ``numa_nodes`` means that its plugin reported no topology.

    ``pci`` is the address of the physical PCI function that it is, or is a part of; empty if that
    is not known. The kubelet does not look at it.
    """

    id: str
    numa_nodes: tuple[int, ...] = ()
    healthy: bool = True
    pci: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A whole machine, with the devices that its device plugins announce by resource name.

    ``tree`` says how the devices are connected, as far as that is known; the kubelet does not ask.
    """

    nodes: tuple[NumaNode, ...]
    cpu_count: int
    socket_count: int
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=lambda: MappingProxyType({}))
    tree: DeviceTree = NO_TREE
