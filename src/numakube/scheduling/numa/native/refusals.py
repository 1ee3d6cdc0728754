"""Why lanes were refused, group by group.

Thousands of refusals come down to a few groups that differ in their numbers only: those with the
same `RefusalKey`. Along with it comes for each lane which part of the wanted amount was missing, so
that the node that came closest can be found; what is said of it is then worked out by the
reference, so that both paths use the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.native.lanes import lowest
from numakube.scheduling.numa.native.sets import (
    ANY_SIZE,
    NO_SIZE,
    axes_of,
    common_sizes,
    is_undecided,
    smallest_sizes,
    sum_over,
)
from numakube.scheduling.numa.native.vector import LaneRoom
from numakube.scheduling.numa.rejection import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.scheduling.framework.verdicts import Amount, Rows
    from numakube.scheduling.numa.native.lanes import Lanes
    from numakube.scheduling.numa.native.plan import Plan, Stage

Share: TypeAlias = npt.NDArray[np.float64]


class RefusalKey(NamedTuple):
    """What refusals of one group have in common; as fine as `Rejection.key`."""

    kind: Kind
    container: str = ""
    resource: str = ""
    detail: tuple[object, ...] = ()
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class RefusedLanes:
    """Lanes refused for the same reason, and the part of the wanted amount that each lacked."""

    key: RefusalKey
    lanes: Rows
    share: Share


def refusals_of(plan: Plan, lanes: Lanes) -> Iterator[RefusedLanes]:
    """Yield why *lanes*, all of them refused, were refused; each lane once."""
    if plan.unreported:
        key = RefusalKey(Kind.UNREPORTED, resource=plan.unreported)
        yield RefusedLanes(key, lanes.index, np.ones(lanes.size))
        return
    if plan.uneven is not None:
        key = RefusalKey(Kind.WHOLE_CORES, plan.uneven.container)
        yield RefusedLanes(key, lanes.index, np.ones(lanes.size))
        return
    open_ = np.ones(lanes.size, dtype=np.bool_)
    idle = lanes.idle()
    for finder, state in (
        (_short_together, idle), (_misfits, idle),
        (_short_together, lanes), (_misfits, lanes), (_crowded, lanes),
    ):  # fmt: skip
        left = np.flatnonzero(open_)
        if not left.size:
            return
        for found in finder(plan, state.part(left)):
            open_[left[found.lanes]] = False
            key = found.key._replace(hopeless=state is idle)
            yield RefusedLanes(key, left[found.lanes], found.share)


def _short_together(plan: Plan, lanes: Lanes) -> Iterator[RefusedLanes]:
    """Yield the lanes whose zones together have too little, by resource."""
    open_ = np.ones(lanes.size, dtype=np.bool_)
    for name, wanted in plan.together:
        free = lanes.free(name).sum(axis=0)
        short = np.flatnonzero(open_ & (free < wanted))
        open_[short] = False
        if short.size:
            yield RefusedLanes(
                RefusalKey(Kind.NODE, resource=name), short, _share(free[short], wanted)
            )


def _misfits(plan: Plan, lanes: Lanes) -> Iterator[RefusedLanes]:
    """Yield the lanes on which some stage does not fit even by itself."""
    if not plan.rules.refuses_unaligned:
        return
    open_ = np.ones(lanes.size, dtype=np.bool_)
    for stage in plan.stages:
        sizes = common_sizes(plan.rules, stage.want, lanes)
        differ = np.flatnonzero(open_ & (sizes == NO_SIZE))
        yield from _by_sizes(plan, stage, lanes, differ)
        open_[differ] = False
        for size in _distinct(sizes[open_]):
            chosen = np.flatnonzero(open_ & (sizes == size))
            if is_undecided(lanes.zones, size):
                continue
            zones = lanes.zones if size == ANY_SIZE else size
            for found in _closest_sets(stage, lanes.part(chosen), zones):
                open_[chosen[found.lanes]] = False
                yield RefusedLanes(found.key, chosen[found.lanes], found.share)


def _distinct(sizes: Amount) -> list[int]:
    """Return the different *sizes*, ascending; all are the same more often than not."""
    if sizes.size and (sizes == sizes[0]).all():
        return [int(sizes[0])]
    found: list[int] = np.unique(sizes).tolist()
    return found


def _by_sizes(plan: Plan, stage: Stage, lanes: Lanes, differ: Rows) -> Iterator[RefusedLanes]:
    """Yield groups of lanes on which resources need the same different numbers of zones."""
    if not differ.size:
        return
    part = lanes.part(differ)
    axes = axes_of(plan.rules, stage.want)
    columns = np.stack([smallest_sizes(parts, part) for _, parts in axes], axis=1)
    kinds, which = np.unique(columns, axis=0, return_inverse=True)
    for number, sizes in enumerate(kinds.tolist()):
        group = differ[which.reshape(-1) == number]
        known = tuple((name, size) for (name, _), size in zip(axes, sizes, strict=True) if size)
        key = RefusalKey(Kind.SIZES, stage.container, "", known)
        yield RefusedLanes(key, group, np.ones(len(group)))


def _crowded(plan: Plan, lanes: Lanes) -> Iterator[RefusedLanes]:
    """Yield the lanes on which a stage finds no room after those before it."""
    room = LaneRoom(lanes)
    open_ = np.ones(lanes.size, dtype=np.bool_)
    for stage in plan.stages[: plan.certain]:
        found, place = lowest(room.fitting(stage))
        stuck = np.flatnonzero(open_ & ~found)
        open_ &= found
        if stuck.size:
            offers = {name: room.offer(name)[:, stuck] for name, _ in stage.want.parts}
            yield from _lacking(stage, offers, stuck)
        room.book(stage, place)


def _closest_sets(stage: Stage, lanes: Lanes, size: int) -> Iterator[RefusedLanes]:
    """Yield the lanes on which no set of *size* zones has room, by what the closest lacks most."""
    sets = list(combinations(range(lanes.zones), size))
    offers: dict[str, Amount] = {}
    holds = np.ones((len(sets), lanes.size), dtype=np.bool_)
    for name, wanted in stage.want.parts:
        free = lanes.free(name)
        offers[name] = free if size == 1 else np.stack([sum_over(free, one) for one in sets])
        holds &= offers[name] >= wanted
    stuck = np.flatnonzero(~holds.any(axis=0))
    if stuck.size < lanes.size:
        offers = {name: one[:, stuck] for name, one in offers.items()} if stuck.size else {}
    if stuck.size:
        yield from _lacking(stage, offers, stuck)


def _lacking(stage: Stage, offers: Mapping[str, Amount], lanes: Rows) -> Iterator[RefusedLanes]:
    """Group *lanes* by the resource that the closest set of zones lacks most."""
    shares = [_share(offers[name], wanted) for name, wanted in stage.want.parts]
    total = shares[0].copy()
    for share in shares[1:]:
        total += share
    # Some set has the minimum, and the first of those is what argmin would find, but slowly.
    _, best = lowest(total == total.min(axis=0))
    index = np.arange(len(lanes))
    at_best = np.stack([share[best, index] for share in shares])
    _, worst = lowest(at_best == at_best.max(axis=0))
    for number, (name, _) in enumerate(stage.want.parts):
        group = np.flatnonzero(worst == number)
        if group.size:
            key = RefusalKey(Kind.ALIGN, stage.container, name)
            yield RefusedLanes(key, lanes[group], at_best[number, group])


def _share(free: Amount, wanted: int) -> Share:
    """Return which part of *wanted* is missing."""
    return np.multiply(np.maximum(wanted - free, 0), 1 / wanted)
