"""Memory of NUMA nodes as it is used, and settings of the kernel that move memory about.

``/sys/devices/system/node/node*/{meminfo,numastat,vmstat}`` and ``hugepages``, which any user may
read. Counters of allocations never fall, so a rate is the difference of two readings. Settings are
those that work against pods with a place: automatic NUMA balancing unmaps memory to see who uses
it, zone reclaim drops files before memory is taken from elsewhere, and huge pages that are made
behind a program's back are moved and split (Linux 6.12, Documentation/admin-guide/sysctl).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.node.usage.kernel_files import cpus_of, names_in, number, pairs, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube.node.usage.kernel_files import Untold

ZONE_MEMORY: Final = "memory of NUMA nodes"
ZONE_ALLOCATIONS: Final = "where memory was taken from"
CPU_STEAL: Final = "CPU time that a hypervisor took"

_NODES: Final = "devices/system/node"
_KIB: Final = 1 << 10
_MOST_STAT_BYTES: Final = 8 << 20
"""``/proc/stat`` has a line of counters of interrupts: some MiB on the largest machines."""
_TICKS: Final = 100.0
"""Ticks of a second in ``/proc``: the same on every architecture of Linux."""
_STEAL: Final = 7
_BUSY: Final = (0, 1, 2)
"""The places of user, nice and system time; interrupts are apart."""
_CPU_FIELDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneMemory:
    """Bytes of one NUMA node.

    Attributes:
        cache: files that are kept in memory, those of tmpfs included.
        shared: those of tmpfs and shared memory, which cannot be dropped.
        mapped_anonymous: memory of programs that is no file's.
        allocations: pages by where their process ran and wanted them from: ``local_node``,
            ``other_node``, ``numa_miss`` (it wanted another), ``numa_foreign`` (wanted here, taken
            elsewhere), and what was promoted and demoted between tiers.
        huge_total: bytes of huge pages by page size in KiB; so is ``huge_free``.
    """

    id: int
    total: int | None = None
    free: int | None = None
    cache: int | None = None
    shared: int | None = None
    mapped_anonymous: int | None = None
    allocations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    huge_total: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    huge_free: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def available(self) -> int | None:
        """What programs can have: what is free, and files that can be dropped."""
        if self.free is None:
            return None
        return self.free + max(0, (self.cache or 0) - (self.shared or 0))


_COUNTED: Final[tuple[str, ...]] = (
    "numa_hit", "numa_miss", "numa_foreign", "local_node", "other_node", "interleave_hit",
)  # fmt: skip
_MOVED: Final[tuple[str, ...]] = ("pgpromote_success", "pgdemote_kswapd", "pgdemote_direct")


class ZoneMemoryReader:
    """Reads the NUMA nodes below one sysfs, such as ``/sys``."""

    def __init__(self, sysfs: Path, untold: Untold) -> None:
        self._root = f"{sysfs}/{_NODES}"
        self._untold = untold

    def ids(self) -> list[int]:
        """Return the NUMA nodes that are online."""
        text = read_text(f"{self._root}/online")
        if text is not None:
            return sorted(cpus_of(text, most=1 << 12))
        ids = (number(name.removeprefix("node")) for name in names_in(self._root))
        return sorted(node for node in ids if node is not None)

    def page_kib(self) -> frozenset[int]:
        """Return the sizes of huge pages of which some NUMA node has a pool."""
        return frozenset(
            size for node in self.ids() for size, total in self._huge(node, "nr").items() if total
        )

    def read(self) -> tuple[ZoneMemory, ...]:
        """Return every NUMA node."""
        return tuple(map(self._zone, self.ids()))

    def _zone(self, node: int) -> ZoneMemory:
        folder = f"{self._root}/node{node}"
        text = read_text(f"{folder}/meminfo", untold=self._untold, what=ZONE_MEMORY)
        sizes = _sizes(text or "")
        stat = read_text(f"{folder}/numastat", untold=self._untold, what=ZONE_ALLOCATIONS)
        counters = pairs(stat) if stat else {}
        moved = pairs(read_text(f"{folder}/vmstat") or "")
        allocations = {name: counters[name] for name in _COUNTED if name in counters}
        allocations |= {name: moved[name] for name in _MOVED if name in moved}
        return ZoneMemory(
            id=node,
            total=sizes.get("MemTotal"),
            free=sizes.get("MemFree"),
            cache=sizes.get("FilePages"),
            shared=sizes.get("Shmem"),
            mapped_anonymous=sizes.get("AnonPages"),
            allocations=allocations,
            huge_total=self._huge(node, "nr"),
            huge_free=self._huge(node, "free"),
        )

    def _huge(self, node: int, what: str) -> dict[int, int]:
        folder = f"{self._root}/node{node}/hugepages"
        found: dict[int, int] = {}
        for name in names_in(folder, most=16):
            size = number(name.removeprefix("hugepages-").removesuffix("kB"))
            count = number((read_text(f"{folder}/{name}/{what}_hugepages") or "").strip())
            if size is not None and count is not None:
                found[size] = size * _KIB * count
        return found


def _sizes(text: str) -> dict[str, int]:
    """Return bytes by name of lines such as ``Node 0 MemFree:  1024 kB``."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        head, _, rest = line.partition(":")
        words = rest.split()
        amount = number(words[0]) if words else None
        if amount is not None and words[1:] == ["kB"]:
            found[head.rpartition(" ")[2]] = amount * _KIB
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings:
    """Settings that work against pods with a place; empty if the kernel does not tell.

    Attributes:
        numa_balancing: ``0`` is off, ``1`` moves memory to where it is used, ``2`` between tiers.
        transparent_huge_pages: ``always``, ``madvise`` or ``never``.
        zone_reclaim: bits of ``vm.zone_reclaim_mode``; ``0`` is off.
    """

    numa_balancing: str = ""
    transparent_huge_pages: str = ""
    zone_reclaim: str = ""


def read_settings(sysfs: Path, proc: Path) -> KernelSettings:
    """Return the settings of the kernel."""
    huge = read_text(f"{sysfs}/kernel/mm/transparent_hugepage/enabled") or ""
    chosen = huge.partition("[")[2].partition("]")[0]
    return KernelSettings(
        numa_balancing=_digits(f"{proc}/sys/kernel/numa_balancing"),
        transparent_huge_pages=chosen if chosen in ("always", "madvise", "never") else "",
        zone_reclaim=_digits(f"{proc}/sys/vm/zone_reclaim_mode"),
    )


def _digits(path: str) -> str:
    value = number((read_text(path) or "").strip())
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """Seconds of one CPU since the start of the machine.

    Attributes:
        busy: that processes ran, the kernel's own included, interrupts not.
        stolen: that a hypervisor gave to somebody else.
    """

    busy: float
    stolen: float


def read_cpu_seconds(proc: Path, untold: Untold) -> dict[int, CpuSeconds]:
    """Return what each CPU did, by its id."""
    text = read_text(f"{proc}/stat", most=_MOST_STAT_BYTES, untold=untold, what=CPU_STEAL)
    found: dict[int, CpuSeconds] = {}
    for line in (text or "").splitlines():
        if not line.startswith("cpu"):
            break
        name, *words = line.split()
        cpu, values = number(name.removeprefix("cpu")), [number(word) for word in words]
        if cpu is None or len(values) < _CPU_FIELDS:
            continue
        busy = sum(values[place] or 0 for place in _BUSY)
        found[cpu] = CpuSeconds(busy / _TICKS, (values[_STEAL] or 0) / _TICKS)
    return found
