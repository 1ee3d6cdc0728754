"""Which exclusive CPUs a container gets: packed, spread, by uncore cache, or even over nodes.

Best fit throughout: of the elements of a level, the one with the fewest free CPUs comes first, so
that large free blocks survive. Follows ``pkg/kubelet/cm/cpumanager/cpu_assignment.go`` of
Kubernetes 1.28 to 1.37, including its treatment of averages as facts (`CpuTopology`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.values.cpuset import NO_CPUS, CpuMask, iter_bits, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.kubelet.cpu_topology import CpuTopology


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
        return [
            socket for socket in self.sockets() if (sockets[socket] & self.free).bit_count() == size
        ]

    def whole_cores(self) -> list[int]:
        """Return the cores that have as many free CPUs as an average core has."""
        cores, size = self.topology.cores, self.topology.cpus_per_core
        return [core for core in self.cores() if (cores[core] & self.free).bit_count() == size]

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


# Spread CPUs evenly over as few NUMA nodes as possible (``distribute-cpus-across-numa``).
#
# For growing numbers of nodes, every combination is scored by how evenly it would leave free CPUs
# over the machine (standard deviation, rounded to three places), and the lowest score wins. Follows
# ``takeByTopologyNUMADistributed`` of ``pkg/kubelet/cm/cpumanager/cpu_assignment.go``.
#
# The kubelet has a defect since 1.23 that decides placements on machines with more than four NUMA
# nodes: the combination it remembers as best shares memory with the ones it tries later. `_Slice`
# reproduces how Go's slices grow, so that the model answers what the kubelet answers; with
# ``aliasing=False`` it answers what was meant.


# Kubernetes 1.23 to 1.37: a remainder that no chosen node can give is asked for again and again.
_FOR_EVER = (
    "this kubelet would not answer at all: distribute-cpus-across-numa never ends where no NUMA "
    "node has the CPUs of a whole core left for the remainder"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedOrder:
    """How `take_distributed` spreads."""

    group_size: int = 1
    align_by_socket: bool = False
    # Since 1.37 a chosen node is never asked for more than it has.
    clamp_share: bool = False
    aliasing: bool = True


@dataclass(slots=True)
class _Best:
    score: float = math.inf
    combination: _Slice | None = None
    remainder: _Slice | None = None
    in_one_socket: bool = False


class _Slice:
    """The first ``length`` elements of a list that other slices may share and overwrite."""

    __slots__ = ("_capacity", "_items", "_length", "_shared")

    def __init__(self, items: list[int], length: int, capacity: int, *, shared: bool) -> None:
        self._items = items
        self._length = length
        self._capacity = capacity
        self._shared = shared

    def append(self, item: int) -> _Slice:
        """Return this slice with *item* behind it, in the same list if that has room."""
        length = self._length
        if self._shared and length < self._capacity:
            self._items[length : length + 1] = [item]
            return _Slice(self._items, length + 1, self._capacity, shared=True)
        capacity = max(1, 2 * self._capacity)
        return _Slice([*self._items[:length], item], length + 1, capacity, shared=self._shared)

    def items(self) -> list[int]:
        """Return the elements as they are now."""
        return self._items[: self._length]


def _combinations(items: Sequence[int], size: int, *, aliasing: bool) -> Iterator[_Slice]:
    """Yield the combinations of *size* items, lexicographic by position."""

    def extend(chosen: _Slice, missing: int, start: int) -> Iterator[_Slice]:
        if missing == 0:
            yield chosen
            return
        for index in range(start, len(items) - missing + 1):
            yield from extend(chosen.append(items[index]), missing - 1, index + 1)

    if size >= 1:
        yield from extend(_Slice([], 0, 0, shared=aliasing), size, 0)


def take_distributed(
    topology: CpuTopology, available: CpuMask, count: int, order: DistributedOrder
) -> CpuMask | CpuShortage:
    """Return *count* CPUs of *available*, the same number on each of the fewest NUMA nodes."""
    if count % order.group_size:
        return take_packed(topology, available, count, PackedOrder())
    if count < 1:
        return NO_CPUS
    search = _Search(topology, available, count, order)
    if search.accumulator.impossible:
        return not_enough(count, available.bit_count())
    fewest, most = search.range_of_nodes()
    for size in range(fewest, most + 1):
        best = search.best_of(size)
        if best.combination is not None:
            return search.hand_out(best)
    return take_packed(topology, available, count, PackedOrder())


class _Search:
    """One request being distributed."""

    def __init__(
        self, topology: CpuTopology, available: CpuMask, count: int, order: DistributedOrder
    ) -> None:
        self.topology = topology
        self.count = count
        self.order = order
        self.accumulator = Accumulator(topology, available, count)
        self.nodes = self.accumulator.numa_nodes()
        self.free = {
            node: (topology.numa[node] & self.accumulator.free).bit_count() for node in self.nodes
        }

    def range_of_nodes(self) -> tuple[int, int]:
        """Return the smallest and largest number of nodes worth trying."""
        group = self.order.group_size
        groups = _ceil(self.topology.all_cpus.bit_count(), group)
        groups_per_node = _ceil(groups, len(self.topology.numa))
        wanted = _ceil(self.count, group)
        return _ceil(wanted, groups_per_node), min(wanted, len(set(self.nodes)))

    def best_of(self, size: int) -> _Best:
        """Return the combination of *size* nodes that leaves the machine most even."""
        best = _Best()
        by_socket = self.order.align_by_socket
        for combination in _combinations(self.nodes, size, aliasing=self.order.aliasing):
            if best.score == 0 and (not by_socket or best.in_one_socket):
                break
            nodes = combination.items()
            share = self._share(nodes, clamp=by_socket)
            if not self._feasible(nodes, share):
                continue
            score, remainder = self._score(nodes, share)
            in_one_socket = by_socket and self._in_one_socket(nodes)
            better = score < best.score
            if by_socket and in_one_socket != best.in_one_socket:
                better = in_one_socket
            if better:
                best = _Best(score, combination, remainder, in_one_socket)
        return best

    def hand_out(self, best: _Best) -> CpuMask | CpuShortage:
        """Take the even share of each chosen node, then the remainder group by group."""
        nodes = best.combination.items() if best.combination else []
        rest = best.remainder.items() if best.remainder else []
        share = self._share(nodes, clamp=self.order.clamp_share)
        for node in nodes:
            self._take_on(node, share)
        missing = self.count - share * len(nodes)
        group = self.order.group_size
        while missing > 0:
            before = missing
            for node in rest:
                if missing == 0:
                    break
                if (self.topology.numa[node] & self.accumulator.free).bit_count() >= group:
                    self._take_on(node, group)
                    missing -= group
            if missing == before:
                raise NoAnswer(_FOR_EVER)
        return self._accounted()

    def _accounted(self) -> CpuMask | CpuShortage:
        left = self.accumulator.need
        if left == 0:
            return self.accumulator.taken
        problem = "not enough" if left > 0 else "too many"
        return CpuShortage(f"accounting error, {problem} CPUs allocated, remaining: {left}")

    def _take_on(self, node: int, count: int) -> None:
        on_node = self.topology.numa[node] & self.accumulator.free
        cpus = take_packed(self.topology, on_node, count, PackedOrder())
        if isinstance(cpus, int):
            self.accumulator.take(cpus)

    def _groups(self, node: int) -> int:
        """Return the free CPUs of *node* that come in whole groups."""
        return self.free[node] // self.order.group_size * self.order.group_size

    def _share(self, nodes: Sequence[int], *, clamp: bool) -> int:
        group = self.order.group_size
        share = self.count // len(nodes) // group * group
        if clamp:
            share = min(share, *(self._groups(node) for node in nodes))
        return share

    def _feasible(self, nodes: Sequence[int], share: int) -> bool:
        cpus = union(self.topology.numa[node] for node in nodes) & self.accumulator.free
        return (
            cpus.bit_count() >= self.count
            and sum(self._groups(node) for node in nodes) >= self.count
            and min(self.free[node] for node in nodes) >= share
        )

    def _in_one_socket(self, nodes: Sequence[int]) -> bool:
        cpus = union(self.topology.numa[node] for node in nodes)
        return len(self.topology.sockets_of(cpus)) == 1

    def _score(self, nodes: Sequence[int], share: int) -> tuple[float, _Slice | None]:
        """Return how uneven the machine would be, and who gives the remainder."""
        left = dict(self.free)
        for node in nodes:
            left[node] -= share
        remainder = self.count - share * len(nodes)
        if remainder == 0:
            return _deviation(left.values()), None
        givers = [node for node in nodes if left[node] >= self.order.group_size]
        best: tuple[float, _Slice | None] = (math.inf, None)
        for size in range(len(givers), 0, -1):
            for subset in _combinations(givers, size, aliasing=self.order.aliasing):
                members = subset.items()
                if sum(left[node] for node in members) < remainder:
                    continue
                score = _deviation(self._after_giving(left, members, remainder).values())
                if score < best[0]:
                    best = (score, subset)
        return best

    def _after_giving(
        self, left: dict[int, int], members: Sequence[int], remainder: int
    ) -> dict[int, int]:
        """Hand out *remainder* round-robin and return what each node then has left."""
        group = self.order.group_size
        after = dict(left)
        while remainder > 0:
            before = remainder
            for node in members:
                if remainder == 0:
                    break
                if after[node] >= group:
                    after[node] -= group
                    remainder -= group
            if remainder == before:
                raise NoAnswer(_FOR_EVER)
        return after


def _deviation(values: Iterable[int]) -> float:
    """Return the population standard deviation with the kubelet's roundings."""
    numbers = list(values)
    mean = _round3(sum(numbers) / len(numbers))
    return _round3(math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers)))


def _round3(value: float) -> float:
    """Round to three places, halves up, as Go's math.Round does with what is not negative."""
    return math.floor(value * 1000 + 0.5) / 1000


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)
