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

from numakube.scheduling.numa.native.reference_alignment import MOST_SETS
from numakube.values.numamask import mask_of
from numakube.values.resources import CPU
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.numa.native.alignment_stages import PodChecks, Stage
    from numakube.scheduling.numa.native.node_batch import NodeBatch
    from numakube.scheduling.numa.native.node_counts import Rules
    from numakube.scheduling.numa.native.pod_wants import Parts, Want

ANY_SIZE: Final = 0
NO_SIZE: Final = -1
"""Resources need different numbers of zones."""

_AT_ONCE: Final = 4096
"""Sets times nodes that are looked at at once; one set after the other is faster for more."""
_FAR: Final = np.iinfo(np.int64).max


@lru_cache(maxsize=256)
def sets_of(zones: int, size: int) -> tuple[tuple[int, ...], ...]:
    """Return the sets of *size* positions in ascending order of their bits."""
    return tuple(sorted(combinations(range(zones), size), key=mask_of))


@lru_cache(maxsize=256)
def _arrays_of(zones: int, size: int) -> tuple[IntArray, IntArray]:
    """Return `sets_of`, and the bits of each, as arrays."""
    sets = sets_of(zones, size)
    return np.array(sets), np.array([bits_of(places) for places in sets])


def bits_of(places: tuple[int, ...]) -> int:
    """Return the number that stands for a set of positions; the last of 64 is its sign."""
    mask = mask_of(places)
    return mask - (1 << 64) if mask >> 63 else mask


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


def needs_one_zone(checks: PodChecks, batch: NodeBatch) -> Mask:
    """Return the nodes on which each resource of each stage needs one zone only."""
    ok = np.ones(batch.size, dtype=np.bool_)
    for stage in checks.stages:
        axes = axes_of(checks.rules, stage.want)
        for _, parts in axes:
            ok &= _any_set_holds(parts, batch, 1)
        if not axes:
            # Nothing says how many zones are right: any set with room will do, one if it can be.
            ok &= batch.holding(stage.want.parts).any(axis=0)
    return ok


def have_together(parts: Sequence[tuple[str, int]], batch: NodeBatch) -> Mask:
    """Return whether all zones together have *parts*."""
    ok = np.ones(batch.size, dtype=np.bool_)
    for name, wanted in parts:
        ok &= batch.together(name) >= wanted
    return ok


def place_in_sets(rules: Rules, stage: Stage, batch: NodeBatch) -> IntArray:
    """Return the set that the stage would take on each node by itself; 0 where it is refused."""
    sizes = common_sizes(rules, stage.want, batch)
    chosen = np.zeros(batch.size, dtype=np.int64)
    everywhere = _arrays_of(batch.zones, batch.zones)[1]
    for size in range(1, batch.zones + 1):
        open_ = np.flatnonzero((chosen == 0) & ((sizes == size) | (sizes == ANY_SIZE)))
        if not open_.size:
            if np.count_nonzero(chosen) == len(chosen):
                break
            continue
        if is_undecided(batch.zones, size):
            chosen[open_] = everywhere
        else:
            _try_size(rules, stage, batch, chosen, open_, size)
    return chosen


def _try_size(
    rules: Rules, stage: Stage, batch: NodeBatch, chosen: IntArray, open_: Rows, size: int
) -> None:
    """Choose among the sets of one size for the nodes that are open."""
    if rules.closest and size > 1:
        part = batch.part(open_)
        found = _closest_of_size(stage, part, size)
        chosen[open_] = found
        return
    sets = sets_of(batch.zones, size)
    if len(sets) * len(open_) <= _AT_ONCE:
        chosen[open_] = _lowest_of(*_arrays_of(batch.zones, size), stage, batch.part(open_))
        return
    part, left = batch.part(open_), np.ones(len(open_), dtype=np.bool_)
    for places in sets:
        fits = left & _holds(stage.want.parts, part.free, places)
        chosen[open_[fits]] = bits_of(places)
        left &= ~fits
        if 2 * np.count_nonzero(left) < len(left):
            # Most are settled: go on with the others only.
            open_ = open_[left]
            if not open_.size:
                return
            part, left = batch.part(open_), np.ones(len(open_), dtype=np.bool_)


