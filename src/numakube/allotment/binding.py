"""Exact CPUs for one holder: lent ones first, as they must be, within the time that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.cpus.picking import pick
from numakube.allotment.cpus.required import meets, usable
from numakube.allotment.words import BindPolicy
from numakube.values.cpuset import union

if TYPE_CHECKING:
    from numakube.allotment.facts import CpuLayout
    from numakube.allotment.supply import Supply


def bind_cpus(supply: Supply, free: int, count: int) -> int | None:
    """Return *count* of the *free* CPUs, or ``None`` if there are none that will do.

    CPUs that an init container of the same pod has had come first.
    """
    layout = supply.room.ledger.facts.cpus
    if not count or layout is None:
        return None if count else 0
    taken = 0
    for pool in _pools(supply, layout, free):
        missing = min(count - taken.bit_count(), pool.bit_count())
        taken |= _picked(supply, layout, pool, missing)
    return taken if taken.bit_count() == count and _is_sound(supply, layout, taken) else None


def within_time(supply: Supply) -> int:
    """Return CPUs that can be bound, of each NUMA node no more than it has CPU time left.

    Pods that run in its shared pool have been promised the rest.
    """
    layout, ground = supply.room.ledger.facts.cpus, supply.room.ledger.ground
    cpus = supply.cpus
    if layout is None:
        return 0
    for zone, of_zone in ground.cpus_of_zone.items():
        others = cpus & of_zone & ~supply.room.lent
        if (limit := supply.new_cpus(zone)) < others.bit_count():
            cpus &= ~others | _picked(supply, layout, others, limit)
    return cpus


def _picked(supply: Supply, layout: CpuLayout, free: int, count: int) -> int:
    need = supply.need
    grain = layout.cpus_per_core if need.required is BindPolicy.FULL_PCPUS else 1
    cpus = pick(
        layout,
        free=free,
        need=count // grain * grain,
        bind=need.bind,
        strategy=need.strategy,
        exclusive=need.cpu_exclusive,
        held=supply.room.ledger.exclusive_cpus,
    )
    return cpus or 0


def _pools(supply: Supply, layout: CpuLayout, free: int) -> tuple[int, ...]:
    """Return *free* in parts: CPUs that are lent, those that complete their cores, the rest."""
    lent = supply.room.lent & free
    if not lent:
        return (free,)
    first = usable(layout, lent, supply.need.required)
    broken = union(core.cpus for core in layout.cores if core.cpus & lent) & free & ~first
    return first, broken, free & ~first & ~broken


def _is_sound(supply: Supply, layout: CpuLayout, cpus: int) -> bool:
    """Tell whether *cpus* are as they must be, and within what NUMA nodes have left."""
    new = cpus & ~supply.room.lent
    of_zone = supply.room.ledger.ground.cpus_of_zone
    return meets(layout, cpus, supply.need.required) and all(
        (new & of_zone[zone]).bit_count() <= supply.new_cpus(zone) for zone in of_zone
    )
