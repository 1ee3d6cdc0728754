"""The decision of `reference_alignment` for all nodes of one kind at once.

The common case is fast: every container fits into one zone, so that a comparison for each resource
and container, over all zones and nodes, settles it. Nodes on which a container needs several zones
are few or all alike, and are treated apart (`numakube.scheduling.numa.native.zone_sets`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from numakube.kubelet.pod_demand import Role
from numakube.scheduling.numa.native.node_batch import lowest
from numakube.scheduling.numa.native.zone_sets import needs_one_zone, place_in_sets
from numakube.values.resources import is_memory
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.numa.native.alignment_stages import PodChecks, Stage
    from numakube.scheduling.numa.native.node_batch import NodeBatch


@dataclass(slots=True)
class BatchVerdict:
    """What became of each node.

    Attributes:
        ok: the nodes that may take the pod.
        places: for each stage the position of the zone that it goes to, where it is one zone.
        wide: the nodes on which some stage needs several zones.
        sets: for each stage the bits of the positions of its zones, for each of ``wide``.
    """

    ok: Mask
    places: list[Rows] = field(default_factory=list)
    wide: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    sets: list[IntArray] = field(default_factory=list)


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


def have_together(parts: Sequence[tuple[str, int]], batch: NodeBatch) -> Mask:
    """Return whether all zones together have *parts*."""
    ok = np.ones(batch.size, dtype=np.bool_)
    for name, wanted in parts:
        ok &= batch.free(name).sum(axis=0) >= wanted
    return ok


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
    if open_.size:
        part = batch.part(open_)
        verdict.ok[open_] = have_together(checks.together, part)
        if batch.zones > 1:
            verdict.wide = open_[~fits_alone(checks.stages, part)]


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
            found, place = lowest(room.fitting(stage))
            if not checks.rules.refuses_unaligned:
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

    Only one zone a stage has less than at the start, so that it is enough to look at those again.
    What an init container took stays with the pod, so that it is not taken off what later stages
    find; but CPUs and devices tie them to its zone, as long as some of it has not been used again.
    """

    def __init__(self, batch: NodeBatch) -> None:
        self._batch = batch
        self._taken: list[tuple[dict[str, int], Rows]] = []
        self._spare: dict[str, int] = {}
        self._tied_to: dict[str, Rows] = {}

    def fitting(self, stage: Stage) -> Mask:
        """Return ``(zones, nodes)``: where *stage* fits."""
        ok = self._batch.holding(stage.want.parts)
        if self._taken or self._spare:
            ok = ok.copy()
        for number, (_, place) in enumerate(self._taken):
            self._look_again(stage, ok, place, number)
        for name, _ in stage.want.parts:
            if self._spare.get(name):
                ok &= self._untied(name)
        return ok

    def offer(self, name: str) -> IntArray:
        """Return what the next stage is offered of a resource, nothing where it may not go."""
        left = self._batch.free(name).copy()
        for taken, place in self._taken:
            left[place, self._batch.index] -= taken.get(name, 0)
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
        cells = self._batch.cells(place)
        enough: Mask | None = None
        for name, wanted in stage.want.parts:
            needed = self._taken_from(name, place, number) + wanted
            holds = self._batch.free_at(name, cells) >= needed
            enough = holds if enough is None else enough & holds
        ok[place, self._batch.index] = enough

    def _taken_from(self, name: str, place: Rows, number: int) -> int | IntArray:
        """Return what all stages so far took from the zones at *place*."""
        total: int | IntArray = 0
        for other, (taken, where) in enumerate(self._taken):
            if name in taken:
                same = 1 if other == number else place == where
                total = total + taken[name] * same
        return total

    def _untied(self, name: str) -> Mask:
        positions = np.arange(self._batch.zones)[:, np.newaxis]
        return np.equal(positions, self._tied_to[name][np.newaxis, :])


def _judge_wide(checks: PodChecks, batch: NodeBatch, verdict: BatchVerdict) -> None:
    """Decide for the nodes on which some stage needs several zones."""
    part = batch.part(verdict.wide)
    ok = have_together(checks.together, part)
    for stage in checks.stages:
        chosen = place_in_sets(checks.rules, stage, part)
        verdict.sets.append(chosen)
        ok &= chosen != 0
    verdict.ok[verdict.wide] = ok
