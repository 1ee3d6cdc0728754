"""The measures of `score` for all nodes of one kind at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.native.score import (
    PLACEABLE,
    PLAIN,
    ROUNDING,
    alignment,
    device_names,
    lasting,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.scheduling.framework.verdicts import Amount, Rows
    from numakube.scheduling.numa.native.lanes import Lanes
    from numakube.scheduling.numa.native.options import NativeOptions
    from numakube.scheduling.numa.native.plan import Plan
    from numakube.scheduling.numa.native.vector import LaneVerdict

Share: TypeAlias = npt.NDArray[np.float64]

_TABLE = np.array(PLACEABLE)


def score_lanes(plan: Plan, lanes: Lanes, verdict: LaneVerdict, options: NativeOptions) -> Amount:
    """Rate each lane; what is said of refused lanes means nothing."""
    if not verdict.places:
        return np.ones(lanes.size, dtype=np.int64)
    chosen = lasting(plan.stages)
    wants = [dict(plan.stages[index].want.parts) for index in chosen]
    places = [verdict.places[index] for index in chosen]
    packing, balance = _rate_single(plan, lanes, wants, places)
    scores = _total(np.ones(lanes.size), packing, balance, options)
    if verdict.wide.size:
        part = lanes.part(verdict.wide)
        sets = [verdict.sets[index] for index in chosen]
        scores[verdict.wide] = _score_wide(plan, part, wants, sets, options)
    return scores


def _total(aligned: Share, packing: Share, balance: Share, options: NativeOptions) -> Amount:
    weights = options.alignment_weight, options.packing_weight, options.balance_weight
    share = weights[0] * aligned + weights[1] * packing + weights[2] * balance
    share /= sum(weights)
    return 1 + np.floor((MAX_NODE_SCORE - 1) * share + ROUNDING).astype(np.int64)


def _rate_single(
    plan: Plan, lanes: Lanes, wants: Sequence[Mapping[str, int]], places: Sequence[Rows]
) -> tuple[Share, Share]:
    """Return packing and balance where each stage has one zone."""
    packing, balance = np.zeros(lanes.size), np.zeros(lanes.size)
    for index, (wanted, place) in enumerate(zip(wants, places, strict=True)):
        cells = lanes.cells(place)
        before = [
            (want, place == other) for want, other in zip(wants, places[:index], strict=False)
        ]
        state = LaneState(device_names(plan.rules), wanted)
        for name in state.names:
            free = lanes.free_at(name, cells)
            for want, same in before:
                if want.get(name):
                    free = free - want[name] * same
            state.set(name, free, lanes.inverse_at(name, cells))
        packing += state.packing()
        balance += state.balance()
    return packing / len(wants), balance / len(wants)


def _score_wide(
    plan: Plan,
    lanes: Lanes,
    wants: Sequence[Mapping[str, int]],
    sets: Sequence[Amount],
    options: NativeOptions,
) -> Amount:
    aligned = np.ones(lanes.size)
    packing, balance = np.zeros(lanes.size), np.zeros(lanes.size)
    for wanted, chosen in zip(wants, sets, strict=True):
        members = _members(lanes, chosen)
        aligned = np.minimum(aligned, lanes.rated(chosen, alignment))
        state = LaneState(device_names(plan.rules), wanted)
        for name in state.names:
            cap = (lanes.allocatable(name) * members).sum(axis=0)
            inverse = np.divide(1, cap, out=np.zeros(lanes.size), where=cap > 0)
            state.set(name, (lanes.free(name) * members).sum(axis=0), inverse)
        packing += state.packing()
        balance += state.balance()
    return _total(aligned, packing / len(wants), balance / len(wants), options)


def _members(lanes: Lanes, chosen: Amount) -> npt.NDArray[np.bool_]:
    """Return ``(zones, lanes)``: which zones are in the sets."""
    positions = np.arange(lanes.zones)[:, np.newaxis]
    return (chosen >> positions & 1).astype(np.bool_)


class LaneState:
    """One zone of each lane, or a set of zones taken as one, before and after a placement."""

    def __init__(self, devices: Sequence[str], wanted: Mapping[str, int]) -> None:
        self.names = (*PLAIN, *devices)
        self._devices = devices
        self._wanted = wanted
        self._before: dict[str, Share] = {}
        self._left: dict[str, Share] = {}
        self._free: dict[str, Share] = {}
        self._inverse: dict[str, Share] = {}
        self._exists: dict[str, npt.NDArray[np.bool_] | None] = {}

    def set(self, name: str, free: Amount, inverse: Share) -> None:
        """Note what is free of a resource, and one over what there is (0 if nothing)."""
        # Nothing is below 0, and the minimum is found faster than whether all are true.
        self._exists[name] = None if inverse.min(initial=1.0) > 0 else inverse > 0
        self._inverse[name] = inverse
        amount = free.astype(np.float64)
        if name in PLAIN:
            self._before[name] = amount * inverse
        else:
            self._free[name] = amount
        if name in self._wanted:
            left = np.subtract(amount, self._wanted[name])
            np.maximum(left, 0, out=left)
            self._left[name] = np.multiply(left, inverse, out=left)
        elif name in PLAIN:
            self._left[name] = self._before[name]

    def packing(self) -> Share:
        """Rate what the placement leaves for large pods."""
        before, after = self._least(self._before), self._least(self._left)
        kept = self._own()
        kept += 1
        kept -= _placeable(before) - _placeable(after)
        kept /= 2
        np.maximum(kept, 0.0, out=kept)
        np.minimum(kept, 1.0, out=kept)
        stranded = [self._stranded(name, before, after) for name in self._devices]
        if stranded:
            kept *= 1 - np.minimum(1.0, _added(stranded))
        return kept

    def balance(self) -> Share:
        """Rate how evenly the zone is used after the placement."""
        names = [name for name in self._left if name in self.names]
        most, least = self._or(names[0], -np.inf), self._or(names[0], np.inf)
        for name in names[1:]:
            most = np.maximum(most, self._or(name, -np.inf))
            least = np.minimum(least, self._or(name, np.inf))
        even = 1 - (most - least)
        if any(self._exists[name] is None for name in names):
            return even
        return np.where(np.isfinite(even), even, 1.0)

    def _or(self, name: str, otherwise: float) -> Share:
        """Return what is left of a resource, or *otherwise* where there is none of it."""
        exists = self._exists[name]
        return self._left[name] if exists is None else np.where(exists, self._left[name], otherwise)

    def _least(self, shares: Mapping[str, Share]) -> Share:
        """Return the part of CPUs and memory that is left, whichever is less; 1 if neither is."""
        one, other = (self._known(name, shares[name]) for name in PLAIN)
        least = np.minimum(one, other)
        if all(self._exists[name] is not None for name in PLAIN):
            least[np.isinf(least)] = 1.0
        return least

    def _known(self, name: str, share: Share) -> Share:
        exists = self._exists[name]
        return share if exists is None else np.where(exists, share, np.inf)

    def _own(self) -> Share:
        """Return the part of CPUs or memory that is wanted, whichever is more."""
        one, other = (self._wanted.get(name, 0) * self._inverse[name] for name in PLAIN)
        return np.maximum(one, other, out=one)

    def _stranded(self, name: str, before: Share, after: Share) -> Share:
        free, inverse, taken = self._free[name], self._inverse[name], self._wanted.get(name, 0)
        exists = self._exists[name]
        cap = np.rint(1 / (inverse if exists is None else np.where(exists, inverse, 1.0)))
        lost = np.floor(np.minimum(free, before * cap) + ROUNDING)
        lost -= np.floor(np.minimum(free - taken, after * cap) + ROUNDING)
        lost -= taken
        np.maximum(lost, 0, out=lost)
        lost *= inverse
        return lost


def _added(shares: Sequence[Share]) -> Share:
    total, *others = shares
    for share in others:
        total = total + share
    return total


def _placeable(fraction: Share) -> Share:
    quarters = (4 * fraction + ROUNDING).astype(np.intp)
    return _TABLE.take(quarters, mode="clip")
