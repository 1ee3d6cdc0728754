"""What the processes of a control group use: memory by NUMA node, CPU time, pressure.

With version 2 of control groups all files are in one folder; with version 1 every controller has a
tree of its own. Version 2 counts bytes and tells a group with everything below it; version 1 counts
pages, and its ``hierarchical_`` lines do that (Linux 4.10 to 6.18, mm/memcontrol.c).

What programs have mapped counts as theirs: anonymous memory, files that they have mapped, and huge
pages. The page cache of files that were merely read is apart: the kernel takes it back, and the one
who read a file first pays for everybody. Version 1 does not tell mapped files from others, so there
anonymous and locked memory counts.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.node.cgroups.group_files import Version
from numakube.node.usage.kernel_files import (
    Untold,
    cpus_of,
    lists_by_node,
    number,
    pairs,
    read_text,
)
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MEMORY_BY_NODE: Final = "memory of pods by NUMA node"
PRESSURE: Final = "pressure of pods"
THROTTLING: Final = "throttled CPU time of pods"
EFFECTIVE_CPUS: Final = "CPUs of containers"

_KIB: Final = 1 << 10
_MIB_KIB: Final = 1 << 10
_GIB_KIB: Final = 1 << 20
_MICROSECONDS: Final = 1e-6
_NANOSECONDS: Final = 1e-9
_KERNEL: Final = (
    "kernel_stack",
    "pagetables",
    "sec_pagetables",
    "slab_reclaimable",
    "slab_unreclaimable",
)
_CPU_MOUNTS: Final = ("cpu,cpuacct", "cpu")
_TIME_MOUNTS: Final = ("cpu,cpuacct", "cpuacct")


@dataclass(frozen=True, slots=True)
class MemoryByNode:
    """Bytes by NUMA node.

    Attributes:
        mapped: what programs have mapped.
        cache: files that are kept in memory and mapped by nobody, as far as that is told apart.
        kernel: what the kernel keeps for them; empty with version 1.
    """

    mapped: Mapping[int, int]
    cache: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    kernel: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    def all(self) -> dict[int, int]:
        """Return everything that is charged to the group."""
        return dict(_sum((self.mapped, self.cache, self.kernel)))


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Seconds since the group was made.

    Attributes:
        used: of all processes in it.
        throttled: that it was kept from running by its quota.
        throttled_periods: how many periods of *periods* it was so.
    """

    used: float | None = None
    throttled: float | None = None
    throttled_periods: int = 0
    periods: int = 0


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """What one group uses; ``None`` stands for what the kernel does not tell.

    Attributes:
        memory_pressure: the share of the last minute in which some process waited for memory.
        cpu_pressure: likewise for a CPU.
    """

    memory: MemoryByNode | None = None
    cpu_time: CpuTime = CpuTime()
    memory_pressure: float | None = None
    cpu_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class GroupPlaces:
    """Where the files of groups are: folders as plain text, empty if there is none."""

    version: Version
    cpuset: str
    cpu: str
    time: str
    memory: str
    hugetlb: str

    @classmethod
    def below(cls, root: Path) -> GroupPlaces | None:
        """Return those below *root*, such as ``/sys/fs/cgroup``; ``None`` without groups."""
        if (root / "cgroup.controllers").is_file():
            text = str(root)
            return cls(Version.V2, text, text, text, text, text)
        if not (root / "cpuset").is_dir() and not (root / "memory").is_dir():
            return None
        return cls(
            Version.V1,
            cpuset=_place(root, ("cpuset",)),
            cpu=_place(root, _CPU_MOUNTS),
            time=_place(root, _TIME_MOUNTS),
            memory=_place(root, ("memory",)),
            hugetlb=_place(root, ("hugetlb",)),
        )


def _place(root: Path, names: Iterable[str]) -> str:
    return next((str(root / name) for name in names if (root / name).is_dir()), "")


