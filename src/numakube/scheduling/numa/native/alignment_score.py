"""The measures of `reference_alignment_score` for all nodes of one kind at once.

Arrays are ``(stages, nodes)``: each stage has a zone on each node, or a set of zones that is taken
as one. Fractions of zones are small whole numbers, which cost a third of what amounts do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.numa.native.reference_alignment_score import (
    PLAIN,
    QUARTER,
    ROUNDING,
    WHOLE,
    WHOLE_ROOM,
    alignment,
    fraction_wanted,
    lasting,
)
from numakube.scheduling.numa.native.zone_fragments import kept_whole_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.scheduling.arrays import IntArray, Mask, Rows, SmallScores
    from numakube.scheduling.numa.native.alignment import BatchVerdict
    from numakube.scheduling.numa.native.alignment_stages import PodChecks
    from numakube.scheduling.numa.native.native_options import NativeOptions
    from numakube.scheduling.numa.native.node_batch import NodeBatch
    from numakube.values.resources import Amounts

Fractions: TypeAlias = npt.NDArray[np.int16]
Share: TypeAlias = npt.NDArray[np.float64]


def score_batch(
    checks: PodChecks, batch: NodeBatch, verdict: BatchVerdict, options: NativeOptions
) -> SmallScores:
    """Rate each node; what is said of refused nodes means nothing."""
    if not verdict.places:
        return np.ones(batch.size, dtype=np.int8)
    chosen = lasting(checks.stages)
    wants = [dict(checks.stages[index].want.parts) for index in chosen]
    single = SingleZones(batch, [verdict.places[index] for index in chosen], wants)
    scores = _score(single, checks, wants, options)
    if verdict.wide_nodes is not None:
        sets = ZoneSets(verdict.wide_nodes, verdict.sets[chosen])
        scores[verdict.wide] = _score(sets, checks, wants, options)
    return scores


def _score(
    zones: Zones, checks: PodChecks, wants: Sequence[Amounts], options: NativeOptions
) -> SmallScores:
    plain = [Resource.of(name, zones, wants) for name in PLAIN]
    devices = [Resource.of(name, zones, wants) for name in checks.rules.devices]
    if options.typical is None:
        packing = _packing(plain, devices)
    else:
        names = {*PLAIN, *checks.rules.devices, *options.typical.names}
        free = {name: zones.free(name).astype(np.float64) for name in names}
        kept = kept_whole_all(free, wants, options.typical, checks.rules.reported)
        packing = (kept * WHOLE + ROUNDING).astype(np.int32)
    by_alignment, by_packing, by_balance = options.points
    each = len(wants) * WHOLE
    points = packing.sum(axis=0) * (by_packing / each)
    points += _balance(plain, devices).sum(axis=0) * (by_balance / each)
    points += zones.aligned() * by_alignment + ROUNDING
    scores: SmallScores = points.astype(np.int8) + np.int8(1)
    return scores


class Zones(Protocol):
    """The zones that stages go to."""

    def aligned(self) -> Share | float:
        """Rate how few zones each node needs, and how close they are."""

    def free(self, name: str) -> IntArray:
        """Return what is free of a resource."""

    def allocatable(self, name: str) -> tuple[IntArray | int, Mask | None]:
        """Return what pods may use of a resource, and where that is anything.

        It is a number if all that have any have the same; ``None`` stands for everywhere.
        """


class SingleZones:
    """One zone for each stage, which has lost what stages before took from it."""

    def __init__(self, batch: NodeBatch, places: Sequence[Rows], wants: Sequence[Amounts]) -> None:
        self._batch = batch
        self._wants = wants
        where = places[0][np.newaxis] if len(places) == 1 else np.stack(places)
        self._cells = batch.cells(where)
        self._same = [
            (earlier, later, np.equal(places[later], places[earlier]).astype(np.int64))
            for earlier, later in combinations(range(len(places)), 2)
        ]

    def aligned(self) -> Share | float:
        """Nothing is better than one zone."""
        return 1.0

    def free(self, name: str) -> IntArray:
        """Return what is free of a resource."""
        free = self._batch.free_at(name, self._cells)
        for earlier, later, same in self._same:
            if name in self._wants[earlier]:
                free[later] -= self._wants[earlier][name] * same
        return free

    def allocatable(self, name: str) -> tuple[IntArray | int, Mask | None]:
        """Return what pods may use of a resource, and where that is anything."""
        return self._batch.allocatable_at(name, self._cells)


class ZoneSets:
    """A set of zones for each stage; all stages find what is free at first."""

    def __init__(self, batch: NodeBatch, sets: IntArray) -> None:
        self._batch = batch
        self._sets = sets
        positions = np.arange(batch.zones)[:, np.newaxis]
        self._members = (sets[:, np.newaxis] >> positions & 1).astype(np.bool_)
        self._sizes = self._members.sum(axis=1)

    def aligned(self) -> Share | float:
        """Rate how few zones each node needs, and how close they are."""
        aligned: Share = self._batch.rated(self._sets, alignment).min(axis=0)
        return aligned

    def free(self, name: str) -> IntArray:
        """Return what is free of a resource."""
        return self._together(self._batch.free(name))

    def allocatable(self, name: str) -> tuple[IntArray | int, Mask | None]:
        """Return what pods may use of a resource, and where that is anything."""
        if common := self._batch.common(name):
            return common * self._sizes, None
        amounts = self._together(self._batch.allocatable(name))
        return amounts, amounts > 0

    def _together(self, amounts: IntArray) -> IntArray:
        total: IntArray = (self._members * amounts).sum(axis=1)
        return total


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the zones, in fractions of what pods may use of it.

    Attributes:
        before: what is free; all of it where there is none of the resource.
        left: what is free after the placement.
        wanted: what each stage wants; ``(stages, 1)`` if all zones have the same.
        asked: the stages that want any.
        there: what pods may use, in whole amounts; a number if all that have any have the same.
        exists: where there is any; ``None`` for everywhere.
    """

    before: Fractions
    left: Fractions
    wanted: Fractions
    asked: Sequence[int]
    there: IntArray | int
    exists: Mask | None

    @classmethod
    def of(cls, name: str, zones: Zones, wants: Sequence[Amounts]) -> Resource:
        """Return what *zones* have of a resource, and what stages want of it."""
        there, exists = zones.allocatable(name)
        inverse = 1 / there if isinstance(there, int) else 1 / np.maximum(there, 1)
        before = _before(zones.free(name), inverse)
        wanted = _wanted([wanted.get(name, 0) for wanted in wants], inverse)
        if exists is not None:
            before[~exists] = WHOLE
            wanted = np.where(exists, wanted, 0)
        left = _not_negative(before - wanted)
        asked = [stage for stage, wanted in enumerate(wants) if name in wanted]
        return cls(before, left, wanted, asked, there, exists)

    def left_or(self, otherwise: int) -> Fractions:
        """Return what is left, or *otherwise* where there is none of the resource."""
        return self.left if self.exists is None else np.where(self.exists, self.left, otherwise)

    def whole(self, fractions: Fractions) -> Fractions:
        """Return the part of *fractions* that makes whole devices."""
        there = self.there
        if isinstance(there, int) and there < WHOLE and WHOLE % there == 0:
            each = np.int16(WHOLE // there)
            return fractions // each * each
        there = np.maximum(there, 1)
        whole = (fractions * there + (there - 1)) // WHOLE * WHOLE // there
        return np.where(there < WHOLE, whole, fractions).astype(np.int16)


def _before(free: IntArray, inverse: Share | float) -> Fractions:
    share = free.astype(np.float64)
    share *= inverse * WHOLE
    share += ROUNDING
    if share.max(initial=0.0) >= WHOLE + 1:
        np.minimum(share, WHOLE, out=share)
    return _not_negative(share.astype(np.int16))


def _wanted(amounts: Sequence[int], inverse: Share | float) -> Fractions:
    if isinstance(inverse, float):
        each = [[fraction_wanted(amount, inverse)] for amount in amounts]
        return np.array(each, dtype=np.int16)
    wanted = np.ceil(np.array(amounts)[:, np.newaxis] * (inverse * WHOLE) - ROUNDING)
    return np.minimum(wanted, WHOLE).astype(np.int16)


def _packing(plain: Sequence[Resource], devices: Sequence[Resource]) -> npt.NDArray[np.integer]:
    """Rate what the placement leaves for large pods."""
    cpu, memory = plain
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
    room: Fractions = quarters & np.int16(6)
    room += quarters & np.int16(4)
    room += quarters
    return room


def _stranded(device: Resource, before: Fractions, after: Fractions) -> Fractions:
    """Return the fraction of the devices that loses the CPUs and memory beside them."""
    lost = np.minimum(device.before, device.whole(before))
    lost -= device.whole(after)
    lost -= device.wanted
    if device.exists is not None:
        lost[~device.exists] = 0
    return _not_negative(lost)


def _balance(plain: Sequence[Resource], devices: Sequence[Resource]) -> Fractions:
    """Rate how evenly the zones are used after the placement."""
    most = np.maximum(*(one.left_or(-1) for one in plain))
    least = np.minimum(*(one.left_or(WHOLE + 1) for one in plain))
    for device in devices:
        for stage in device.asked:
            np.maximum(most[stage], device.left_or(-1)[stage], out=most[stage])
            np.minimum(least[stage], device.left_or(WHOLE + 1)[stage], out=least[stage])
    even: Fractions = np.subtract(WHOLE, np.subtract(most, least, out=most), out=most)
    if any(one.exists is not None for one in plain):
        np.minimum(even, WHOLE, out=even)
    return even


def _not_negative(fractions: Fractions) -> Fractions:
    """Make negative ones 0."""
    return np.maximum(fractions, _nothing(fractions.shape), out=fractions)


@lru_cache(maxsize=8)
def _nothing(shape: tuple[int, ...]) -> Fractions:
    """Return zeros; comparing with them is many times as fast as with one number."""
    return np.zeros(shape, dtype=np.int16)
