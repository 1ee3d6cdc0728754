"""Why nodes were refused, group by group.

Thousands of refusals come down to a few groups that differ in their numbers only: those with the
same `RefusalKey`. Along with it comes for each node which part of the wanted amount was missing, so
that the node that came closest can be found; what is said of it is then worked out by the
reference, so that both paths use the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.alignment_refusal import Kind
from numakube.scheduling.numa.native.alignment import (
    ANY_SIZE,
    NO_SIZE,
    BatchRoom,
    axes_of,
    common_sizes,
    is_undecided,
    smallest_sizes,
    sum_over,
)
from numakube.scheduling.numa.native.node_batch import lowest
from numakube.scheduling.snapshot.zone_table import LARGEST_AMOUNT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.numa.native.node_batch import NodeBatch
    from numakube.scheduling.numa.native.pod_wants import PodChecks, Stage

Share: TypeAlias = npt.NDArray[np.float64]


class RefusalKey(NamedTuple):
    """What refusals of one group have in common; as fine as `AlignmentRefusal.key`."""

    kind: Kind
    container: str = ""
    resource: str = ""
    detail: tuple[object, ...] = ()
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class RefusedNodes:
    """Nodes refused for the same reason, and the part of the wanted amount that each lacked."""

    key: RefusalKey
    positions: Rows
    share: Share


def refusals_of(checks: PodChecks, batch: NodeBatch) -> Iterator[RefusedNodes]:
    """Yield why *batch*, all of them refused, were refused; each node once."""
    if checks.unreported:
        key = RefusalKey(Kind.UNREPORTED, resource=checks.unreported)
        yield RefusedNodes(key, batch.index, np.ones(batch.size))
        return
    if checks.uneven is not None:
        key = RefusalKey(Kind.WHOLE_CORES, checks.uneven.container)
        yield RefusedNodes(key, batch.index, np.ones(batch.size))
        return
    open_ = np.ones(batch.size, dtype=np.bool_)
    finders = [(_short_together, batch), (_misfits, batch), (_crowded, batch)]
    if not _fits_when_idle(checks, batch):
        idle = batch.idle()
        finders = [(_short_together, idle), (_misfits, idle), *finders]
    for finder, state in finders:
        left = open_.nonzero()[0]
        if not left.size:
            return
        for found in finder(checks, state.part(left)):
            open_[left[found.positions]] = False
            key = found.key if state is batch else found.key._replace(hopeless=True)
            yield RefusedNodes(key, left[found.positions], found.share)


def _fits_when_idle(checks: PodChecks, batch: NodeBatch) -> bool:
    """Tell whether each stage fits into a zone that is large enough on every node of the kind."""
    names = {name for stage in checks.stages for name, _ in stage.want.parts}
    least = {name: batch.least(name) for name in names.union(name for name, _ in checks.together)}
    for stage in checks.stages:
        parts = [(least[name], wanted) for name, wanted in stage.want.parts]
        zones = range(batch.zones)
        if not any(all(has[zone] >= wanted for has, wanted in parts) for zone in zones):
            return False
    return all(sum(least[name]) >= wanted for name, wanted in checks.together)


def _short_together(checks: PodChecks, batch: NodeBatch) -> Iterator[RefusedNodes]:
    """Yield the nodes whose zones together have too little, by resource."""
    open_ = np.ones(batch.size, dtype=np.bool_)
    for name, wanted in checks.together:
        free = batch.together(name)
        short = (open_ & (free < wanted)).nonzero()[0]
        if short.size:
            open_[short] = False
            yield RefusedNodes(
                RefusalKey(Kind.NODE, resource=name), short, _share(free[short], wanted)
            )
            if not open_.any():
                return


def _misfits(checks: PodChecks, batch: NodeBatch) -> Iterator[RefusedNodes]:
    """Yield the nodes on which some stage does not fit even by itself."""
    if not checks.rules.refuses_unaligned:
        return
    open_ = np.ones(batch.size, dtype=np.bool_)
    for stage in checks.stages:
        sizes = common_sizes(checks.rules, stage.want, batch)
        differ = np.flatnonzero(open_ & (sizes == NO_SIZE))
        yield from _by_sizes(checks, stage, batch, differ)
        open_[differ] = False
        for size in _distinct(sizes[open_]):
            chosen = np.flatnonzero(open_ & (sizes == size))
            if is_undecided(batch.zones, size):
                continue
            zones = batch.zones if size == ANY_SIZE else size
            for found in _closest_sets(stage, batch.part(chosen), zones):
                open_[chosen[found.positions]] = False
                yield RefusedNodes(found.key, chosen[found.positions], found.share)


def _distinct(sizes: IntArray) -> list[int]:
    """Return the different *sizes*, ascending; all are the same more often than not."""
    if sizes.size and (sizes == sizes[0]).all():
        return [int(sizes[0])]
    found: list[int] = np.unique(sizes).tolist()
    return found


def _by_sizes(
    checks: PodChecks, stage: Stage, batch: NodeBatch, differ: Rows
) -> Iterator[RefusedNodes]:
    """Yield groups of nodes on which resources need the same different numbers of zones."""
    if not differ.size:
        return
    part = batch.part(differ)
    axes = axes_of(checks.rules, stage.want)
    columns = np.stack([smallest_sizes(parts, part) for _, parts in axes], axis=1)
    kinds, which = np.unique(columns, axis=0, return_inverse=True)
    for number, sizes in enumerate(kinds.tolist()):
        group = differ[which.reshape(-1) == number]
        known = tuple((name, size) for (name, _), size in zip(axes, sizes, strict=True) if size)
        key = RefusalKey(Kind.SIZES, stage.container, "", known)
        yield RefusedNodes(key, group, np.ones(len(group)))


def _crowded(checks: PodChecks, batch: NodeBatch) -> Iterator[RefusedNodes]:
    """Yield the nodes on which a stage finds no room after those before it."""
    room = BatchRoom(batch)
    open_ = np.ones(batch.size, dtype=np.bool_)
    for stage in checks.stages[: checks.certain]:
        found, place = room.lowest_for(stage)
        stuck = np.flatnonzero(open_ & ~found)
        open_ &= found
        if stuck.size:
            offers = {name: room.offer(name)[:, stuck] for name, _ in stage.want.parts}
            yield from _lacking(stage, offers, stuck)
        room.book(stage, place)


def _closest_sets(stage: Stage, batch: NodeBatch, size: int) -> Iterator[RefusedNodes]:
    """Yield the nodes on which no set of *size* zones has room, by what the closest lacks most."""
    sets = list(combinations(range(batch.zones), size))
    offers: dict[str, IntArray] = {}
    holds = np.ones((len(sets), batch.size), dtype=np.bool_)
    for name, wanted in stage.want.parts:
        free = batch.free(name)
        offers[name] = free if size == 1 else np.stack([sum_over(free, one) for one in sets])
        holds &= offers[name] >= wanted
    stuck = np.flatnonzero(~holds.any(axis=0))
    if stuck.size < batch.size:
        offers = {name: one[:, stuck] for name, one in offers.items()} if stuck.size else {}
    if stuck.size:
        yield from _lacking(stage, offers, stuck)


def _lacking(
    stage: Stage, offers: Mapping[str, IntArray], positions: Rows
) -> Iterator[RefusedNodes]:
    """Group *positions* by the resource that the closest set of zones lacks most."""
    shares = [_share(offers[name], wanted) for name, wanted in stage.want.parts]
    total = shares[0].copy()
    for share in shares[1:]:
        total += share
    # Some set has the minimum, and the first of those is what argmin would find, but slowly.
    _, best = lowest(total == total.min(axis=0))
    index = np.arange(len(positions))
    at_best = np.stack([share[best, index] for share in shares])
    _, worst = lowest(at_best == at_best.max(axis=0))
    for number, (name, _) in enumerate(stage.want.parts):
        group = np.flatnonzero(worst == number)
        if group.size:
            key = RefusalKey(Kind.ALIGN, stage.container, name)
            yield RefusedNodes(key, positions[group], at_best[number, group])


def _share(free: IntArray, wanted: int) -> Share:
    """Return which part of *wanted* is missing."""
    if wanted > LARGEST_AMOUNT:
        # No zone has as much, and the difference may be more than 64 bits hold.
        return np.subtract(float(wanted), free, dtype=np.float64) * (1 / wanted)
    return np.multiply(np.maximum(wanted - free, 0), 1 / wanted)
