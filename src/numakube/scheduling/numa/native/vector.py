"""The decision of `reference` for all nodes of one kind at once.

The common case is fast: every container fits into one zone, so that a comparison for each resource
and container, over all zones and nodes, settles it. Nodes on which a container needs several zones
are few or all alike, and are treated apart (`numakube.scheduling.numa.native.sets`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from numakube.kubelet.demand import Role
from numakube.kubelet.policies import TopologyPolicy
from numakube.scheduling.numa.native.lanes import lowest
from numakube.scheduling.numa.native.sets import needs_one_zone, place_in_sets
from numakube.values.resources import is_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.scheduling.framework.verdicts import Amount, Mask, Rows
    from numakube.scheduling.numa.native.lanes import Lanes
    from numakube.scheduling.numa.native.plan import Plan, Stage


@dataclass(slots=True)
class LaneVerdict:
    """What became of each lane.

    Attributes:
        ok: the lanes that may take the pod.
        places: for each stage the position of the zone that it goes to, where it is one zone.
        wide: the lanes on which some stage needs several zones.
        sets: for each stage the bits of the positions of its zones, for each of ``wide``.
    """

    ok: Mask
    places: list[Rows] = field(default_factory=list)
    wide: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    sets: list[Amount] = field(default_factory=list)


def judge_lanes(plan: Plan, lanes: Lanes) -> LaneVerdict:
    """Decide for each lane whether it can take the pod, and where it would go."""
    if plan.unreported or plan.uneven is not None:
        return LaneVerdict(np.zeros(lanes.size, dtype=np.bool_))
    if plan.rules.policy is TopologyPolicy.NONE or not plan.stages:
        return _judge_without_policy(plan, lanes)
    verdict = _judge_one_zone_each(plan, lanes)
    if verdict.wide.size:
        _judge_wide(plan, lanes, verdict)
    return verdict


def _judge_without_policy(plan: Plan, lanes: Lanes) -> LaneVerdict:
    verdict = LaneVerdict(have_together(plan.together, lanes))
    if lanes.zones == 1:
        verdict.places = [np.zeros(lanes.size, dtype=np.intp) for _ in plan.stages]
    return verdict


def have_together(parts: Sequence[tuple[str, int]], lanes: Lanes) -> Mask:
    """Return whether all zones together have *parts*."""
    ok = np.ones(lanes.size, dtype=np.bool_)
    for name, wanted in parts:
        ok &= lanes.free(name).sum(axis=0) >= wanted
    return ok


def _judge_one_zone_each(plan: Plan, lanes: Lanes) -> LaneVerdict:
    """Place the stages in order, one zone each; note on which lanes that is not the question."""
    ok, places = place_in_order(plan, lanes)
    if plan.unimplied:
        ok &= have_together(plan.unimplied, lanes)
    verdict = LaneVerdict(ok, places)
    if plan.rules.policy is TopologyPolicy.RESTRICTED:
        verdict.wide = np.flatnonzero(~needs_one_zone(plan, lanes))
    elif plan.rules.policy is TopologyPolicy.BEST_EFFORT:
        _judge_best_effort(plan, lanes, verdict)
    return verdict


def _judge_best_effort(plan: Plan, lanes: Lanes, verdict: LaneVerdict) -> None:
    """Refuse only what is nowhere; where single zones do not do, several will."""
    open_ = np.flatnonzero(~verdict.ok)
    if open_.size:
        part = lanes.part(open_)
        verdict.ok[open_] = have_together(plan.together, part)
        if lanes.zones > 1:
            verdict.wide = open_[~fits_alone(plan.stages, part)]


def fits_alone(stages: Sequence[Stage], lanes: Lanes) -> Mask:
    """Return whether each stage by itself fits into one zone."""
    ok = np.ones(lanes.size, dtype=np.bool_)
    for stage in stages:
        ok &= lanes.holding(stage.want.parts).any(axis=0)
    return ok


def place_in_order(plan: Plan, lanes: Lanes) -> tuple[Mask, list[Rows]]:
    """Put each stage into the lowest zone with room; those after the certain ones as if alone.

    A stage that finds no room goes where it would go alone, and so do all after it.
    """
    room = LaneRoom(lanes)
    ok = np.ones(lanes.size, dtype=np.bool_)
    places = []
    for index, stage in enumerate(plan.stages):
        if index >= plan.certain:
            found, place = lowest(lanes.holding(stage.want.parts))
        else:
            found, place = lowest(room.fitting(stage))
            if not plan.rules.refuses_unaligned:
                place = _or_alone(stage, lanes, found & ok, place)
            if index + 1 < plan.certain:
                room.book(stage, place)
        ok &= found
        places.append(place)
    return ok, places


def _or_alone(stage: Stage, lanes: Lanes, found: Mask, place: Rows) -> Rows:
    lost = np.flatnonzero(~found)
    if lost.size:
        place[lost] = lowest(lanes.holding(stage.want.parts)[:, lost])[1]
    return place


class LaneRoom:
    """What is left in each zone of each lane while stages are placed; see `reference.Room`.

    Only one zone a stage has less than at the start, so that it is enough to look at those again.
    What an init container took stays with the pod, so that it is not taken off what later stages
    find; but CPUs and devices tie them to its zone, as long as some of it has not been used again.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._taken: list[tuple[dict[str, int], Rows]] = []
        self._spare: dict[str, int] = {}
        self._tied_to: dict[str, Rows] = {}

    def fitting(self, stage: Stage) -> Mask:
        """Return ``(zones, lanes)``: where *stage* fits."""
        ok = self._lanes.holding(stage.want.parts)
        if self._taken or self._spare:
            ok = ok.copy()
        for number, (_, place) in enumerate(self._taken):
            self._look_again(stage, ok, place, number)
        for name, _ in stage.want.parts:
            if self._spare.get(name):
                ok &= self._untied(name)
        return ok

    def offer(self, name: str) -> Amount:
        """Return what the next stage is offered of a resource, nothing where it may not go."""
        left = self._lanes.free(name).copy()
        for taken, place in self._taken:
            left[place, self._lanes.index] -= taken.get(name, 0)
        return left * self._untied(name) if self._spare.get(name) else left

    def book(self, stage: Stage, place: Rows) -> None:
        """Take what *stage* wants out of the zones at *place*."""
        if stage.role is not Role.INIT:
            self._taken.append((dict(stage.want.parts), place))
        for name, wanted in stage.want.parts:
            spare = self._spare.get(name, 0)
            if stage.role is not Role.INIT:
                self._spare[name] = max(0, spare - wanted)
            elif not is_memory(name):
                self._tied_to[name] = self._tied_to[name] if spare else place
                self._spare[name] = max(spare, wanted)

    def _look_again(self, stage: Stage, ok: Mask, place: Rows, number: int) -> None:
        """Correct *ok* at the zones that an earlier stage took something from."""
        cells = self._lanes.cells(place)
        enough: Mask | None = None
        for name, wanted in stage.want.parts:
            needed = self._taken_from(name, place, number) + wanted
            holds = self._lanes.free_at(name, cells) >= needed
            enough = holds if enough is None else enough & holds
        ok[place, self._lanes.index] = enough

    def _taken_from(self, name: str, place: Rows, number: int) -> int | Amount:
        """Return what all stages so far took from the zones at *place*."""
        total: int | Amount = 0
        for other, (taken, where) in enumerate(self._taken):
            if name in taken:
                same = 1 if other == number else place == where
                total = total + taken[name] * same
        return total

    def _untied(self, name: str) -> Mask:
        positions = np.arange(self._lanes.zones)[:, np.newaxis]
        return np.equal(positions, self._tied_to[name][np.newaxis, :])


def _judge_wide(plan: Plan, lanes: Lanes, verdict: LaneVerdict) -> None:
    """Decide for the lanes on which some stage needs several zones."""
    part = lanes.part(verdict.wide)
    ok = have_together(plan.together, part)
    for stage in plan.stages:
        chosen = place_in_sets(plan.rules, stage, part)
        verdict.sets.append(chosen)
        ok &= chosen != 0
    verdict.ok[verdict.wide] = ok
