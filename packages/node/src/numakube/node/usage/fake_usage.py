"""Writes what a kernel counts into a tree of plain files, for the lab and for tests.

    usage = FakeUsage(sysfs, proc, version=Version.V2)
    usage.zone(0, total=32 << 30, free=8 << 30)
    usage.memory(group, mapped={0: 930 << 20, 1: 70 << 20})

Groups, NUMA nodes and CPUs themselves are made by `numakube.node.cgroups.FakeCgroups` and
`numakube.node.sysfs_machine.write_tree`. Files are written as the kernels of 6.1 to 6.18 write
them, with lines that nobody here reads left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from numakube.node.cgroups.group_files import Version
from numakube.node.pci.pci_functions import DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_KIB: Final = 1 << 10
_TICKS: Final = 100
_MICROSECONDS: Final = 1_000_000
_NANOSECONDS: Final = 1_000_000_000
_BEHIND_NAME: Final = 50
_LAST_CPU: Final = 36


class FakeUsage:
    """Files below one sysfs and one procfs.

    Attributes:
        sysfs: has control groups in ``fs/cgroup``.
        proc: made if need be.
    """

    def __init__(self, sysfs: Path, proc: Path, *, version: Version = Version.V2) -> None:
        self.sysfs = sysfs
        self.proc = proc
        self._is_v2 = version is Version.V2
        self._cgroups = sysfs / "fs/cgroup"

    def zone(
        self,
        node: int,
        *,
        total: int,
        free: int,
        cache: int = 0,
        shared: int = 0,
        counters: Mapping[str, int] | None = None,
    ) -> None:
        """Write the memory of a NUMA node, in bytes, and where memory was taken from, in pages."""
        folder = self.sysfs / f"devices/system/node/node{node}"
        sizes = {
            "MemTotal": total,
            "MemFree": free,
            "MemUsed": total - free,
            "FilePages": cache,
            "AnonPages": max(0, total - free - cache),
            "Shmem": shared,
        }
        lines = (f"Node {node} {name}: {size // _KIB:>14} kB" for name, size in sizes.items())
        _write(folder / "meminfo", lines)
        known = dict.fromkeys(("numa_hit", "numa_miss", "numa_foreign", "local_node"), 0)
        counted = {**known, **(counters or {})}
        _write(folder / "numastat", (f"{name} {count}" for name, count in counted.items()))

    def online(self, nodes: str) -> None:
        """Write which NUMA nodes there are, such as ``0-33``."""
        _write(self.sysfs / "devices/system/node/online", (nodes,))

    def memory(
        self,
        group: str,
        *,
        mapped: Mapping[int, int],
        cache: Mapping[int, int] | None = None,
        huge: Mapping[str, Mapping[int, int]] | None = None,
    ) -> None:
        """Write the memory of a group in bytes by NUMA node; *huge* by size, such as ``2MB``."""
        folder = self._folder("memory", group)
        cache = cache or {}
        if self._is_v2:
            nodes = sorted({*mapped, *cache})
            lists = {
                "anon": mapped,
                "file": cache,
                "kernel_stack": {},
                "pagetables": {},
                "file_mapped": {},
                "slab_reclaimable": {},
                "slab_unreclaimable": {},
            }
            lines = [f"{name} {_by_node(of, nodes)}" for name, of in lists.items()]
        else:
            lines = self._pages(mapped, cache)
        _write(folder / "memory.numa_stat", lines)
        for size, of in (huge or {}).items():
            place = self._folder("hugetlb", group) / f"hugetlb.{size}.numa_stat"
            text = f"total={sum(of.values())} {_by_node(of, sorted(of))}"
            _write(place, (text,) if self._is_v2 else (text, f"hierarchical_{text}"))

    @staticmethod
    def _pages(mapped: Mapping[int, int], cache: Mapping[int, int]) -> list[str]:
        page = os.sysconf("SC_PAGE_SIZE")
        nodes = sorted({*mapped, *cache})
        lists = {"file": cache, "anon": mapped, "unevictable": {}}
        whole = {node: mapped.get(node, 0) + cache.get(node, 0) for node in nodes}
        lines = []
        for prefix in ("", "hierarchical_"):
            for name, of in {"total": whole, **lists}.items():
                pages = {node: of.get(node, 0) // page for node in nodes}
                lines.append(f"{prefix}{name}={sum(pages.values())} {_by_node(pages, nodes)}")
        return lines

    def cpu_time(
        self, group: str, used: float, *, throttled: float = 0.0, stopped: int = 0, periods: int = 0
    ) -> None:
        """Write the CPU time of a group in seconds, and in how many periods it was stopped."""
        counters = {"nr_periods": periods, "nr_throttled": stopped}
        if self._is_v2:
            counters = {
                "usage_usec": round(used * _MICROSECONDS),
                **counters,
                "throttled_usec": round(throttled * _MICROSECONDS),
            }
        else:
            counters["throttled_time"] = round(throttled * _NANOSECONDS)
            _write(
                self._folder("cpu,cpuacct", group) / "cpuacct.usage",
                (str(round(used * _NANOSECONDS)),),
            )
        lines = (f"{name} {count}" for name, count in counters.items())
        _write(self._folder("cpu,cpuacct", group) / "cpu.stat", lines)

    def pressure(self, group: str, **shares: float) -> None:
        """Write shares of the last minute by kind: ``memory=0.2``; only version 2 has them."""
        for kind, share in shares.items() if self._is_v2 else ():
            text = f"some avg10=0.00 avg60={100 * share:.2f} avg300=0.00 total=0"
            _write(
                self._folder("memory", group) / f"{kind}.pressure",
                (text, text.replace("some", "full")),
            )

    def confine(self, group: str, *, cpus: str, mems: str) -> None:
        """Write which CPUs and NUMA nodes are in force for a group."""
        names = (
            ("cpuset.cpus.effective", "cpuset.mems.effective")
            if self._is_v2
            else ("cpuset.effective_cpus", "cpuset.effective_mems")
        )
        for name, text in zip(names, (cpus, mems), strict=True):
            _write(self._folder("cpuset", group) / name, (text,))

    def threads(self, group: str, processes: Mapping[int, Iterable[int]]) -> None:
        """Write processes of a group: for each of its threads the CPU on which that ran last."""
        line = f"0::/../{group}" if self._is_v2 else f"5:cpuset:/{group}"
        for pid, cpus in processes.items():
            _write(self.proc / f"{pid}/cgroup", (line,))
            for place, cpu in enumerate(cpus):
                words = ["0"] * _BEHIND_NAME
                words[0], words[_LAST_CPU] = "S", str(cpu)
                _write(
                    self.proc / f"{pid}/task/{pid + place}/stat",
                    (f"{pid + place} (a b) c) {' '.join(words)}",),
                )

    def cpus(self, seconds: Mapping[int, tuple[float, float]]) -> None:
        """Write how long each CPU was busy, and how much of it a hypervisor took."""
        lines = [
            f"cpu{cpu} {round(busy * _TICKS)} 0 0 0 0 0 0 {round(stolen * _TICKS)} 0 0"
            for cpu, (busy, stolen) in sorted(seconds.items())
        ]
        _write(self.proc / "stat", ["cpu  0 0 0 0 0 0 0 0 0 0", *lines, "intr 0 0", "ctxt 0"])

    def interrupts(self, cpus: int, counts: Mapping[int, Mapping[int, int]]) -> None:
        """Write how often interrupts came by CPU, on a machine of so many."""
        lines = ["           " + " ".join(f"CPU{cpu}" for cpu in range(cpus))]
        for irq, by_cpu in counts.items():
            words = " ".join(f"{by_cpu.get(cpu, 0):>10}" for cpu in range(cpus))
            lines.append(f"{irq:>4}: {words}  PCI-MSIX-0000:3b:00.0   0-edge      mlx5_async0")
        _write(self.proc / "interrupts", [*lines, " NMI:          0   Non-maskable interrupts"])

    def affinity(self, irq: int, cpus: str, *, effective: str = "") -> None:
        """Write which CPUs may take an interrupt, and which do."""
        _write(self.proc / f"irq/{irq}/smp_affinity_list", (cpus,))
        if effective:
            _write(self.proc / f"irq/{irq}/effective_affinity_list", (effective,))

    def device(self, address: str, interrupts: Iterable[int]) -> None:
        """Write the interrupts of a PCI function."""
        for irq in interrupts:
            _write(self.sysfs / DEVICES / address / f"msi_irqs/{irq}", ("msix",))

    def traffic(
        self, group: str, by_cache: Mapping[int, tuple[int, int, int]], *, inside: str = ""
    ) -> None:
        """Write bytes moved, moved locally and kept in caches, of a group of resctrl.

        Args:
            group: the empty text for all tasks without one.
            by_cache: by the id of the cache.
            inside: the group for control that it is in, if it is one for monitoring.
        """
        root = self.sysfs / "fs/resctrl"
        folder = root / inside / "mon_groups" / group if inside or group else root
        for cache, amounts in by_cache.items():
            names = ("mbm_total_bytes", "mbm_local_bytes", "llc_occupancy")
            for name, amount in zip(names, amounts, strict=True):
                _write(folder / f"mon_data/mon_L3_{cache:02}/{name}", (str(amount),))

    def settings(self, *, numa_balancing: int = 0, huge: str = "madvise", reclaim: int = 0) -> None:
        """Write settings of the kernel."""
        _write(self.proc / "sys/kernel/numa_balancing", (str(numa_balancing),))
        _write(self.proc / "sys/vm/zone_reclaim_mode", (str(reclaim),))
        choices = (f"[{one}]" if one == huge else one for one in ("always", "madvise", "never"))
        _write(self.sysfs / "kernel/mm/transparent_hugepage/enabled", (" ".join(choices),))

    def _folder(self, controller: str, group: str) -> Path:
        return self._cgroups / group if self._is_v2 else self._cgroups / controller / group


def _by_node(amounts: Mapping[int, int], nodes: Iterable[int]) -> str:
    return " ".join(f"N{node}={amounts.get(node, 0)}" for node in nodes)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
