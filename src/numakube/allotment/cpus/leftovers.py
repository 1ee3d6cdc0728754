"""Thread by thread, where neither whole cores nor one part of the machine make up the number.

CPUs come from sockets that the pod is on already, and from cores that are broken already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.cpus.pool import bits_of, round_robin
from numakube.values.cpuset import iter_bits

if TYPE_CHECKING:
    from numakube.allotment.cpus.pool import Pool
    from numakube.allotment.facts import Core


def take_leftovers(pool: Pool, need: int, *, taken: int) -> int:
    """Return *need* CPUs, of a pod that has *taken* others already; fewer if there are fewer."""
    first = _best(pool, pool.free & ~pool.avoid, need, taken)
    if missing := need - first.bit_count():
        return first | _best(pool, pool.free & ~first, missing, taken | first)
    return first


def _best(pool: Pool, free: int, need: int, taken: int) -> int:
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
    return bits_of(round_robin(layout, cpus)[:need])
