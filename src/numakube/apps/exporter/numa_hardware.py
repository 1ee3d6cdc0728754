"""The NUMA zones of a machine, read from sysfs file by file: what could not be read is left open.

Unlike `numakube.kubelet.machine.Machine`, which a kubelet model needs whole or not at all, a zone
that lacks a distance row or a hugepage directory is still a zone.

The links in its directory say which CPUs a NUMA node has; the kernel keeps those of CPUs that
are switched off, and `online` says which they are. A kernel without NUMA has no node
directories: each package is then a zone, which is how the kubelet sees such a machine.

Cores and caches take hundreds of files and change only when CPUs go on- or offline, so they are
kept until something else changes. Places of PCI functions are read for the devices of DRA drivers,
on nodes that have such drivers and several NUMA nodes.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.nrt import zone_name
from numakube.apps.exporter.report_options import Problem, Trouble
from numakube.errors import InvalidValue, MalformedObject
from numakube.kubelet.machines.sysfs_files import CPUS, KIB, NODES
from numakube.node.pci.pci_functions import DEVICES, number_of
from numakube.node.sysfs_machine import read_machine
from numakube.topology.pci_places import write_places
from numakube.values.cpuset import MAX_CPU_ID, CpuSet
from numakube.values.resources import hugepage_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numakube.kubelet.machine import Machine, NumaNode


NO_CPUS = CpuSet.of(())
DRA_SOCKETS: Final = "plugins/*/dra*.sock"
"""Where the kubelet reaches DRA drivers, by the convention of Kubernetes' helper for drivers."""
_NODE: Final = re.compile(r"node([0-9]+)", re.ASCII)
_CPU: Final = re.compile(r"cpu([0-9]+)", re.ASCII)
_POOL: Final = re.compile(r"hugepages-([0-9]+)kB", re.ASCII)
_MEM_TOTAL: Final = re.compile(r"MemTotal:\s*([0-9]+) kB", re.ASCII)


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


Zones: TypeAlias = tuple[ZoneHardware, ...]


class HardwareReader:
    """Reads the machine under a sysfs root such as ``/sys``, again and again."""

    def __init__(self, root: Path, kubelet: Path | None = None) -> None:
        """Read below *root*; *kubelet* is the kubelet's folder, where DRA drivers have sockets."""
        self._root = root
        self._kubelet = kubelet
        self._pci: tuple[frozenset[str], str] = frozenset(), ""
        self._cores: tuple[Zones, Machine | None, tuple[Problem, ...]] | None = None

    def read(self) -> Hardware:
        """Return the machine as it is now; its problems list what cannot be read."""
        scan = _Scan(self._root)
        zones = tuple(map(scan.zone, scan.numa_ids()))
        machine, problems = self._machine(zones)
        if not zones and machine is not None:
            return replace(hardware_of(machine), problems=problems)
        return Hardware(
            zones=zones,
            machine=machine,
            pci=self._places() if len(zones) > 1 else "",
            problems=(*scan.problems, *problems),
        )

    def _machine(self, zones: Zones) -> tuple[Machine | None, tuple[Problem, ...]]:
        if self._cores is None or self._cores[0] != zones:
            try:
                self._cores = zones, read_machine(self._root), ()
            except MalformedObject as error:
                detail = f"cores and caches are not known: {error}"
                self._cores = zones, None, (Problem(Trouble.NO_CPU_DETAILS, detail),)
        return self._cores[1:]

    def _places(self) -> str:
        """Return where PCI functions are, read again if there are others than before."""
        if self._kubelet is None or not any(self._kubelet.glob(DRA_SOCKETS)):
            return ""
        names = frozenset(_names(self._root / DEVICES))
        if names != self._pci[0]:
            folder = self._root / DEVICES
            numbers = {name: number_of(folder / name / "numa_node") for name in names}
            known = {name: None if (one or 0) < 0 else one for name, one in numbers.items()}
            self._pci = names, write_places(known)
        return self._pci[1]


class _Scan:
    """One reading of the directories of the NUMA nodes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self.online = self._cpu_list(root / CPUS / "online")

    def numa_ids(self) -> list[int]:
        """Return the ids of the NUMA nodes in order."""
        return sorted(_numbers(_NODE, _names(self.root / NODES)))

    def zone(self, numa: int) -> ZoneHardware:
        """Read the directory of one NUMA node."""
        folder = self.root / NODES / f"node{numa}"
        linked = CpuSet.of(cpu for cpu in _numbers(_CPU, _names(folder)) if cpu <= MAX_CPU_ID)
        listed = self._cpu_list(folder / "cpulist")
        cpus = linked if listed is None else linked | listed
        online = cpus if self.online is None else cpus & self.online
        return ZoneHardware(
            id=numa,
            cpus=online,
            offline_cpus=cpus - online,
            memory_bytes=self._memory(numa, folder),
            hugepages=self._hugepages(numa, folder / "hugepages"),
            distances=self._distances(numa, folder / "distance"),
        )

    def _memory(self, numa: int, folder: Path) -> int | None:
        found = _MEM_TOTAL.search(_text(folder / "meminfo") or "")
        if found is None:
            self._miss(Trouble.NO_MEMORY_SIZE, numa, "meminfo has no MemTotal")
            return None
        return int(found[1]) * KIB

    def _hugepages(self, numa: int, folder: Path) -> MappingProxyType[str, int] | None:
        if not folder.is_dir():
            self._miss(Trouble.NO_HUGEPAGES, numa, "there is no hugepages directory")
            return None
        pools = {}
        for size in sorted(_numbers(_POOL, _names(folder))):
            count = (_text(folder / f"hugepages-{size}kB" / "nr_hugepages") or "").strip()
            if not (count.isascii() and count.isdigit()):
                self._miss(Trouble.NO_HUGEPAGES, numa, f"hugepages-{size}kB has no number of pages")
                continue
            pools[hugepage_name(size * KIB)] = int(count) * size * KIB
        return MappingProxyType(pools)

    def _distances(self, numa: int, path: Path) -> tuple[int, ...] | None:
        words = (_text(path) or "").split()
        if not words or not all(word.isascii() and word.isdigit() for word in words):
            self._miss(Trouble.NO_DISTANCES, numa, "distance has no numbers; published without")
            return None
        return tuple(map(int, words))

    def _cpu_list(self, path: Path) -> CpuSet | None:
        text = _text(path)
        try:
            return None if text is None else CpuSet.parse(text.strip())
        except InvalidValue:
            return None

    def _miss(self, kind: Trouble, numa: int, detail: str) -> None:
        self.problems.append(Problem(kind, f"{zone_name(numa)}: {detail}"))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - half the time of making paths of them
    except OSError:
        return []


def _numbers(pattern: re.Pattern[str], names: Iterable[str]) -> list[int]:
    return [int(match[1]) for match in map(pattern.fullmatch, names) if match]


def _text(path: Path) -> str | None:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - so small that layers count
            return file.read().decode("ascii", errors="replace")
    except OSError:
        return None
