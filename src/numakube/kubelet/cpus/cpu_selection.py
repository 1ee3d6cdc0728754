"""Choose exclusive CPUs: the packed (default) and spread orders, and the uncore-cache step.

Best fit throughout: of the elements of a level, the one with the fewest free CPUs comes first, so
that large free blocks survive. Follows ``pkg/kubelet/cm/cpumanager/cpu_assignment.go`` of
Kubernetes 1.28 to 1.37, including its treatment of averages as facts (`CpuTopology`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.values.cpuset import NO_CPUS, CpuMask, iter_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.kubelet.cpus.cpu_topology import CpuTopology


@dataclass(frozen=True, slots=True)
class CpuShortage:
    """The kubelet's text for CPUs that could not be taken; ``amounts`` follow it since 1.29."""

    message: str
    amounts: str = ""

    def text(self, *, with_amounts: bool) -> str:
        """Return the whole text."""
        return self.message + self.amounts if with_amounts else self.message


def not_enough(requested: int, available: int) -> CpuShortage:
    """Return the shortage of a request above what is available."""
    return CpuShortage(
        "not enough cpus available to satisfy request",
        f": requested={requested}, available={available}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedOrder:
    """How `take_packed` chooses inside a machine."""

    spread_over_cores: bool = False
    align_by_uncore: bool = False
    # Before 1.34 an odd need was never met from part of a cache whose cores come in pairs.
    odd_uncore_requests: bool = True


class Accumulator:
    """Collects CPUs out of ``free`` until ``need`` is met."""

    def __init__(self, topology: CpuTopology, free: CpuMask, need: int) -> None:
        self.topology = topology
        self.free = free & topology.all_cpus
        self.need = need
        self.taken = NO_CPUS
        self._numa_first = topology.socket_count >= len(topology.numa)

    @property
    def satisfied(self) -> bool:
        """Whether nothing more is needed."""
        return self.need < 1

    @property
    def impossible(self) -> bool:
        """Whether more is needed than is free."""
        return self.need > self.free.bit_count()

    def take(self, cpus: CpuMask) -> None:
        """Claim *cpus*; also CPUs that were busy, as the kubelet does for "free" hybrid cores."""
        self.taken |= cpus
        self.free &= ~self.taken
        self.need -= cpus.bit_count()

    def take_whole(self, elements: Iterable[int], level: Mapping[int, CpuMask]) -> None:
        """Claim each of *elements* that is not larger than the need."""
        for element in elements:
            cpus = level[element]
            if self.need >= cpus.bit_count():
                self.take(cpus)

    def numa_nodes(self) -> list[int]:
        """Return the NUMA nodes with free CPUs in the order of use."""
        topology = self.topology
        if self._numa_first:
            return self._order(topology.numa)
        return [
            node
            for socket in self._order(topology.sockets)
            for node in self._order(topology.numa, within=topology.sockets[socket])
        ]

    def sockets(self) -> list[int]:
        """Return the sockets with free CPUs in the order of use."""
        topology = self.topology
        if not self._numa_first:
            return self._order(topology.sockets)
        return [
            socket
            for node in self._order(topology.numa)
            for socket in self._order(topology.sockets, within=topology.numa[node])
        ]

    def cores(self) -> list[int]:
        """Return the cores with free CPUs in the order of use."""
        topology = self.topology
        parents = (
            (topology.sockets[socket] for socket in self.sockets())
            if self._numa_first
            else (topology.numa[node] for node in self.numa_nodes())
        )
        return [core for parent in parents for core in self._order(topology.cores, within=parent)]

    def uncore_caches(self) -> list[int]:
        """Return the last-level caches with free CPUs in the order of use."""
        topology = self.topology
        return [
            cache
            for node in self.numa_nodes()
            for cache in self._order(topology.uncore_caches, within=topology.numa[node])
        ]

    def single_cpus(self, *, spread: bool) -> Iterator[int]:
        """Yield free CPUs one by one: core by core, or (spread) socket by socket."""
        topology = self.topology
        parents, level = (
            (self.sockets(), topology.sockets) if spread else (self.cores(), topology.cores)
        )
        free = self.free
        for parent in parents:
            yield from iter_bits(level[parent] & free)

    def whole_numa_nodes(self) -> list[int]:
        """Return the NUMA nodes that are completely free."""
        numa, free = self.topology.numa, self.free
        return [node for node in self.numa_nodes() if numa[node] & ~free == 0]

    def whole_sockets(self) -> list[int]:
        """Return the sockets that have as many free CPUs as an average socket has."""
        sockets, size = self.topology.sockets, self.topology.cpus_per_socket
        return [one for one in self.sockets() if (sockets[one] & self.free).bit_count() == size]

    def whole_cores(self) -> list[int]:
        """Return the cores that have as many free CPUs as an average core has."""
        cores, size = self.topology.cores, self.topology.cpus_per_core
        return [one for one in self.cores() if (cores[one] & self.free).bit_count() == size]

    def whole_uncore_caches(self) -> list[int]:
        """Return the last-level caches that are completely free."""
        caches, free = self.topology.uncore_caches, self.free
        return [cache for cache in self.uncore_caches() if caches[cache] & ~free == 0]

    def take_whole_levels(self) -> None:
        """Claim whole NUMA nodes and sockets, the larger or equal level first."""
        steps = [self._take_whole_numa_nodes, self._take_whole_sockets]
        for step in steps if self._numa_first else reversed(steps):
            step()
            if self.satisfied:
                return

    def _take_whole_numa_nodes(self) -> None:
        self.take_whole(self.whole_numa_nodes(), self.topology.numa)

    def _take_whole_sockets(self) -> None:
        self.take_whole(self.whole_sockets(), self.topology.sockets)

    def _order(self, level: Mapping[int, CpuMask], *, within: int = -1) -> list[int]:
        """Return the elements with a free CPU in *within*, those with fewest free CPUs first."""
        free = self.free
        inside = free & within
        keys = [
            ((cpus & free).bit_count(), element) for element, cpus in level.items() if cpus & inside
        ]
        keys.sort()
        return [element for _, element in keys]


# A scheduler foresees what the kubelet of each of its nodes does, and many nodes are alike.
@lru_cache(maxsize=4096)
def take_packed(
    topology: CpuTopology, available: CpuMask, count: int, order: PackedOrder
) -> CpuMask | CpuShortage:
    """Return *count* CPUs of *available*, packed as tightly as the kubelet packs them."""
    if count < 1:
        return NO_CPUS
    accumulator = Accumulator(topology, available, count)
    if accumulator.impossible:
        return not_enough(count, available.bit_count())
    accumulator.take_whole_levels()
    if order.align_by_uncore:
        _take_uncore(accumulator, order)
    if not order.spread_over_cores and not accumulator.satisfied:
        accumulator.take_whole(accumulator.whole_cores(), topology.cores)
    if not accumulator.satisfied:
        for cpu in list(accumulator.single_cpus(spread=order.spread_over_cores)):
            accumulator.take(CpuMask(1 << cpu))
            if accumulator.satisfied:
                break
    return accumulator.taken if accumulator.satisfied else CpuShortage("failed to allocate cpus")


def _take_uncore(accumulator: Accumulator, order: PackedOrder) -> None:
    """Claim whole caches while the need is that large, then the rest inside a single cache."""
    topology = accumulator.topology
    for cache in accumulator.uncore_caches():
        if accumulator.need >= topology.cpus_per_uncore:
            accumulator.take_whole(accumulator.whole_uncore_caches(), topology.uncore_caches)
        if accumulator.satisfied:
            return
        _take_part_of_uncore(accumulator, topology.uncore_caches[cache], order)
        if accumulator.satisfied:
            return


def _take_part_of_uncore(accumulator: Accumulator, cache: CpuMask, order: PackedOrder) -> None:
    """Claim the whole remaining need from the lowest cores of one cache, or nothing."""
    topology, need, free = accumulator.topology, accumulator.need, accumulator.free
    per_core = topology.cpus_per_core
    cores = sorted(core for core, cpus in topology.cores.items() if cpus & free & cache)
    claim = NO_CPUS
    for core in cores[: -(-need // per_core)]:
        claim |= topology.cores[core] & free
    odd = need % 2 and per_core > 1 and order.odd_uncore_requests
    if odd and claim.bit_count() > need:
        claim &= ~(1 << (claim.bit_length() - 1))
    if claim.bit_count() == need:
        accumulator.take(claim)
