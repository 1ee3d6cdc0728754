"""The NUMA zones of a machine as far as sysfs tells: what could not be read is left open.

Unlike `numakube.kubelet.machine.Machine`, which a kubelet model needs whole or not at all, a zone
is described file by file: one that lacks a distance row or a hugepage directory is still a zone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.values.cpuset import CpuSet
from numakube.values.resources import hugepage_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.exporter.problems import Problem
    from numakube.kubelet.machine import Machine, NumaNode

NO_CPUS = CpuSet.of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneHardware:
    """One NUMA node; ``None`` stands for what its files did not tell.

    Attributes:
        cpus: the CPUs that are online.
        offline_cpus: those that are switched off: they are in no capacity.
        hugepages: bytes in the pool of each page size, by resource name.
        distances: the kernel's row: an entry a NUMA node of the machine, in order of their ids.
    """

    id: int
    cpus: CpuSet = NO_CPUS
    offline_cpus: CpuSet = NO_CPUS
    memory_bytes: int | None = None
    hugepages: Mapping[str, int] | None = None
    distances: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A machine's zones in order of their ids, and what could not be read.

    Attributes:
        machine: the same machine as a kubelet sees it, with cores and caches; ``None`` if sysfs
            tells too little for that. Only exact data needs it.
        pci: on which NUMA nodes PCI functions are (`numakube.topology.pci_places`); empty where no
            one needs it.
    """

    zones: tuple[ZoneHardware, ...] = ()
    machine: Machine | None = None
    pci: str = ""
    problems: tuple[Problem, ...] = ()
    _owners: Mapping[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owners = {cpu: zone.id for zone in self.zones for cpu in zone.cpus}
        object.__setattr__(self, "_owners", MappingProxyType(owners))

    def numa_of(self, cpu: int) -> int | None:
        """Return the NUMA node that has *cpu*; none if it is offline or unknown."""
        return self._owners.get(cpu)


def hardware_of(machine: Machine) -> Hardware:
    """Return the zones of a machine that is known completely."""
    zones = sorted(map(_zone, machine.nodes), key=lambda zone: zone.id)
    return Hardware(zones=tuple(zones), machine=machine)


def _zone(node: NumaNode) -> ZoneHardware:
    return ZoneHardware(
        id=node.id,
        cpus=CpuSet.of(cpu for core in node.cores for cpu in core.threads),
        memory_bytes=node.memory_bytes,
        hugepages=MappingProxyType(
            {hugepage_name(pool.page_bytes): pool.total_bytes for pool in node.hugepages}
        ),
        distances=node.distances or None,
    )
