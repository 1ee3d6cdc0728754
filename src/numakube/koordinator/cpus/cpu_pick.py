"""The pick: from free CPUs to the CPUs of a pod or a container.

With ``DistributeEvenly`` every NUMA node gives as many CPUs as the others, as far as it can: whole
cores if the pod wants whole cores. Else one pass after the other is tried until the number is full:
whole cores, if they are wanted, then single threads.

Single threads are first taken one a core: a pod shares cores with others rather than with itself.
To stay on one NUMA node, or else on one socket, comes first: where a part has enough free CPUs but
not enough cores, cores give their second thread as well. Where no single part of the machine has
enough, they are taken thread by thread: from sockets that the pod is on already, and from cores
that are broken already.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_values import BindPolicy, CpuExclusive, Strategy
from numakube.koordinator.cpus.bind_policy import usable
from numakube.koordinator.cpus.free_cpus import CpuPool, first_of_cores, round_robin, spread
from numakube.koordinator.cpus.whole_cores import take_whole_cores
from numakube.values.cpuset import NO_CPUS, CpuMask, cpu_mask, iter_bits, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.koordinator.node.node_facts import Core, CpuLayout


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
    return _on_one_numa(pool, count) or _on_one_socket(pool, count)


def _on_one_numa(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_numa:
        return NO_CPUS
    kept = pool.free & ~pool.avoid
    parts = pool.numas(kept, among=kept)
    one_each = (first_of_cores(pool.layout, part) for part in parts)
    return _first_fit(pool, one_each, count) or _first_fit(
        pool, pool.numas(pool.free, among=pool.free), count
    )


def _on_one_socket(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_socket:
        return NO_CPUS
    one_each = first_of_cores(pool.layout, pool.free & ~pool.avoid_cores)
    return _first_fit(pool, pool.sockets(one_each), count) or _first_fit(
        pool, pool.sockets(pool.free), count
    )


def _first_fit(pool: CpuPool, parts: Iterable[CpuMask], count: int) -> CpuMask:
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

    def key(core: Core) -> tuple[int, ...]:
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
