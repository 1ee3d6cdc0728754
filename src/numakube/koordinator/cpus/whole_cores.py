"""Whole cores: no other pod runs on a core that a pod was given.

One NUMA node is tried first, then one socket, both in the order of the node's strategy. A pod that
fits neither takes as few sockets as possible: whole sockets' worth of free cores, the largest
first, and the rest core by core from where the fewest are left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.values.cpuset import NO_CPUS, CpuMask, iter_bits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.koordinator.cpus.free_cpus import CpuPool
    from numakube.koordinator.node.node_facts import CpuLayout


def take_whole_cores(pool: CpuPool, count: int) -> CpuMask:
    """Return up to *count* CPUs; fewer if whole cores do not make up the number."""
    return (
        _on_one_numa(pool, count) or _on_one_socket(pool, count) or _on_several_sockets(pool, count)
    )


def cpus_of_free_cores(layout: CpuLayout, free: CpuMask) -> CpuMask:
    """Return the CPUs of cores that are free as a whole."""
    bits = NO_CPUS
    for core in layout.cores:
        if core.cpus & free == core.cpus:
            bits |= core.cpus
    return bits


def _on_one_numa(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_numa:
        return NO_CPUS
    for free in _passes(pool.free, pool.avoid_numas):
        cores = cpus_of_free_cores(pool.layout, free)
        if found := _first_fit(pool, pool.numas(cores, among=free), count):
            return found
    return NO_CPUS


def _on_one_socket(pool: CpuPool, count: int) -> CpuMask:
    if count > pool.cpus_per_socket:
        return NO_CPUS
    return _first_fit(pool, pool.sockets(cpus_of_free_cores(pool.layout, pool.free)), count)


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


def _first_fit(pool: CpuPool, parts: Iterable[CpuMask], count: int) -> CpuMask:
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
