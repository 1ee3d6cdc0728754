"""The pick: from free CPUs to the CPUs of a pod or a container."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.allotment.cpus.distributing import take_evenly
from numakube.allotment.cpus.leftovers import take_leftovers
from numakube.allotment.cpus.pool import Pool
from numakube.allotment.cpus.spreading import take_spread
from numakube.allotment.cpus.whole_cores import take_whole_cores
from numakube.allotment.words import BindPolicy, CpuExclusive, Strategy
from numakube.values.cpuset import union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.allotment.facts import CpuLayout

_NONE_HELD: Final[Mapping[CpuExclusive, int]] = MappingProxyType({})


def pick(
    layout: CpuLayout,
    *,
    free: int,
    need: int,
    bind: BindPolicy,
    strategy: Strategy,
    exclusive: CpuExclusive = CpuExclusive.NONE,
    held: Mapping[CpuExclusive, int] = _NONE_HELD,
) -> int | None:
    """Return *need* of the *free* CPUs, or ``None`` if there are fewer.

    The bind policy is followed as far as possible; callers that must have it pass only `usable`
    CPUs. So is *exclusive*: CPUs *held* under the same word are kept away from.
    """
    free &= layout.all
    if need > free.bit_count():
        return None
    pool = Pool(
        layout=layout,
        free=free,
        strategy=strategy,
        avoid_cores=_cores_held(layout, exclusive, held),
        avoid_numas=_numas_held(layout, exclusive, held),
    )
    if strategy is Strategy.DISTRIBUTE_EVENLY:
        return take_evenly(pool, need, bind, take)
    return take(pool, need, bind)


def take(pool: Pool, need: int, bind: BindPolicy) -> int:
    """Return *need* CPUs of a pool that has as many."""
    full = bind is BindPolicy.FULL_PCPUS
    taken = 0
    if full or not pool.layout.has_threads:
        taken = take_whole_cores(pool, need)
    if not full and not taken:
        taken = take_spread(pool, need)
    if missing := need - taken.bit_count():
        rest = Pool(
            layout=pool.layout,
            free=pool.free & ~taken,
            strategy=pool.strategy,
            avoid_cores=pool.avoid_cores,
            avoid_numas=pool.avoid_numas,
        )
        taken |= take_leftovers(rest, missing, taken=taken)
    return taken


def _cores_held(
    layout: CpuLayout, exclusive: CpuExclusive, held: Mapping[CpuExclusive, int]
) -> int:
    if exclusive is not CpuExclusive.PCPU_LEVEL:
        return 0
    others = held.get(exclusive, 0)
    return union(core.cpus for core in layout.cores if core.cpus & others)


def _numas_held(
    layout: CpuLayout, exclusive: CpuExclusive, held: Mapping[CpuExclusive, int]
) -> int:
    if exclusive is not CpuExclusive.NUMA_NODE_LEVEL:
        return 0
    others = held.get(exclusive, 0)
    return union(cpus for cpus in layout.by_numa.values() if cpus & others)
