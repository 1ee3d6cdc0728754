"""Memory bandwidth and cache occupancy, where ``resctrl`` is mounted.

Each folder with ``mon_data`` counts, by last-level cache, the bytes that its tasks moved to and
from memory (``mbm_total_bytes``, of which ``mbm_local_bytes`` of the cache's own NUMA node) and the
bytes of the cache that they fill (``llc_occupancy``). A group for control counts its groups for
monitoring too, so the sum over groups for control is everything. Runtimes give a container a group
that is named by its id, if they are told to. Nothing is ever made or moved here (Linux 6.12,
Documentation/arch/x86/resctrl.rst).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.node.usage.kernel_files import cpus_of, names_in, number, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numakube.node.usage.kernel_files import Untold

BANDWIDTH: Final = "memory bandwidth"

_MOUNT: Final = "fs/resctrl"
_DATA: Final = "mon_data"
_GROUPS: Final = "mon_groups"
_DOMAIN: Final = "mon_L3_"
_OWN: Final = frozenset({"info", _DATA, _GROUPS})
_MOST_GROUPS: Final = 512
_CACHE_LEVEL: Final = "3"


@dataclass(slots=True)
class Traffic:
    """Counters of one group by cache: bytes moved, bytes of it that were local, bytes of cache."""

    total: Counter[int] = field(default_factory=Counter)
    local: Counter[int] = field(default_factory=Counter)
    occupancy: Counter[int] = field(default_factory=Counter)


class ResctrlReader:
    """Reads the groups below ``fs/resctrl`` of one sysfs."""

    def __init__(self, sysfs: Path, untold: Untold) -> None:
        self._root = f"{sysfs}/{_MOUNT}"
        self._cpus = f"{sysfs}/devices/system/cpu"
        self._untold = untold

    def groups(self) -> dict[str, Traffic]:
        """Return the counters of each group by its name; that of all others is the empty name.

        A group for monitoring is called by its own name, whichever group it is in.
        """
        found = {name: self._traffic(folder) for name, folder in self._folders()}
        known = {name: traffic for name, traffic in found.items() if traffic is not None}
        if not known:
            self._untold.note(
                BANDWIDTH, "resctrl is not mounted, or the processor does not count it"
            )
        return known

    def by_cache(self, groups: dict[str, Traffic]) -> Traffic:
        """Return what all tasks together did."""
        total = Traffic()
        for name in ("", *self._controls()):
            one = groups.get(name)
            if one is not None:
                total.total.update(one.total)
                total.local.update(one.local)
                total.occupancy.update(one.occupancy)
        return total

    def nodes_of_caches(self, node_of: dict[int, int]) -> dict[int, int]:
        """Return the NUMA node of each last-level cache, given those of CPUs.

        Where one cache spans several NUMA nodes its counters cannot be told apart: it is left out.
        """
        nodes: dict[int, set[int]] = {}
        seen: set[int] = set()
        for cpu, node in node_of.items():
            if cpu in seen:
                continue
            cache, shared = self._last_cache(cpu)
            if cache is None:
                continue
            seen |= shared
            nodes.setdefault(cache, set()).update(node_of[one] for one in shared if one in node_of)
            nodes[cache].add(node)
        return {cache: next(iter(of)) for cache, of in nodes.items() if len(of) == 1}

    def _last_cache(self, cpu: int) -> tuple[int | None, frozenset[int]]:
        folder = f"{self._cpus}/cpu{cpu}/cache"
        for name in names_in(folder, most=16):
            if (read_text(f"{folder}/{name}/level") or "").strip() == _CACHE_LEVEL:
                cache = number((read_text(f"{folder}/{name}/id") or "").strip())
                shared = read_text(f"{folder}/{name}/shared_cpu_list") or ""
                return cache, frozenset(cpus_of(shared))
        return None, frozenset()

    def _controls(self) -> list[str]:
        return [
            name
            for name in names_in(self._root, most=_MOST_GROUPS)
            if name not in _OWN and names_in(f"{self._root}/{name}/{_DATA}", most=1)
        ]

    def _folders(self) -> Iterator[tuple[str, str]]:
        for control in ("", *self._controls()):
            folder = f"{self._root}/{control}" if control else self._root
            yield control, folder
            for name in names_in(f"{folder}/{_GROUPS}", most=_MOST_GROUPS):
                yield name, f"{folder}/{_GROUPS}/{name}"

    def _traffic(self, folder: str) -> Traffic | None:
        """Return the counters of one group; a counter that is not available is left out."""
        traffic = Traffic()
        kinds = (
            ("mbm_total_bytes", traffic.total),
            ("mbm_local_bytes", traffic.local),
            ("llc_occupancy", traffic.occupancy),
        )
        told = False
        for domain in names_in(f"{folder}/{_DATA}", most=256):
            cache = number(domain.removeprefix(_DOMAIN))
            for name, counter in kinds if cache is not None else ():
                value = number((read_text(f"{folder}/{_DATA}/{domain}/{name}") or "").strip())
                if value is not None and cache is not None:
                    counter[cache] += value
                    told = True
        return traffic if told else None