class GroupReader:
    """Reads groups of one hierarchy.

    Args:
        places: where they are.
        page_kib: the sizes of huge pages that the machine has pools of, in KiB.
        untold: told what the kernel does not tell.
    """

    def __init__(
        self, places: GroupPlaces, *, page_kib: Iterable[int] = (), untold: Untold
    ) -> None:
        self._places = places
        self._huge = tuple(f"hugetlb.{_page_name(size)}.numa_stat" for size in sorted(page_kib))
        self._untold = untold
        self._is_v2 = places.version is Version.V2
        self._page = os.sysconf("SC_PAGE_SIZE")

    def usage(self, group: str) -> GroupUsage:
        """Return what *group* and everything below it uses; unknowns if it is gone."""
        return GroupUsage(
            memory=self.memory(group),
            cpu_time=self.cpu_time(group),
            memory_pressure=self._pressure(group, "memory"),
            cpu_pressure=self._pressure(group, "cpu"),
        )

    def memory(self, group: str) -> MemoryByNode | None:
        """Return the memory of *group* by NUMA node."""
        text = self._text(self._places.memory, group, "memory.numa_stat", MEMORY_BY_NODE)
        if text is None:
            return None
        lists = lists_by_node(text)
        known = self._second(lists) if self._is_v2 else self._first(lists)
        if known is None:
            self._untold.note(MEMORY_BY_NODE, "memory.numa_stat is not what a kernel writes")
            return None
        huge = self._huge_pages(group)
        return MemoryByNode(_sum((known.mapped, huge)), known.cache, known.kernel)

    @staticmethod
    def _second(lists: Mapping[str, Mapping[int, int]]) -> MemoryByNode | None:
        if "anon" not in lists or "file" not in lists:
            return None
        mapped = _sum((lists["anon"], lists.get("file_mapped", {})))
        cache = Counter(lists["file"])
        cache.subtract(lists.get("file_mapped", {}))
        kernel = _sum(lists.get(name, {}) for name in _KERNEL)
        return MemoryByNode(mapped, {node: max(0, size) for node, size in cache.items()}, kernel)

    def _first(self, lists: Mapping[str, Mapping[int, int]]) -> MemoryByNode | None:
        prefix = "hierarchical_" if "hierarchical_total" in lists else ""
        if f"{prefix}anon" not in lists or f"{prefix}file" not in lists:
            return None
        mapped = _sum((lists[f"{prefix}anon"], lists.get(f"{prefix}unevictable", {})))
        return MemoryByNode(self._bytes(mapped), self._bytes(lists[f"{prefix}file"]))

    def _bytes(self, pages: Mapping[int, int]) -> dict[int, int]:
        return {node: count * self._page for node, count in pages.items()}

    def _huge_pages(self, group: str) -> Mapping[int, int]:
        """Return the bytes of huge pages by NUMA node; a kernel before 5.16 does not tell."""
        found: Counter[int] = Counter()
        for name in self._huge:
            text = self._text(self._places.hugetlb, group, name, "")
            lists = lists_by_node(text) if text else {}
            found.update(lists.get("hierarchical_total") or lists.get("total") or {})
        return found

    def cpu_time(self, group: str) -> CpuTime:
        """Return the CPU time of *group*."""
        text = self._text(self._places.cpu, group, "cpu.stat", THROTTLING)
        counters = pairs(text) if text else {}
        throttled = counters.get("throttled_usec" if self._is_v2 else "throttled_time")
        unit = _MICROSECONDS if self._is_v2 else _NANOSECONDS
        return CpuTime(
            used=self._used(group, counters),
            throttled=None if throttled is None else throttled * unit,
            throttled_periods=counters.get("nr_throttled", 0),
            periods=counters.get("nr_periods", 0),
        )

    def _used(self, group: str, counters: Mapping[str, int]) -> float | None:
        if self._is_v2:
            used = counters.get("usage_usec")
            return None if used is None else used * _MICROSECONDS
        text = self._text(self._places.time, group, "cpuacct.usage", "")
        used = number(text.strip()) if text else None
        return None if used is None else used * _NANOSECONDS

    def _pressure(self, group: str, kind: str) -> float | None:
        """Return the share of the last minute that some process of *group* waited."""
        if not self._is_v2:
            self._untold.note(PRESSURE, "only version 2 of control groups has it")
            return None
        text = self._text(self._places.memory, group, f"{kind}.pressure", PRESSURE)
        return None if text is None else pressure_of(text)

    def cpus(self, group: str) -> CpuSet | None:
        """Return the CPUs on which processes of *group* may run."""
        name = "cpuset.cpus.effective" if self._is_v2 else "cpuset.effective_cpus"
        text = self._text(self._places.cpuset, group, name, EFFECTIVE_CPUS)
        return None if text is None else CpuSet.of(cpus_of(text))

    def memory_nodes(self, group: str) -> tuple[int, ...] | None:
        """Return the NUMA nodes from which processes of *group* may take memory."""
        name = "cpuset.mems.effective" if self._is_v2 else "cpuset.effective_mems"
        text = self._text(self._places.cpuset, group, name, "")
        return None if text is None else tuple(cpus_of(text))

    def _text(self, place: str, group: str, name: str, what: str) -> str | None:
        if not place:
            if what:
                self._untold.note(what, f"no control group has {name}")
            return None
        return read_text(
            f"{place}/{group}/{name}", untold=self._untold if what else None, what=what
        )


def pressure_of(text: str) -> float | None:
    """Return the share of the last minute in a file of pressure: ``some avg10=.. avg60=..``."""
    for line in text.splitlines():
        words = line.split()
        for word in words if words[:1] == ["some"] else ():
            name, _, percent = word.partition("=")
            if name == "avg60":
                return _share(percent)
    return None


def _share(percent: str) -> float | None:
    whole, _, part = percent.partition(".")
    if number(whole) is None or number(part or "0") is None:
        return None
    return min(1.0, float(percent) / 100)


def _page_name(kib: int) -> str:
    """Return a page size as control groups write it: ``2MB``."""
    for unit, size in (("GB", _GIB_KIB), ("MB", _MIB_KIB)):
        if kib >= size:
            return f"{kib // size}{unit}"
    return f"{kib}KB"


def _sum(parts: Iterable[Mapping[int, int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for part in parts:
        for node, amount in part.items():
            total[node] += amount
    return total
