"""Why lanes were refused, group by group.

Thousands of refusals come down to a few groups that differ in their numbers only. For each group
the lane that came closest is found here; what is said of it is then worked out by the reference, so
that both paths use the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from numakube.scheduling.framework.verdicts import Amount, Rows
    from numakube.scheduling.numa.native.lanes import Lanes
    from numakube.scheduling.numa.native.plan import Plan, Stage


@dataclass(frozen=True, slots=True)
class RefusedLanes:
    """Lanes refused for the same reason; ``closest`` is one of them."""

    lanes: Rows
    closest: int


def refusals_of(plan: Plan, lanes: Lanes) -> list[RefusedLanes]:
    """Return why *lanes*, all of them refused, were refused."""
    if plan.unreported:
        return [RefusedLanes(lanes.index, 0)]
    found: list[RefusedLanes] = []
    open_ = lanes.index
    for finder in (_short_together, _misfits, _crowded):
        if not open_.size:
            break
        settled = list(finder(plan, lanes.part(open_)))
        found += [RefusedLanes(open_[one.lanes], int(open_[one.closest])) for one in settled]
        taken = np.concatenate([one.lanes for one in settled]) if settled else open_[:0]
        open_ = np.delete(open_, taken)
    return found


def _short_together(plan: Plan, lanes: Lanes) -> Iterator[RefusedLanes]:
    """Yield the lanes whose zones together have too little, by resource."""
    open_ = np.ones(lanes.size, dtype=np.bool_)
    for name, wanted in plan.together:
        free = lanes.free(name).sum(axis=0)
        short = open_ & (free < wanted)
        open_ &= ~short
        yield from _group(np.flatnonzero(short), _share(free, wanted))


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
        for size in np.unique(sizes[open_]).tolist():
            chosen = np.flatnonzero(open_ & (sizes == size))
            if is_undecided(lanes.zones, size):
                continue
            zones = lanes.zones if size == ANY_SIZE else size
            for group in _closest_sets(stage, lanes.part(chosen), zones):
                yield RefusedLanes(chosen[group.lanes], int(chosen[group.closest]))
                open_[chosen[group.lanes]] = False


def _by_sizes(plan: Plan, stage: Stage, lanes: Lanes, differ: Rows) -> Iterator[RefusedLanes]:
    """Yield groups of lanes on which resources need the same different numbers of zones."""
    if not differ.size:
        return
    part = lanes.part(differ)
    columns = [smallest_sizes(parts, part) for _, parts in axes_of(plan.rules, stage.want)]
    kinds, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    for number in range(len(kinds)):
        group = differ[which.reshape(-1) == number]
        yield RefusedLanes(group, int(group[0]))


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

    def offer(name: str) -> Amount:
        free = lanes.free(name)
        return free if size == 1 else np.stack([sum_over(free, places) for places in sets])

    offers = {name: offer(name) for name, _ in stage.want.parts}
    short = np.ones((len(sets), lanes.size), dtype=np.bool_)
    for name, wanted in stage.want.parts:
        short &= offers[name] >= wanted
    stuck = np.flatnonzero(~short.any(axis=0))
    if stuck.size:
        yield from _lacking(stage, {name: one[:, stuck] for name, one in offers.items()}, stuck)


def _lacking(stage: Stage, offers: Mapping[str, Amount], lanes: Rows) -> Iterator[RefusedLanes]:
    """Group *lanes* by the resource that the closest set of zones lacks most."""
    shares = [_share(offers[name], wanted) for name, wanted in stage.want.parts]
    total = shares[0].copy()
    for share in shares[1:]:
        total += share
    best = total.argmin(axis=0)
    index = np.arange(len(lanes))
    at_best = np.stack([share[best, index] for share in shares])
    worst = at_best.argmax(axis=0)
    for number in range(len(shares)):
        group = np.flatnonzero(worst == number)
        for one in _group(group, at_best[number]):
            yield RefusedLanes(lanes[one.lanes], int(lanes[one.closest]))


def _share(free: Amount, wanted: int) -> npt.NDArray[np.float64]:
    """Return which part of *wanted* is missing."""
    return np.maximum(wanted - free, 0) / wanted


def _group(lanes: Rows, share: npt.NDArray[np.float64]) -> Iterator[RefusedLanes]:
    if lanes.size:
        yield RefusedLanes(lanes, int(lanes[share[lanes].argmin()]))
