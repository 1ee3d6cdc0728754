"""From free CPUs to the logical CPUs of a pod or a container that gets exclusive ones.

Follows Koordinator's CPU accumulator (1.6): the same free CPUs give the same pick.

With ``DistributeEvenly`` every NUMA node gives as many CPUs as the others, as far as it can: whole
cores if the pod wants whole cores. Else one pass after the other is tried until the number is full:
whole cores, if they are wanted, then single threads.

No other pod runs on a whole core that a pod was given. One NUMA node is tried first, then one
socket, both in the order of the node's strategy. A pod that fits neither takes as few sockets as
possible: whole sockets' worth of free cores, the largest first, and the rest core by core from
where the fewest are left.

Single threads are first taken one a core: a pod shares cores with others rather than with itself.
To stay on one NUMA node, or else on one socket, comes first: where a part has enough free CPUs but
not enough cores, cores give their second thread as well. Where no single part of the machine has
enough, they are taken thread by thread: from sockets that the pod is on already, and from cores
that are broken already.

What is left for pods without CPUs of their own are two pools, as koordlet has them. No pod in the
*LS* pool meets one with CPUs of its own. Pods of QoS class ``BE`` run in the *BE* pool, which also
has the CPUs of ``LSR`` pods: those are bound, but shared with pods that take what they leave;
``LSE`` pods do not share theirs. CPUs that the kubelet reserves for system daemons stay in both
pools: no pod can have them for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.topology.allotments import CpuExclusive
from numakube.values.cpuset import NO_CPUS, CpuMask, cpu_mask, iter_bits, union
from numakube.values.numamask import nodes_of
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.values.numamask import NumaMask
    from numakube_placement.koordinator.node_facts import CoreBits, CpuLayout


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


def take_whole_cores(pool: CpuPool, count: int) -> CpuMask:
    """Return up to *count* CPUs; fewer if whole cores do not make up the number."""
    return (
        _cores_on_one_numa(pool, count)
        or _cores_on_one_socket(pool, count)
        or _on_several_sockets(pool, count)
    )


def cpus_of_free_cores(layout: CpuLayout, free: CpuMask) -> CpuMask:
    """Return the CPUs of cores that are free as a whole."""
    bits = NO_CPUS
    for core in layout.cores:
        if core.cpus & free == core.cpus:
            bits |= core.cpus
    return bits


def _cores_on_one_numa(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_numa:
        return NO_CPUS
    for free in _passes(pool.free, pool.avoid_numas):
        cores = cpus_of_free_cores(pool.layout, free)
        if found := _first_fit_of_cores(pool, pool.numas(cores, among=free), count):
            return found
    return NO_CPUS


def _cores_on_one_socket(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_socket:
        return NO_CPUS
    free = cpus_of_free_cores(pool.layout, pool.free)
    return _first_fit_of_cores(pool, pool.sockets(free), count)


def _on_several_sockets(pool: CpuPool, count: int) -> CpuMask:
    parts = list(pool.sockets(cpus_of_free_cores(pool.layout, pool.free)))
    parts.sort(key=int.bit_count, reverse=True)
    taken, rest = NO_CPUS, []
    for part in parts:
        if taken.bit_count() + part.bit_count() <= count:
            taken |= part
        else:
            rest.append(part)
    rest.sort(key=int.bit_count)
    for part in rest:
        missing = count - taken.bit_count()
        taken |= _cores_within(pool.layout, part, missing)
    return taken


def _first_fit_of_cores(pool: CpuPool, parts: Iterable[CpuMask], count: int) -> CpuMask:
    for part in parts:
        if part.bit_count() >= count:
            return _prefix(pool.layout, part, count)
    return NO_CPUS


def _prefix(layout: CpuLayout, part: CpuMask, count: int) -> CpuMask:
    """Return *count* CPUs of *part*, core by core; one is cut only if no whole ones make it up."""
    taken = _cores_within(layout, part, count)
    for cpu in iter_bits(part & ~taken):
        if taken.bit_count() == count:
            break
        taken |= 1 << cpu
    return taken


def _cores_within(layout: CpuLayout, part: CpuMask, count: int) -> CpuMask:
    """Return whole cores of *part* with at most *count* CPUs, wide ones first, then by id."""
    taken = NO_CPUS
    cores = [core for core in layout.cores if core.cpus & part]
    for core in sorted(cores, key=lambda core: -core.width):
        if core.width <= count:
            taken |= core.cpus
            count -= core.width
    return taken


def _passes(free: CpuMask, avoid: CpuMask) -> tuple[CpuMask, ...]:
    return (free & ~avoid, free) if avoid & free else (free,)


def usable(layout: CpuLayout, free: CpuMask, required: BindPolicy) -> CpuMask:
    """Return those of the *free* CPUs that can be given under a policy that must be met."""
    if required is BindPolicy.FULL_PCPUS:
        return cpus_of_free_cores(layout, free)
    if required is BindPolicy.SPREAD_BY_PCPUS:
        return first_of_cores(layout, free)
    return free & layout.all


def meets(layout: CpuLayout, cpus: CpuMask, required: BindPolicy) -> bool:
    """Tell whether *cpus* are whole cores, or one a core, as *required* says."""
    if required is BindPolicy.FULL_PCPUS:
        return cpus_of_free_cores(layout, cpus) == cpus
    if required is BindPolicy.SPREAD_BY_PCPUS:
        return first_of_cores(layout, cpus) == cpus
    return True


_NONE_HELD: Final[Mapping[CpuExclusive, CpuMask]] = MappingProxyType({})


def pick(
    layout: CpuLayout,
    *,
    free: CpuMask,
    count: int,
    bind: BindPolicy,
    strategy: Strategy,
    exclusive: CpuExclusive = CpuExclusive.NONE,
    held: Mapping[CpuExclusive, CpuMask] = _NONE_HELD,
) -> CpuMask | None:
    """Return *count* of the *free* CPUs, or ``None`` if there are fewer.

    The bind policy is followed as far as possible; callers that must have it pass only `usable`
    CPUs. So is *exclusive*: CPUs *held* under the same word are kept away from.
    """
    free &= layout.all
    if count > free.bit_count():
        return None
    pool = CpuPool(
        layout=layout,
        free=free,
        strategy=strategy,
        avoid_cores=_cores_held(layout, exclusive, held),
        avoid_numas=_numas_held(layout, exclusive, held),
    )
    if strategy is Strategy.DISTRIBUTE_EVENLY:
        return _take_evenly(pool, count, bind)
    return _take(pool, count, bind)


def _take(pool: CpuPool, count: int, bind: BindPolicy) -> CpuMask:
    """Return *count* CPUs of a pool that has as many."""
    full = bind is BindPolicy.FULL_PCPUS
    taken = NO_CPUS
    if full or not pool.layout.has_threads:
        taken = take_whole_cores(pool, count)
    if not full and not taken:
        taken = _take_spread(pool, count)
    if missing := count - taken.bit_count():
        rest = replace(pool, free=pool.free & ~taken)
        taken |= _take_leftovers(rest, missing, taken=taken)
    return taken


def _take_spread(pool: CpuPool, count: int) -> CpuMask:
    """Return *count* CPUs of one NUMA node or one socket; 0 if none has as many."""
    return _threads_on_one_numa(pool, count) or _threads_on_one_socket(pool, count)


def _threads_on_one_numa(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_numa:
        return NO_CPUS
    kept = pool.free & ~pool.avoid
    parts = pool.numas(kept, among=kept)
    one_each = (first_of_cores(pool.layout, part) for part in parts)
    return _first_fit_of_threads(pool, one_each, count) or _first_fit_of_threads(
        pool, pool.numas(pool.free, among=pool.free), count
    )


def _threads_on_one_socket(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_socket:
        return NO_CPUS
    one_each = first_of_cores(pool.layout, pool.free & ~pool.avoid_cores)
    return _first_fit_of_threads(pool, pool.sockets(one_each), count) or _first_fit_of_threads(
        pool, pool.sockets(pool.free), count
    )


def _first_fit_of_threads(pool: CpuPool, parts: Iterable[CpuMask], count: int) -> CpuMask:
    for part in parts:
        if part.bit_count() >= count:
            return spread(pool.layout, part, count)
    return NO_CPUS


def _take_leftovers(pool: CpuPool, count: int, *, taken: CpuMask) -> CpuMask:
    """Return *count* CPUs, of a pod that has *taken* others already; fewer if there are fewer."""
    first = _best_threads(pool, pool.free & ~pool.avoid, count, taken)
    if missing := count - first.bit_count():
        return first | _best_threads(pool, pool.free & ~first, missing, taken | first)
    return first


def _best_threads(pool: CpuPool, free: CpuMask, count: int, taken: CpuMask) -> CpuMask:
    layout = pool.layout

    def key(core: CoreBits) -> tuple[int, ...]:
        socket, numa = layout.by_socket[core.socket], layout.by_numa[core.numa]
        return (
            -(socket & taken).bit_count(),
            pool.signed((socket & free).bit_count()),
            pool.signed((numa & free).bit_count()),
            (core.cpus & free).bit_count(),
        )

    cores = sorted((core for core in layout.cores if core.cpus & free), key=key)
    cpus = [cpu for core in cores for cpu in iter_bits(core.cpus & free)]
    return cpu_mask(round_robin(layout, cpus)[:count])


def _cores_held(
    layout: CpuLayout, exclusive: CpuExclusive, held: Mapping[CpuExclusive, CpuMask]
) -> CpuMask:
    if exclusive is not CpuExclusive.PCPU_LEVEL:
        return NO_CPUS
    others = held.get(exclusive, NO_CPUS)
    return union(core.cpus for core in layout.cores if core.cpus & others)


def _numas_held(
    layout: CpuLayout, exclusive: CpuExclusive, held: Mapping[CpuExclusive, CpuMask]
) -> CpuMask:
    if exclusive is not CpuExclusive.NUMA_NODE_LEVEL:
        return NO_CPUS
    others = held.get(exclusive, NO_CPUS)
    return union(cpus for cpus in layout.by_numa.values() if cpus & others)


def _take_evenly(pool: CpuPool, count: int, bind: BindPolicy) -> CpuMask:
    """Return *count* CPUs, an equal part of each NUMA node.

    First from CPUs that meet the policy and that no other pod keeps for itself, then from those
    that meet the policy, then from all of them.
    """
    fitting = usable(pool.layout, pool.free, bind)
    for free in (fitting & ~pool.avoid, fitting, pool.free):
        parts = even_parts(_counts(pool, free), count, unit=_unit(pool, count, bind))
        if parts is not None:
            return _take_parts(replace(pool, free=free), parts, bind)
    return _take_parts(pool, even_parts(_counts(pool, pool.free), count, unit=1) or {}, bind)


def _counts(pool: CpuPool, free: CpuMask) -> dict[int, int]:
    return {numa: (cpus & free).bit_count() for numa, cpus in pool.layout.by_numa.items()}


def _unit(pool: CpuPool, count: int, bind: BindPolicy) -> int:
    width = pool.layout.cpus_per_core
    return width if bind is BindPolicy.FULL_PCPUS and count % width == 0 else 1


def _take_parts(pool: CpuPool, parts: dict[int, int], bind: BindPolicy) -> CpuMask:
    taken = NO_CPUS
    for numa, count in parts.items():
        of_numa = replace(pool, free=pool.free & pool.layout.by_numa[numa])
        taken |= _take(of_numa, count, bind)
    return taken


def even_parts(
    available: Mapping[int, int], amount: int, *, unit: int = 1
) -> dict[int, int] | None:
    """Return what each NUMA node gives of *amount*, or ``None`` if they have too little.

    Parts are equal as far as each node has them. The node with the least comes first, so that the
    others make up for what it lacks; with any other order an amount that fits could be refused.
    Every part is a multiple of *unit*, so *amount* must be one. Nodes that give nothing are left
    out; the result ascends by node.
    """
    wholes = {node: left // unit for node, left in available.items()}
    remaining, odd = divmod(amount, unit)
    parts: dict[int, int] = {}
    order = sorted(wholes, key=lambda node: (wholes[node], node))
    for left, node in zip(range(len(order), 0, -1), order, strict=True):
        grant = min(remaining // left, wholes[node])
        if grant > 0:
            parts[node] = grant * unit
            remaining -= grant
    return None if remaining or odd else dict(sorted(parts.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPools:
    """The shared pools of a node; a NUMA node whose CPUs are all taken has an empty one.

    Attributes:
        shared: CPUs of the LS pool by NUMA node.
        best_effort: CPUs of the BE pool by NUMA node.
    """

    shared: Mapping[int, CpuMask]
    best_effort: Mapping[int, CpuMask]

    def within(self, mask: NumaMask, *, best_effort: bool = False) -> CpuMask:
        """Return the CPUs of a pool on the NUMA nodes of *mask*.

        A pool that has run dry there is no place to run: then, and with an empty mask, it is the
        pool of the whole node.
        """
        pool = self.best_effort if best_effort else self.shared
        return union(pool.get(node, NO_CPUS) for node in nodes_of(mask)) or union(pool.values())


def pools_of(
    layout: CpuLayout,
    *,
    taken: CpuMask,
    taken_for_good: CpuMask | None = None,
    apart: CpuMask = NO_CPUS,
) -> SharedPools:
    """Return the pools of a node.

    Args:
        layout: its CPUs.
        taken: CPUs that are bound to pods by a scheduler.
        taken_for_good: those of them that pods of class ``BE`` keep off too; all if not given.
        apart: CPUs that are in no pool: pinned by the kubelet, kept back by the owner of the
            node, or exclusive to the system.
    """
    for_good = taken if taken_for_good is None else taken_for_good
    return SharedPools(
        shared={numa: cpus & ~(taken | apart) for numa, cpus in layout.by_numa.items()},
        best_effort={numa: cpus & ~(for_good | apart) for numa, cpus in layout.by_numa.items()},
    )
