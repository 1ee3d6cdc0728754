"""The measures of `reference_alignment_score` for all nodes of one kind at once."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.native.reference_alignment_score import (
    PLACEABLE,
    PLAIN,
    ROUNDING,
    alignment,
    lasting,
)
from numakube.scheduling.numa.native.zone_fragments import kept_whole_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.scheduling.arrays import IntArray, Rows, SmallScores
    from numakube.scheduling.numa.native.alignment import BatchVerdict
    from numakube.scheduling.numa.native.alignment_stages import PodChecks
    from numakube.scheduling.numa.native.native_options import NativeOptions
    from numakube.scheduling.numa.native.node_batch import NodeBatch

Share: TypeAlias = npt.NDArray[np.float64]

_TABLE = np.array(PLACEABLE)


def score_batch(
    checks: PodChecks, batch: NodeBatch, verdict: BatchVerdict, options: NativeOptions
) -> SmallScores:
    """Rate each node; what is said of refused nodes means nothing."""
    if not verdict.places:
        return np.ones(batch.size, dtype=np.int8)
    chosen = lasting(checks.stages)
    wants = [dict(checks.stages[index].want.parts) for index in chosen]
    places = [verdict.places[index] for index in chosen]
    packing, balance = _rate_single(checks, batch, wants, places, options)
    scores = _total(1.0, packing, balance, options)
    if verdict.wide.size:
        part = batch.part(verdict.wide)
        sets = [verdict.sets[index] for index in chosen]
        scores[verdict.wide] = _score_wide(checks, part, wants, sets, options)
    return scores


def _total(
    aligned: Share | float, packing: Share, balance: Share, options: NativeOptions
) -> SmallScores:
    weights = options.alignment_weight, options.packing_weight, options.balance_weight
    share = np.multiply(weights[1], packing)
    share += weights[0] * aligned
    share += weights[2] * balance
    share /= sum(weights)
    share *= MAX_NODE_SCORE - 1
    share += ROUNDING
    return share.clip(0.0, MAX_NODE_SCORE - 1, out=share).astype(np.int8) + np.int8(1)


def _rate_single(
    checks: PodChecks,
    batch: NodeBatch,
    wants: Sequence[Mapping[str, int]],
    places: Sequence[Rows],
    options: NativeOptions,
) -> tuple[Share, Share]:
    """Return packing and balance where each stage has one zone."""
    where = places[0][np.newaxis] if len(places) == 1 else np.stack(places)
    cells = batch.cells(where)
    before = [
        (later, earlier, np.equal(where[later], where[earlier]).astype(np.float64))
        for later, earlier in combinations(range(len(wants) - 1, -1, -1), 2)
    ]
    state = BatchState(checks.rules.devices, wants)
    frees: dict[str, Share] = {}
    for name in {*state.names, *(options.typical.names if options.typical else ())}:
        free = frees[name] = batch.free_at(name, cells).astype(np.float64)
        for later, earlier, same in before:
            if wants[earlier].get(name):
                free[later] -= wants[earlier][name] * same
        if name in state.names:
            state.set(name, free, batch.inverse_at(name, cells))
    return _packing(state, checks, frees, wants, options), state.balance()


def _packing(
    state: BatchState,
    checks: PodChecks,
    frees: Mapping[str, Share],
    wants: Sequence[Mapping[str, int]],
    options: NativeOptions,
) -> Share:
    """Rate the packing: by typical pods if those are known, or by parts of a zone."""
    if options.typical is None:
        return state.packing()
    return _mean(kept_whole_all(frees, wants, options.typical, checks.rules.reported))


def _score_wide(
    checks: PodChecks,
    batch: NodeBatch,
    wants: Sequence[Mapping[str, int]],
    sets: Sequence[IntArray],
    options: NativeOptions,
) -> SmallScores:
    members = [_members(batch, chosen) for chosen in sets]
    aligned = np.minimum.reduce([batch.rated(chosen, alignment) for chosen in sets])
    state = BatchState(checks.rules.devices, wants)
    frees: dict[str, Share] = {}
    for name in {*state.names, *(options.typical.names if options.typical else ())}:
        free = np.stack([(batch.free(name) * one).sum(axis=0) for one in members])
        frees[name] = free.astype(np.float64)
        if name in state.names:
            caps = np.stack([(batch.allocatable(name) * one).sum(axis=0) for one in members])
            inverse = np.divide(1, caps, out=np.zeros(caps.shape), where=caps > 0)
            state.set(name, frees[name], inverse)
    packing = _packing(state, checks, frees, wants, options)
    return _total(aligned, packing, state.balance(), options)


def _members(batch: NodeBatch, chosen: IntArray) -> npt.NDArray[np.bool_]:
    """Return ``(zones, nodes)``: which zones are in the sets."""
    positions = np.arange(batch.zones)[:, np.newaxis]
    return (chosen >> positions & 1).astype(np.bool_)


class BatchState:
    """Zones of each node, or sets of zones taken as one, before and after a placement.

    Arrays are ``(stages, nodes)``: each stage has its zone. One over what a zone has of a resource
    is a plain number where all zones have the same, as machines of one kind do.
    """

    def __init__(self, devices: Sequence[str], wants: Sequence[Mapping[str, int]]) -> None:
        self.names = (*PLAIN, *devices)
        self._devices = devices
        self._wants = wants
        self._before: dict[str, Share] = {}
        self._left: dict[str, Share] = {}
        self._free: dict[str, Share] = {}
        self._inverse: dict[str, Share | float] = {}
        self._exists: dict[str, npt.NDArray[np.bool_] | None] = {}

    def set(self, name: str, free: Share, inverse: Share | float) -> None:
        """Note what is free of a resource, and one over what there is (0 if nothing)."""
        self._exists[name] = _existing(inverse)
        self._inverse[name] = inverse
        if name in PLAIN:
            self._before[name] = free * inverse
        else:
            self._free[name] = free
        if any(name in wanted for wanted in self._wants):
            left = free - self._wanted(name)
            np.maximum(left, 0.0, out=left)
            self._left[name] = np.multiply(left, inverse, out=left)
        elif name in PLAIN:
            self._left[name] = self._before[name]

    def packing(self) -> Share:
        """Rate what the placement leaves for large pods, on average over the stages."""
        before, after = self._least(self._before), self._least(self._left)
        lost = _placeable(before)
        lost -= _placeable(after)
        kept = self._own() + 1 - lost
        kept /= 2
        kept.clip(0.0, 1.0, out=kept)
        stranded = [self._stranded(name, before, after) for name in self._devices]
        if stranded:
            lost = _added(stranded)
            kept *= np.subtract(1, lost.clip(0.0, 1.0, out=lost), out=lost)
        return _mean(kept)

    def balance(self) -> Share:
        """Rate how evenly the zones are used after the placement, on average over the stages."""
        one, other = PLAIN
        most = np.maximum(self._or(one, -np.inf), self._or(other, -np.inf))
        least = np.minimum(self._or(one, np.inf), self._or(other, np.inf))
        for name in self._devices:
            self._widen(most, least, name)
        even = np.subtract(1, np.subtract(most, least, out=most), out=most)
        if any(self._exists[name] is not None for name in PLAIN):
            even[~np.isfinite(even)] = 1.0
        return _mean(even)

    def _widen(self, most: Share, least: Share, name: str) -> None:
        """Let what is left of a device count for the stages that want it."""
        stages = [stage for stage, wanted in enumerate(self._wants) if name in wanted]
        if stages:
            high, low = self._or(name, -np.inf), self._or(name, np.inf)
        for stage in stages:
            np.maximum(most[stage], high[stage], out=most[stage])
            np.minimum(least[stage], low[stage], out=least[stage])

    def _wanted(self, name: str) -> Share | float:
        """Return ``(stages, 1)``: what each wants of a resource; a number if there is one stage."""
        if len(self._wants) == 1:
            return float(self._wants[0].get(name, 0))
        return np.array([[float(wanted.get(name, 0))] for wanted in self._wants])

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

    def _own(self) -> Share | float:
        """Return the part of CPUs or memory that is wanted, whichever is more."""
        one, other = (self._wanted(name) * self._inverse[name] for name in PLAIN)
        return np.maximum(one, other)

    def _stranded(self, name: str, before: Share, after: Share) -> Share:
        """Return the part of the devices that loses the CPUs and memory beside them."""
        free, inverse, taken = self._free[name], self._inverse[name], self._wanted(name)
        cap = self._cap(name)
        lost = _usable(free, before * cap)
        if not any(name in wanted for wanted in self._wants):
            lost -= _usable(free, after * cap)
        else:
            lost -= _usable(free - taken, after * cap)
            lost -= taken
        np.maximum(lost, 0.0, out=lost)
        lost *= inverse
        return lost

    def _cap(self, name: str) -> Share | float:
        inverse, exists = self._inverse[name], self._exists[name]
        if isinstance(inverse, float):
            return float(round(1 / inverse))
        known = inverse if exists is None else np.where(exists, inverse, 1.0)
        return np.rint(np.divide(1, known))


def _existing(inverse: Share | float) -> npt.NDArray[np.bool_] | None:
    """Return where there is any of a resource; ``None`` for everywhere."""
    if isinstance(inverse, float):
        return None
    # Nothing is below 0, and the minimum is found faster than whether all are true.
    return None if inverse.min(initial=1.0) > 0 else inverse > 0


def _usable(free: Share, beside: Share) -> Share:
    """Return the whole devices that have enough *beside* them."""
    np.minimum(free, beside, out=beside)
    beside += ROUNDING
    return np.floor(beside, out=beside)


def _mean(shares: Share) -> Share:
    mean: Share = shares[0] if len(shares) == 1 else shares.sum(axis=0) / len(shares)
    return mean


def _added(shares: Sequence[Share]) -> Share:
    total, *others = shares
    for share in others:
        total = total + share
    return total


def _placeable(fraction: Share) -> Share:
    quarters = 4 * fraction
    quarters += ROUNDING
    return _TABLE.take(quarters.astype(np.intp), mode="clip")
