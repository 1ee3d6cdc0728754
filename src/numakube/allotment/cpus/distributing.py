"""Equal parts: every NUMA node gives as many CPUs as the others, as far as it can.

The same arithmetic as for amounts (`numakube.allotment.splitting`): the node with the fewest CPUs
comes first, so that the others make up for it. Parts are whole cores if the pod wants whole cores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.allotment.cpus.required import usable
from numakube.allotment.splitting import even_parts
from numakube.allotment.words import BindPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.allotment.cpus.pool import Pool


def take_evenly(
    pool: Pool, need: int, bind: BindPolicy, take: Callable[[Pool, int, BindPolicy], int]
) -> int:
    """Return *need* CPUs, parts of the NUMA nodes taken by *take*.

    First from CPUs that meet the policy and that no other pod keeps for itself, then from those
    that meet the policy, then from all of them.
    """
    fitting = usable(pool.layout, pool.free, bind)
    for free in (fitting & ~pool.avoid, fitting, pool.free):
        parts = even_parts(_counts(pool, free), need, unit=_unit(pool, need, bind))
        if parts is not None:
            return _take_parts(replace(pool, free=free), parts, bind, take)
    return _take_parts(pool, even_parts(_counts(pool, pool.free), need, unit=1) or {}, bind, take)


def _counts(pool: Pool, free: int) -> dict[int, int]:
    return {numa: (cpus & free).bit_count() for numa, cpus in pool.layout.by_numa.items()}


def _unit(pool: Pool, need: int, bind: BindPolicy) -> int:
    width = pool.layout.cpus_per_core
    return width if bind is BindPolicy.FULL_PCPUS and need % width == 0 else 1


def _take_parts(
    pool: Pool,
    parts: dict[int, int],
    bind: BindPolicy,
    take: Callable[[Pool, int, BindPolicy], int],
) -> int:
    taken = 0
    for numa, count in parts.items():
        of_numa = replace(pool, free=pool.free & pool.layout.by_numa[numa])
        taken |= take(of_numa, count, bind)
    return taken
