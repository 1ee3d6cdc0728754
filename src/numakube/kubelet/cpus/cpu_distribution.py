"""Spread CPUs evenly over as few NUMA nodes as possible (``distribute-cpus-across-numa``).

For growing numbers of nodes, every combination is scored by how evenly it would leave free CPUs
over the machine (standard deviation, rounded to three places), and the lowest score wins. Follows
``takeByTopologyNUMADistributed`` of ``pkg/kubelet/cm/cpumanager/cpu_assignment.go``.

The kubelet has a defect since 1.23 that decides placements on machines with more than four NUMA
nodes: the combination it remembers as best shares memory with the ones it tries later. `_Slice`
reproduces how Go's slices grow, so that the model answers what the kubelet answers; with
``aliasing=False`` it answers what was meant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.cpus.cpu_selection import (
    Accumulator,
    CpuShortage,
    PackedOrder,
    not_enough,
    take_packed,
)
from numakube.values.cpuset import NO_CPUS, CpuMask, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.kubelet.cpus.cpu_topology import CpuTopology


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
