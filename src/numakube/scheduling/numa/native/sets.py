"""Alignment on sets of several zones, for all nodes of one kind at once.

``restricted`` asks for a set of exactly the size that each resource needs on an idle machine;
``best-effort`` gets the smallest set that has room. Sets are tried size by size, and within a size
in the order in which the kubelet prefers them. A set is a number with a bit for each position.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.kubelet.policies import TopologyPolicy
from numakube.scheduling.numa.native.reference import MOST_SETS
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.scheduling.framework.verdicts import Amount, Mask, Rows
    from numakube.scheduling.numa.native.counts import Rules
    from numakube.scheduling.numa.native.lanes import Lanes
    from numakube.scheduling.numa.native.plan import Plan, Stage
    from numakube.scheduling.numa.native.shape import Parts, Want

ANY_SIZE: Final = 0
NO_SIZE: Final = -1
"""Resources need different numbers of zones."""

_FAR: Final = np.iinfo(np.int64).max


@lru_cache(maxsize=256)
def sets_of(zones: int, size: int) -> tuple[tuple[int, ...], ...]:
    """Return the sets of *size* positions in ascending order of their bits."""
    return tuple(sorted(combinations(range(zones), size), key=bits_of))


def bits_of(places: tuple[int, ...]) -> int:
    """Return the number that stands for a set of positions."""
    return sum(1 << place for place in places)


def is_undecided(zones: int, size: int) -> bool:
    """Tell whether sets of *size* zones, or of any, are too many to try, so that all may pass."""
    if size != ANY_SIZE:
        return comb(zones, size) > MOST_SETS
    return any(comb(zones, one) > MOST_SETS for one in range(1, zones + 1))


def axes_of(rules: Rules, want: Want) -> list[tuple[str, Parts]]:
    """Return the groups of resources whose smallest number of zones is known, with their names."""
    axes: list[tuple[str, Parts]] = []
    if want.cpu and not rules.by_socket:
        axes.append((CPU, want.cpu))
    if want.memory:
        axes.append((want.memory[0][0], want.memory))
    axes += [(part[0], (part,)) for part in want.devices if part[0] not in rules.shared_devices]
    return axes


def needs_one_zone(plan: Plan, lanes: Lanes) -> Mask:
    """Return the lanes on which each resource of each stage needs one zone only."""
    ok = np.ones(lanes.size, dtype=np.bool_)
    for stage in plan.stages:
        axes = axes_of(plan.rules, stage.want)
        for _, parts in axes:
            ok &= _any_set_holds(parts, lanes, 1)
        if not axes:
            # Nothing says how many zones are right: any set with room will do, one if it can be.
            ok &= lanes.holding(stage.want.parts).any(axis=0)
    return ok


def place_in_sets(rules: Rules, stage: Stage, lanes: Lanes) -> Amount:
    """Return the set that the stage would take on each lane by itself; 0 where it is refused."""
    sizes = common_sizes(rules, stage.want, lanes)
    chosen = np.zeros(lanes.size, dtype=np.int64)
    everywhere = (1 << lanes.zones) - 1
    if not rules.refuses_unaligned:
        # No use in trying sets when not even all zones together will do.
        chosen[~_holds(stage.want.parts, lanes.free, tuple(range(lanes.zones)))] = everywhere
    for size in range(1, lanes.zones + 1):
        open_ = np.flatnonzero((chosen == 0) & ((sizes == size) | (sizes == ANY_SIZE)))
        if not open_.size:
            continue
        if is_undecided(lanes.zones, size):
            chosen[open_] = everywhere
        else:
            _try_size(rules, stage, lanes, chosen, open_, size)
    return chosen


def _try_size(
    rules: Rules, stage: Stage, lanes: Lanes, chosen: Amount, open_: Rows, size: int
) -> None:
    """Choose among the sets of one size for the lanes that are open."""
    if rules.closest and size > 1:
        part = lanes.part(open_)
        found = _closest_of_size(stage, part, size)
        chosen[open_] = found
        return
    part, left = lanes.part(open_), np.ones(len(open_), dtype=np.bool_)
    for places in sets_of(lanes.zones, size):
        fits = left & _holds(stage.want.parts, part.free, places)
        chosen[open_[fits]] = bits_of(places)
        left &= ~fits
        if 2 * np.count_nonzero(left) < len(left):
            # Most are settled: go on with the others only.
            open_ = open_[left]
            if not open_.size:
                return
            part, left = lanes.part(open_), np.ones(len(open_), dtype=np.bool_)


def _closest_of_size(stage: Stage, lanes: Lanes, size: int) -> Amount:
    """Return for each lane the set with room whose zones are closest; 0 if none has room."""
    chosen = np.zeros(lanes.size, dtype=np.int64)
    best = np.full(lanes.size, _FAR)
    for places in sets_of(lanes.zones, size):
        fits = _holds(stage.want.parts, lanes.free, places)
        if fits.any():
            distance = _distance(lanes, places)
            fits &= distance < best
            best[fits] = distance[fits]
            chosen[fits] = bits_of(places)
    return chosen


def common_sizes(rules: Rules, want: Want, lanes: Lanes) -> Amount:
    """Return for each lane how many zones the policy asks for, `ANY_SIZE` or `NO_SIZE`."""
    common = np.full(lanes.size, ANY_SIZE, dtype=np.int64)
    if rules.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        return common + 1
    if rules.policy is not TopologyPolicy.RESTRICTED:
        return common
    for _, parts in axes_of(rules, want):
        size = smallest_sizes(parts, lanes)
        differs = (common != ANY_SIZE) & (size != ANY_SIZE) & (common != size)
        common = np.where(common == ANY_SIZE, size, common)
        common[differs] = NO_SIZE
    return common


def smallest_sizes(parts: Parts, lanes: Lanes) -> Amount:
    """Return how many zones *parts* need on an idle machine; `ANY_SIZE` if it cannot be told."""
    sizes = np.full(lanes.size, ANY_SIZE, dtype=np.int64)
    for size in range(1, lanes.zones + 1):
        open_ = sizes == ANY_SIZE
        if not open_.any() or is_undecided(lanes.zones, size):
            break
        sizes[open_ & _any_set_holds(parts, lanes, size)] = size
    return sizes


def _any_set_holds(parts: Parts, lanes: Lanes, size: int) -> Mask:
    """Return whether some set of *size* zones has *parts* in total."""
    if len(parts) == 1:
        # For one resource the best set is that of the largest zones.
        name, wanted = parts[0]
        return np.greater_equal(lanes.largest(name, size), wanted)
    ok = np.zeros(lanes.size, dtype=np.bool_)
    for places in sets_of(lanes.zones, size):
        ok |= _holds(parts, lanes.totals, places)
    return ok


def sum_over(amounts: Amount, places: tuple[int, ...]) -> Amount:
    """Return what the zones at *places* have together."""
    total: Amount = amounts[places[0]]
    for place in places[1:]:
        total = total + amounts[place]
    return total


def _holds(parts: Parts, amounts: Callable[[str], Amount], places: tuple[int, ...]) -> Mask:
    (name, wanted), *others = parts
    ok = sum_over(amounts(name), places) >= wanted
    for name, wanted in others:
        ok &= sum_over(amounts(name), places) >= wanted
    return ok


def _distance(lanes: Lanes, places: tuple[int, ...]) -> Amount:
    total = np.zeros(lanes.size, dtype=np.int64)
    for one in places:
        for other in places:
            total += lanes.distance(one, other)
    return total
