"""Single threads: what is taken where whole cores are not wanted or do not make up the number.

`take_spread` takes one thread a core: a pod shares cores with others rather than with itself. To
stay on one NUMA node, or else on one socket, comes first: where a part has enough free CPUs but not
enough cores, cores give their second thread as well.

`take_leftovers` goes thread by thread, where no single part of the machine has enough: from sockets
that the pod is on already, and from cores that are broken already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.koordinator.cpus.free_cpus import first_of_cores, round_robin, spread
from numakube.values.cpuset import NO_CPUS, CpuMask, cpu_mask, iter_bits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.koordinator.cpus.free_cpus import CpuPool
    from numakube.koordinator.node.node_facts import Core


def take_spread(pool: CpuPool, count: int) -> CpuMask:
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


def take_leftovers(pool: CpuPool, count: int, *, taken: CpuMask) -> CpuMask:
    """Return *count* CPUs, of a pod that has *taken* others already; fewer if there are fewer."""
    first = _best(pool, pool.free & ~pool.avoid, count, taken)
    if missing := count - first.bit_count():
        return first | _best(pool, pool.free & ~first, missing, taken | first)
    return first


def _best(pool: CpuPool, free: CpuMask, count: int, taken: CpuMask) -> CpuMask:
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
