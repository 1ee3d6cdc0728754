"""One thread a core: a pod shares cores with others rather than with itself.

To stay on one NUMA node, or else on one socket, comes before to spread: where a part has enough
free CPUs but not enough cores, cores give their second thread as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.cpus.pool import first_of_cores, spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.allotment.cpus.pool import Pool


def take_spread(pool: Pool, need: int) -> int:
    """Return *need* CPUs of one NUMA node or one socket; 0 if none has as many."""
    return _on_one_numa(pool, need) or _on_one_socket(pool, need)


def _on_one_numa(pool: Pool, need: int) -> int:
    if need > pool.cpus_per_numa:
        return 0
    kept = pool.free & ~pool.avoid
    parts = pool.numas(kept, among=kept)
    one_each = (first_of_cores(pool.layout, part) for part in parts)
    return _first_fit(pool, one_each, need) or _first_fit(
        pool, pool.numas(pool.free, among=pool.free), need
    )


def _on_one_socket(pool: Pool, need: int) -> int:
    if need > pool.cpus_per_socket:
        return 0
    one_each = first_of_cores(pool.layout, pool.free & ~pool.avoid_cores)
    return _first_fit(pool, pool.sockets(one_each), need) or _first_fit(
        pool, pool.sockets(pool.free), need
    )


def _first_fit(pool: Pool, parts: Iterable[int], need: int) -> int:
    for part in parts:
        if part.bit_count() >= need:
            return spread(pool.layout, part, need)
    return 0
