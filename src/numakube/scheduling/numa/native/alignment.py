"""The decision of `reference_alignment` for all nodes of one kind at once.

The common case is fast: every container fits into one zone, so that a comparison for each resource
and container, over all zones and nodes, settles it. Nodes on which a container needs several zones
are few or all alike, and are treated apart (`numakube.scheduling.numa.native.alignment`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.kubelet.pod_demand import ContainerRole
from numakube.scheduling.numa.native.node_batch import lowest
from numakube.scheduling.numa.native.reference_alignment import MOST_SETS
from numakube.scheduling.snapshot.zone_table import LARGEST_AMOUNT
from numakube.values.numamask import mask_of
from numakube.values.resources import CPU, is_memory
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.numa.native.node_batch import NodeBatch
    from numakube.scheduling.numa.native.node_counts import NodeRules
    from numakube.scheduling.numa.native.pod_wants import Parts, PodChecks, Stage, ZoneWant


# ------------------------------------------------------------------------------------------------
# Alignment on sets of several zones, for all nodes of one kind at once.
#
# ``restricted`` asks for a set of exactly the size that each resource needs on an idle machine;
# ``best-effort`` gets the smallest set that has room. Sets are tried size by size, and within a
# size in the order in which the kubelet prefers them. A set is a number with a bit for each
# position.

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


def axes_of(rules: NodeRules, want: ZoneWant) -> list[tuple[str, Parts]]:
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


def place_in_sets(rules: NodeRules, stage: Stage, batch: NodeBatch) -> IntArray:
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
    rules: NodeRules, stage: Stage, batch: NodeBatch, chosen: IntArray, open_: Rows, size: int
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


def common_sizes(rules: NodeRules, want: ZoneWant, batch: NodeBatch) -> IntArray:
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
    for place in places:
        for other in places:
            total += batch.distance(place, other)
    return total


# ------------------------------------------------------------------------------------------------
# The decision of `reference_alignment` for all nodes of one kind at once.


@dataclass(slots=True)
class BatchVerdict:
    """What became of each node.

    Attributes:
        ok: the nodes that may take the pod.
        places: for each stage the position of the zone that it goes to, where it is one zone.
        unknown: positions of the nodes of which is not known where the pod goes.
        wide: positions of the nodes on which some stage needs several zones.
        wide_nodes: those nodes.
        sets: ``(stages, wide)``: the bits of the positions of its zones.
    """

    ok: Mask
    places: list[Rows] = field(default_factory=list)
    unknown: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    wide: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    wide_nodes: NodeBatch | None = None
    sets: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))


def judge_batch(checks: PodChecks, batch: NodeBatch) -> BatchVerdict:
    """Decide for each node whether it can take the pod, and where it would go."""
    if checks.unreported or checks.uneven is not None:
        return BatchVerdict(np.zeros(batch.size, dtype=np.bool_))
    if checks.rules.policy is TopologyPolicy.NONE or not checks.stages:
        return _judge_without_policy(checks, batch)
    verdict = _judge_one_zone_each(checks, batch)
    if verdict.wide.size:
        _judge_wide(checks, batch, verdict)
    return verdict


def _judge_without_policy(checks: PodChecks, batch: NodeBatch) -> BatchVerdict:
    verdict = BatchVerdict(have_together(checks.together, batch))
    if batch.zones == 1:
        verdict.places = [np.zeros(batch.size, dtype=np.intp) for _ in checks.stages]
    return verdict


def _judge_one_zone_each(checks: PodChecks, batch: NodeBatch) -> BatchVerdict:
    """Place the stages in order, one zone each; note on which nodes that is not the question."""
    ok, places = place_in_order(checks, batch)
    if checks.unimplied:
        ok &= have_together(checks.unimplied, batch)
    verdict = BatchVerdict(ok, places)
    if checks.rules.policy is TopologyPolicy.RESTRICTED:
        verdict.wide = np.flatnonzero(~needs_one_zone(checks, batch))
    elif checks.rules.policy is TopologyPolicy.BEST_EFFORT:
        _judge_best_effort(checks, batch, verdict)
    return verdict


def _judge_best_effort(checks: PodChecks, batch: NodeBatch, verdict: BatchVerdict) -> None:
    """Refuse only what is nowhere; where single zones do not do, several will."""
    open_ = np.flatnonzero(~verdict.ok)
    if not open_.size:
        return
    part = batch.part(open_)
    ok = verdict.ok[open_] = have_together(checks.together, part)
    known = np.ones(part.size, dtype=np.bool_)
    for stage in checks.stages:
        known &= have_together(stage.want.parts, part)
    verdict.unknown = open_[~known]
    if batch.zones > 1:
        verdict.wide = open_[ok & known & ~fits_alone(checks.stages, batch)[open_]]


def fits_alone(stages: Sequence[Stage], batch: NodeBatch) -> Mask:
    """Return whether each stage by itself fits into one zone."""
    ok = np.ones(batch.size, dtype=np.bool_)
    for stage in stages:
        ok &= batch.holding(stage.want.parts).any(axis=0)
    return ok


def place_in_order(checks: PodChecks, batch: NodeBatch) -> tuple[Mask, list[Rows]]:
    """Put each stage into the lowest zone with room; those after the certain ones as if alone.

    A stage that finds no room goes where it would go alone, and so do all after it.
    """
    room = BatchRoom(batch)
    ok = np.ones(batch.size, dtype=np.bool_)
    places = []
    for index, stage in enumerate(checks.stages):
        if index >= checks.certain:
            found, place = lowest(batch.holding(stage.want.parts))
        else:
            found, place = room.lowest_for(stage)
            if index and not checks.rules.refuses_unaligned:
                place = _or_alone(stage, batch, found & ok, place)
            if index + 1 < checks.certain:
                room.book(stage, place)
        ok &= found
        places.append(place)
    return ok, places


def _or_alone(stage: Stage, batch: NodeBatch, found: Mask, place: Rows) -> Rows:
    lost = np.flatnonzero(~found)
    if lost.size:
        place[lost] = lowest(batch.holding(stage.want.parts)[:, lost])[1]
    return place


class BatchRoom:
    """What is left in each zone of each node while stages are placed; see `reference.Room`.

    Only one zone a stage has less than at the start, so that it is enough to look at a zone again
    if it would be taken.
    What an init container took stays with the pod, so that it is not taken off what later stages
    find; but CPUs and devices tie them to its zone, as long as some of it has not been used again.
    """

    def __init__(self, batch: NodeBatch) -> None:
        self._batch = batch
        self._taken: list[tuple[dict[str, int], Rows]] = []
        self._spare: dict[str, int] = {}
        self._tied_to: dict[str, Rows] = {}

    def lowest_for(self, stage: Stage) -> tuple[Mask, Rows]:
        """Return where *stage* fits, and the position of the lowest zone with room (else 0)."""
        ok = self._batch.holding(stage.want.parts)
        for name, _ in stage.want.parts:
            if self._spare.get(name):
                ok = ok & self._untied(name)
        found, place = lowest(ok)
        at: Rows | slice = slice(None)
        # Each pass rules out one zone that was taken from, and there are no more than stages.
        for _ in self._taken:
            lacking = (found[at] & self._lacks(stage, place[at], at)).nonzero()[0]
            if not lacking.size:
                break
            ok = ok[:, lacking]
            ok[place[at][lacking], np.arange(len(lacking))] = False
            at = lacking if isinstance(at, slice) else at[lacking]
            found[at], place[at] = lowest(ok)
        return found, place

    def offer(self, name: str) -> IntArray:
        """Return what the next stage is offered of a resource, nothing where it may not go."""
        left = self._batch.free(name).copy()
        for taken, place in self._taken:
            left[place, self._batch.index] -= taken.get(name, 0)
        return left * self._untied(name) if self._spare.get(name) else left

    def book(self, stage: Stage, place: Rows) -> None:
        """Take what *stage* wants out of the zones at *place*."""
        if stage.role is not ContainerRole.INIT:
            taken = {name: min(wanted, LARGEST_AMOUNT) for name, wanted in stage.want.parts}
            self._taken.append((taken, place))
        for name, wanted in stage.want.parts:
            spare = self._spare.get(name, 0)
            if stage.role is not ContainerRole.INIT:
                self._spare[name] = max(0, spare - wanted)
            elif not is_memory(name):
                self._tied_to[name] = self._tied_to[name] if spare else place
                self._spare[name] = max(spare, wanted)

    def _lacks(self, stage: Stage, place: Rows, at: Rows | slice) -> Mask:
        """Return whether stages so far took too much from the zones at *place*, of nodes *at*."""
        cells = self._batch.cells(place, at)
        same = [(taken, place == where[at]) for taken, where in self._taken]
        lacks = np.zeros(len(place), dtype=np.bool_)
        for name, wanted in stage.want.parts:
            gone = [(taken[name], there) for taken, there in same if name in taken]
            if len(gone) == 1:
                (amount, there), *_ = gone
                lacks |= there & (self._batch.free_at(name, cells) < wanted + amount)
            elif gone:
                needed = sum([amount * there for amount, there in gone], start=wanted)
                lacks |= self._batch.free_at(name, cells) < needed
        return lacks

    def _untied(self, name: str) -> Mask:
        positions = np.arange(self._batch.zones)[:, np.newaxis]
        return np.equal(positions, self._tied_to[name][np.newaxis, :])


def _judge_wide(checks: PodChecks, batch: NodeBatch, verdict: BatchVerdict) -> None:
    """Decide for the nodes on which some stage needs several zones."""
    part = verdict.wide_nodes = batch.part(verdict.wide)
    ok = have_together(checks.together, part)
    verdict.sets = np.empty((len(checks.stages), part.size), dtype=np.int64)
    for index, stage in enumerate(checks.stages):
        verdict.sets[index] = place_in_sets(checks.rules, stage, part)
        ok &= verdict.sets[index] != 0
    verdict.ok[verdict.wide] = ok
