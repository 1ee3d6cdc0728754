"""The measures of `reference_alignment_score` for all nodes of one kind at once.

Arrays are ``(stages, nodes)``: each stage has a zone on each node, or a set of zones that is taken
as one. Fractions of zones are small whole numbers, which cost a third of what amounts do.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.native.reference_alignment_score import (
    MORE_THAN_WHOLE,
    PLAIN,
    QUARTER,
    ROUNDING,
    WHOLE,
    WHOLE_ROOM,
    alignment,
    kept_whole_all,
    lasting,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.scheduling.arrays import IntArray, Mask, Rows, SmallScores
    from numakube.scheduling.numa.native.alignment import BatchVerdict
    from numakube.scheduling.numa.native.native_options import NativeOptions
    from numakube.scheduling.numa.native.node_batch import NodeBatch
    from numakube.scheduling.numa.native.pod_wants import PodChecks
    from numakube.values.resources import Amounts

Fractions: TypeAlias = npt.NDArray[np.int16]
Share: TypeAlias = npt.NDArray[np.float64]

_LEAST: Final = -2 * WHOLE
"""Stands for everything below: stages before took more than there is."""


def score_batch(
    checks: PodChecks, batch: NodeBatch, verdict: BatchVerdict, options: NativeOptions
) -> SmallScores:
    """Rate each node; what is said of refused nodes means nothing."""
    if not verdict.places:
        return np.ones(batch.size, dtype=np.int8)
    chosen = lasting(checks.stages)
    wants = [dict(checks.stages[index].want.parts) for index in chosen]
    scores: SmallScores = np.empty(batch.size, dtype=np.int8)
    if verdict.wide.size < batch.size:
        single = SingleZones(batch, [verdict.places[index] for index in chosen])
        scores[:] = _score(single, checks, wants, options)
    if verdict.wide_nodes is not None:
        sets = ZoneSets(verdict.wide_nodes, verdict.sets[chosen])
        scores[verdict.wide] = _score(sets, checks, wants, options)
    scores[verdict.unknown] = 1
    return scores


def _score(
    zones: ScoredZones, checks: PodChecks, wants: Sequence[Amounts], options: NativeOptions
) -> SmallScores:
    names = (*PLAIN, *checks.rules.devices)
    cpu, memory, *devices = resources_of(names, zones, wants)
    if options.typical is None:
        packing = _packing(cpu, memory, devices)
    else:
        names = (*{*names, *options.typical.names},)
        free = dict(zip(names, zones.free(names, _wanted(names, wants)), strict=True))
        kept = kept_whole_all(free, wants, options.typical, checks.rules.reported)
        packing = (kept * WHOLE + ROUNDING).astype(np.int32)
    by_alignment, by_packing, by_balance = options.points
    each = len(wants) * WHOLE
    points = packing.sum(axis=0) * (by_packing / each)
    points += _balance(cpu, memory, devices).sum(axis=0) * (by_balance / each)
    points += zones.aligned() * by_alignment + ROUNDING
    scores: SmallScores = points.astype(np.int8) + np.int8(1)
    return scores


class ScoredZones(Protocol):
    """The zones that stages go to."""

    def aligned(self) -> Share | float:
        """Rate how few zones each node needs, and how close they are."""

    def free(self, names: Sequence[str], wanted: Share) -> Share:
        """Return ``(resources, stages, nodes)``: what is free; stages want ``(..., 1)``."""

    def allocatable(self, names: Sequence[str]) -> IntArray:
        """Return the same of what pods may use; with ones for what is the same everywhere."""


class SingleZones:
    """One zone for each stage, which has lost what stages before took from it."""

    def __init__(self, batch: NodeBatch, places: Sequence[Rows]) -> None:
        self._batch = batch
        where = places[0][np.newaxis] if len(places) == 1 else np.stack(places)
        self._cells = batch.cells(where)
        self._same = [
            (earlier, later, np.equal(places[later], places[earlier]).astype(np.float64))
            for earlier, later in combinations(range(len(places)), 2)
        ]

    def aligned(self) -> Share | float:
        """Nothing is better than one zone."""
        return 1.0

    def free(self, names: Sequence[str], wanted: Share) -> Share:
        """Return ``(resources, stages, nodes)``: what is free; stages want ``(..., 1)``."""
        free = np.empty((len(names), *self._cells.shape))
        for index, name in enumerate(names):
            free[index] = self._batch.free_at(name, self._cells)
        for earlier, later, same in self._same:
            free[:, later] -= wanted[:, earlier] * same
        return free

    def allocatable(self, names: Sequence[str]) -> IntArray:
        """Return the same of what pods may use; ``(resources, 1, 1)`` if all have the same."""
        common = self._batch.common(names)
        if common is not None:
            return common
        return np.stack([self._batch.allocatable_at(name, self._cells) for name in names])


class ZoneSets:
    """A set of zones for each stage; all stages find what is free at first."""

    def __init__(self, batch: NodeBatch, sets: IntArray) -> None:
        self._batch = batch
        self._sets = sets
        positions = np.arange(batch.zones)[:, np.newaxis]
        self._members = sets[:, np.newaxis] >> positions & 1
        sizes = self._members.sum(axis=1)
        self._sizes = sizes[:, :1] if (sizes == sizes[:, :1]).all() else sizes
        """How many zones the sets have; ``(stages, 1)`` if all of a stage have as many."""

    def aligned(self) -> Share | float:
        """Rate how few zones each node needs, and how close they are."""
        aligned: Share = self._batch.rated(self._sets, alignment).min(axis=0)
        return aligned

    def free(self, names: Sequence[str], wanted: Share) -> Share:
        """Return ``(resources, stages, nodes)``: what is free; stages want ``(..., 1)``."""
        del wanted
        return self._together([self._batch.free(name) for name in names]).astype(np.float64)

    def allocatable(self, names: Sequence[str]) -> IntArray:
        """Return the same of what pods may use."""
        common = self._batch.common(names)
        if common is not None:
            amounts: IntArray = common * self._sizes
            return amounts
        return self._together([self._batch.allocatable(name) for name in names])

    def _together(self, amounts: Sequence[IntArray]) -> IntArray:
        return np.stack([np.einsum("szn,zn->sn", self._members, amount) for amount in amounts])


class RatedResource(NamedTuple):
    """One resource of the zones, in fractions of what pods may use of it.

    Attributes:
        before: what is free; all of it where there is none of the resource.
        left: what is free after the placement.
        wanted: what each stage wants; ``(stages, 1)`` if all zones have the same.
        asked: the stages that want any.
        there: what pods may use, as an amount; with ones for what is the same everywhere.
        exists: where there is any; ``None`` for everywhere.
    """

    before: Fractions
    left: Fractions
    wanted: Fractions
    asked: Sequence[int]
    there: IntArray
    exists: Mask | None

    def left_or(self, otherwise: int) -> Fractions:
        """Return what is left, or *otherwise* where there is none of the resource."""
        return self.left if self.exists is None else np.where(self.exists, self.left, otherwise)

    def whole(self, *fractions: Fractions) -> Iterator[Fractions]:
        """Yield the part of each of *fractions* that makes whole devices."""
        there = np.maximum(self.there, 1)
        count = int(there.max(initial=1))
        if count < WHOLE and WHOLE % count == 0 and np.all((there == count) | (self.there == 0)):
            each = np.int16(WHOLE // count)
            yield from (fraction // each * each for fraction in fractions)
            return
        for fraction in fractions:
            whole = (fraction * there + (there - 1)) // WHOLE * WHOLE // there
            yield np.where(there < WHOLE, whole, fraction).astype(np.int16)


def resources_of(
    names: Sequence[str], zones: ScoredZones, wants: Sequence[Amounts]
) -> Iterator[RatedResource]:
    """Yield what *zones* have of each resource, and what stages want of it."""
    there, amounts = zones.allocatable(names), _wanted(names, wants)
    exists = there > 0
    everywhere = bool(exists.all())
    scale = 1 / np.maximum(there, 1) * WHOLE
    if not everywhere:
        scale *= exists
    share = zones.free(names, amounts)
    share *= scale
    _bound(share)
    share += ROUNDING
    before = _not_negative(share.astype(np.int16))
    asked = np.minimum(amounts * scale, 2 * WHOLE)
    share -= asked
    left = _not_negative(share.astype(np.int16))
    taken = np.minimum(np.ceil(asked - ROUNDING), WHOLE).astype(np.int16)
    if not everywhere:
        before[~exists] = left[~exists] = WHOLE
    for index, name in enumerate(names):
        yield RatedResource(
            before[index],
            left[index],
            taken[index],
            [stage for stage, wanted in enumerate(wants) if name in wanted],
            there[index],
            None if everywhere else exists[index],
        )


def _wanted(names: Sequence[str], wants: Sequence[Amounts]) -> Share:
    """Return ``(resources, stages, 1)``: what stages want."""
    return np.array([[[float(wanted.get(name, 0))] for wanted in wants] for name in names])


def _bound(share: Share) -> None:
    """Make numbers fit small integers, also after a stage has taken what it wants."""
    if share.max(initial=0.0) >= MORE_THAN_WHOLE:
        share[share >= MORE_THAN_WHOLE] = WHOLE
    if share.min(initial=0.0) < _LEAST:
        share[share < _LEAST] = _LEAST


def _packing(
    cpu: RatedResource, memory: RatedResource, devices: Sequence[RatedResource]
) -> npt.NDArray[np.integer]:
    """Rate what the placement leaves for large pods."""
    before, after = np.minimum(cpu.before, memory.before), np.minimum(cpu.left, memory.left)
    kept = _room(after)
    kept -= _room(before)
    kept *= WHOLE // (2 * WHOLE_ROOM)
    kept += (WHOLE + np.maximum(cpu.wanted, memory.wanted)) // 2
    if not devices:
        return kept
    of_use = np.subtract(WHOLE, _stranded(devices[0], before, after))
    for device in devices[1:]:
        of_use -= _stranded(device, before, after)
        _not_negative(of_use)
    whole = kept.astype(np.int32)
    whole *= of_use
    whole //= WHOLE
    return whole


def _room(free: Fractions) -> Fractions:
    """Return how much room for shapes there is where so much of a zone is *free*."""
    quarters = free // np.int16(QUARTER)
    # Of up to 4, what two divides and what four divides, by its bits.
    room: Fractions = quarters & np.int16(6)
    room += quarters & np.int16(4)
    room += quarters
    return room


def _stranded(device: RatedResource, before: Fractions, after: Fractions) -> Fractions:
    """Return the fraction of the devices that loses the CPUs and memory beside them."""
    whole_before, whole_after = device.whole(before, after)
    lost = np.minimum(device.before, whole_before)
    lost -= whole_after
    lost -= device.wanted
    if device.exists is not None:
        lost[~device.exists] = 0
    return _not_negative(lost)


def _balance(
    cpu: RatedResource, memory: RatedResource, devices: Sequence[RatedResource]
) -> Fractions:
    """Rate how evenly the zones are used after the placement."""
    most = np.maximum(cpu.left_or(-1), memory.left_or(-1))
    least = np.minimum(cpu.left_or(WHOLE + 1), memory.left_or(WHOLE + 1))
    for device in devices:
        for stage in device.asked:
            np.maximum(most[stage], device.left_or(-1)[stage], out=most[stage])
            np.minimum(least[stage], device.left_or(WHOLE + 1)[stage], out=least[stage])
    even: Fractions = np.subtract(WHOLE, np.subtract(most, least, out=most), out=most)
    if cpu.exists is not None:
        np.minimum(even, WHOLE, out=even)
    return even


def _not_negative(fractions: Fractions) -> Fractions:
    """Make negative ones 0."""
    return np.maximum(fractions, _nothing(fractions.shape), out=fractions)


@lru_cache(maxsize=8)
def _nothing(shape: tuple[int, ...]) -> Fractions:
    """Return zeros; comparing with them is many times as fast as with one number."""
    return np.zeros(shape, dtype=np.int16)