def _lowest_of(sets: IntArray, bits: IntArray, stage: Stage, batch: NodeBatch) -> IntArray:
    """Return the bits of the first of *sets* with room on each node, looked at at once; else 0."""
    ok = np.ones((len(sets), batch.size), dtype=np.bool_)
    for name, wanted in stage.want.parts:
        ok &= batch.free(name)[sets].sum(axis=1) >= wanted
    first: IntArray = bits[ok.argmax(axis=0)]
    return first * ok.any(axis=0)


def _closest_of_size(stage: Stage, batch: NodeBatch, size: int) -> IntArray:
    """Return for each node the set with room whose zones are closest; 0 if none has room."""
    chosen = np.zeros(batch.size, dtype=np.int64)
    best = np.full(batch.size, _FAR)
    for places in sets_of(batch.zones, size):
        fits = _holds(stage.want.parts, batch.free, places)
        if fits.any():
            distance = _distance(batch, places)
            fits &= distance < best
            best[fits] = distance[fits]
            chosen[fits] = bits_of(places)
    return chosen


def common_sizes(rules: Rules, want: Want, batch: NodeBatch) -> IntArray:
    """Return for each node how many zones the policy asks for, `ANY_SIZE` or `NO_SIZE`."""
    common = np.full(batch.size, ANY_SIZE, dtype=np.int64)
    if rules.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        return common + 1
    if rules.policy is not TopologyPolicy.RESTRICTED:
        return common
    for _, parts in axes_of(rules, want):
        size = smallest_sizes(parts, batch)
        differs = (common != ANY_SIZE) & (size != ANY_SIZE) & (common != size)
        common = np.where(common == ANY_SIZE, size, common)
        common[differs] = NO_SIZE
    return common


def smallest_sizes(parts: Parts, batch: NodeBatch) -> IntArray:
    """Return how many zones *parts* need on an idle machine; `ANY_SIZE` if it is unknown."""
    sizes = np.full(batch.size, ANY_SIZE, dtype=np.int64)
    for size in range(1, batch.zones + 1):
        open_ = sizes == ANY_SIZE
        if not open_.any() or is_undecided(batch.zones, size):
            break
        sizes[open_ & _any_set_holds(parts, batch, size)] = size
    return sizes


def _any_set_holds(parts: Parts, batch: NodeBatch, size: int) -> Mask:
    """Return whether some set of *size* zones has *parts* in total."""
    if len(parts) == 1:
        # For one resource the best set is that of the largest zones.
        name, wanted = parts[0]
        return np.greater_equal(batch.largest(name, size), wanted)
    ok = np.zeros(batch.size, dtype=np.bool_)
    for places in sets_of(batch.zones, size):
        ok |= _holds(parts, batch.totals, places)
    return ok


def sum_over(amounts: IntArray, places: tuple[int, ...]) -> IntArray:
    """Return what the zones at *places* have together."""
    total: IntArray = amounts[places[0]]
    for place in places[1:]:
        total = total + amounts[place]
    return total


def _holds(parts: Parts, amounts: Callable[[str], IntArray], places: tuple[int, ...]) -> Mask:
    (name, wanted), *others = parts
    ok = sum_over(amounts(name), places) >= wanted
    for name, wanted in others:
        ok &= sum_over(amounts(name), places) >= wanted
    return ok


def _distance(batch: NodeBatch, places: tuple[int, ...]) -> IntArray:
    total = np.zeros(batch.size, dtype=np.int64)
    for one in places:
        for other in places:
            total += batch.distance(one, other)
    return total
