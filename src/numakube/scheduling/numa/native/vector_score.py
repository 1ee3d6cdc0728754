"""The measures of `score` for all nodes of one kind at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.native.counts import LOCAL_DISTANCE, UNKNOWN_DISTANCE
from numakube.scheduling.numa.native.score import (
    CLOSENESS_PART,
    PLAIN,
    SHAPES,
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

_ROUNDING = 1e-9


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


def _total(alignment: Share, packing: Share, balance: Share, options: NativeOptions) -> Amount:
    weights = options.alignment_weight, options.packing_weight, options.balance_weight
    share = weights[0] * alignment + weights[1] * packing + weights[2] * balance
    share /= sum(weights)
    return 1 + np.floor((MAX_NODE_SCORE - 1) * share + _ROUNDING).astype(np.int64)


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
            state.set(name, free, lanes.allocatable_at(name, cells))
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
    alignment = np.ones(lanes.size)
    packing, balance = np.zeros(lanes.size), np.zeros(lanes.size)
    for wanted, chosen in zip(wants, sets, strict=True):
        alignment = np.minimum(alignment, _alignment(lanes, chosen))
        state = LaneState(device_names(plan.rules), wanted)
        for name in state.names:
            state.set(
                name,
                _sum_over(lanes.free(name), chosen),
                _sum_over(lanes.allocatable(name), chosen),
            )
        packing += state.packing()
        balance += state.balance()
    return _total(alignment, packing / len(wants), balance / len(wants), options)


def _has(chosen: Amount, position: int) -> npt.NDArray[np.bool_]:
    return (chosen >> position & 1).astype(np.bool_)


def _sum_over(amounts: Amount, chosen: Amount) -> Amount:
    total = np.zeros(amounts.shape[1], dtype=np.int64)
    for position in range(len(amounts)):
        total += amounts[position] * _has(chosen, position)
    return total


def _alignment(lanes: Lanes, chosen: Amount) -> Share:
    count = np.zeros(lanes.size)
    close = np.zeros(lanes.size)
    for one in range(lanes.zones):
        inside = _has(chosen, one)
        count += inside
        for other in range(lanes.zones):
            if one != other:
                close += _closeness(lanes.distance(one, other)) * (inside & _has(chosen, other))
    pairs = np.maximum(count * (count - 1), 1)
    share = (1 - CLOSENESS_PART + CLOSENESS_PART * (close / pairs)) / np.maximum(count, 1)
    return np.where(count <= 1, 1.0, share)


def _closeness(distance: Amount) -> Share:
    close = LOCAL_DISTANCE / np.maximum(LOCAL_DISTANCE, distance)
    return np.where(distance >= UNKNOWN_DISTANCE, 0.0, close)


class LaneState:
    """One zone of each lane, or a set of zones taken as one, before and after a placement."""

    def __init__(self, devices: Sequence[str], wanted: Mapping[str, int]) -> None:
        self.names = (*PLAIN, *devices)
        self._devices = devices
        self._wanted = wanted
        self._free: dict[str, Share] = {}
        self._cap: dict[str, Share] = {}
        self._left: dict[str, Share] = {}
        self._exists: dict[str, npt.NDArray[np.bool_] | None] = {}

    def set(self, name: str, free: Amount, cap: Amount) -> None:
        """Note what there is of a resource."""
        exists = cap > 0
        self._exists[name] = None if exists.all() else exists
        self._cap[name] = np.maximum(cap, 1).astype(np.float64)
        self._free[name] = free.astype(np.float64)
        if name in PLAIN or name in self._wanted:
            left = np.maximum(0, self._free[name] - self._wanted.get(name, 0))
            self._left[name] = np.divide(left, self._cap[name], out=left)

    def packing(self) -> Share:
        """Rate what the placement leaves for large pods."""
        before = self._least({name: self._free[name] / self._cap[name] for name in PLAIN})
        after = self._least(self._left)
        loss = _placeable(before) - _placeable(after)
        kept: Share = np.minimum(1.0, np.maximum(0.0, (1 + self._own() - loss) / 2))
        stranded = np.zeros_like(kept)
        for name in self._devices:
            stranded += self._stranded(name, before, after)
        kept *= 1 - np.minimum(1.0, stranded)
        return kept

    def balance(self) -> Share:
        """Rate how evenly the zone is used after the placement."""
        used = [(name, 1 - left) for name, left in self._left.items() if name in self.names]
        most = np.full(len(used[0][1]), -np.inf)
        least = np.full(len(most), np.inf)
        for name, share in used:
            exists = self._exists[name]
            most = np.maximum(most, share if exists is None else np.where(exists, share, -np.inf))
            least = np.minimum(least, share if exists is None else np.where(exists, share, np.inf))
        return np.where(most >= least, 1 - (most - least), 1.0)

    def _least(self, shares: Mapping[str, Share]) -> Share:
        """Return the part of CPUs and memory that is left, whichever is less; 1 if neither is."""
        least = np.full(len(shares[PLAIN[0]]), np.inf)
        complete = False
        for name in PLAIN:
            exists = self._exists[name]
            complete |= exists is None
            share = shares[name] if exists is None else np.where(exists, shares[name], np.inf)
            least = np.minimum(least, share)
        return least if complete else np.where(np.isinf(least), 1.0, least)

    def _own(self) -> Share:
        own = np.zeros(len(self._free[PLAIN[0]]))
        for name in PLAIN:
            if name in self._wanted:
                part, exists = self._wanted[name] / self._cap[name], self._exists[name]
                own = np.maximum(own, part if exists is None else np.where(exists, part, 0.0))
        return own

    def _stranded(self, name: str, before: Share, after: Share) -> Share:
        free, cap, taken = self._free[name], self._cap[name], self._wanted.get(name, 0)
        usable_before = np.floor(np.minimum(free, before * cap) + _ROUNDING)
        usable_after = np.floor(np.minimum(free - taken, after * cap) + _ROUNDING)
        lost = np.divide(np.maximum(0, usable_before - usable_after - taken), cap)
        exists = self._exists[name]
        return lost if exists is None else np.where(exists, lost, 0.0)


def _placeable(fraction: Share) -> Share:
    total = np.zeros_like(fraction)
    for parts in SHAPES:
        total += np.floor(parts * fraction + _ROUNDING) / parts
    return total / len(SHAPES)
