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
from numakube.scheduling.numa.native.zone_sets import have_together, needs_one_zone, place_in_sets
from numakube.scheduling.snapshot.zone_table import LARGEST_AMOUNT
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
        if stage.role is not Role.INIT:
            taken = {name: min(wanted, LARGEST_AMOUNT) for name, wanted in stage.want.parts}
            self._taken.append((taken, place))
        for name, wanted in stage.want.parts:
            spare = self._spare.get(name, 0)
            if stage.role is not Role.INIT:
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
