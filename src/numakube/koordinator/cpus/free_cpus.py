"""Free CPUs to pick from, and the order in which parts of the machine are tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.koordinator.annotation_values import Strategy
from numakube.values.cpuset import NO_CPUS, CpuMask, cpu_mask, iter_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.koordinator.node.node_facts import CpuLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPool:
    """Free CPUs of a machine.

    Attributes:
        avoid_cores: CPUs of cores, and ``avoid_numas`` of NUMA nodes, that pods with the same
            exclusive policy are on; they are taken only if there is no other way.
    """

    layout: CpuLayout
    free: CpuMask
    strategy: Strategy
    avoid_cores: CpuMask = NO_CPUS
    avoid_numas: CpuMask = NO_CPUS

    @property
    def avoid(self) -> CpuMask:
        """CPUs that are taken only if there is no other way."""
        return self.avoid_cores | self.avoid_numas

    @property
    def cpus_per_numa(self) -> int:
        """Average CPUs of a NUMA node, free or not."""
        return len(self.layout.places) // len(self.layout.by_numa)

    @property
    def cpus_per_socket(self) -> int:
        """Average CPUs of a socket, free or not."""
        return len(self.layout.places) // len(self.layout.by_socket)

    def signed(self, free: int) -> int:
        """Return what sorts parts with *free* CPUs left: the fullest first, or the emptiest."""
        return free if self.strategy is Strategy.MOST_ALLOCATED else -free

    def numas(self, cpus: CpuMask, *, among: CpuMask) -> Iterator[CpuMask]:
        """Yield *cpus* by NUMA node, the node to try first first; nodes without any are left out.

        Sockets break ties by their CPUs in *among*, then ids.
        """
        parts = [(numa, cpus & all_of) for numa, all_of in self.layout.by_numa.items()]
        sockets = self.layout.by_socket.values()

        def key(part: tuple[int, CpuMask]) -> tuple[int, int, int]:
            numa, bits = part
            first = bits & -bits
            socket = next(all_of for all_of in sockets if all_of & first)
            free_on_socket = (socket & among).bit_count()
            return self.signed(bits.bit_count()), self.signed(free_on_socket), numa

        for _, bits in sorted(((numa, bits) for numa, bits in parts if bits), key=key):
            yield bits

    def sockets(self, cpus: CpuMask) -> Iterator[CpuMask]:
        """Yield *cpus* by socket, the socket to try first first."""
        parts = (cpus & all_of for all_of in self.layout.by_socket.values())
        yield from sorted(filter(None, parts), key=lambda bits: self.signed(bits.bit_count()))


def first_of_cores(layout: CpuLayout, cpus: CpuMask) -> CpuMask:
    """Return the lowest CPU of *cpus* in every core."""
    firsts = NO_CPUS
    for core in layout.cores:
        on_core = cpus & core.cpus
        firsts |= on_core & -on_core
    return firsts


def round_robin(layout: CpuLayout, cpus: Iterable[int]) -> list[int]:
    """Return *cpus* so that every core gives its first before any gives its second."""
    rounds: list[list[int]] = []
    seen: dict[int, int] = {}
    for cpu in cpus:
        core = layout.core_of[cpu]
        turn = seen[core] = seen.get(core, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(cpu)
    return [cpu for turn in rounds for cpu in turn]


def spread(layout: CpuLayout, cpus: CpuMask, count: int) -> CpuMask:
    """Return *count* of *cpus*, low ids first and one a core as long as possible."""
    return cpu_mask(round_robin(layout, iter_bits(cpus))[:count])
