"""One pod, all nodes: nodes are sorted by kind, judged kind by kind, and the answers put together.

A `Decision` is made once a cycle and serves filter and score.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable, unschedulable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.numa.native.columns import NO_DATA
from numakube.scheduling.numa.native.counts import counts_of
from numakube.scheduling.numa.native.lanes import Lanes
from numakube.scheduling.numa.native.plan import plan_of
from numakube.scheduling.numa.native.reference import judge
from numakube.scheduling.numa.native.refusals import refusals_of
from numakube.scheduling.numa.native.vector import judge_lanes
from numakube.scheduling.numa.native.vector_score import score_lanes
from numakube.scheduling.numa.rejection import Kind, Rejection, RejectionGroup, closeness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from numakube.kubelet.demand import DemandRules
    from numakube.scheduling.framework.verdicts import Amount, Rows
    from numakube.scheduling.numa.native.columns import Columns
    from numakube.scheduling.numa.native.counts import NodeCounts
    from numakube.scheduling.numa.native.options import NativeOptions
    from numakube.scheduling.numa.native.plan import Plan
    from numakube.scheduling.numa.native.shape import PodShape
    from numakube.scheduling.numa.native.vector import LaneVerdict
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo

_HOPELESS = frozenset({Kind.BLOCKED, Kind.UNREPORTED, Kind.SIZES})
"""What no eviction of other pods cures."""


class InconsistentDecisionError(AssertionError):
    """The vectorised path and the reference disagree: a bug in one of them."""


@dataclass(slots=True)
class KindVerdict:
    """What became of the nodes of one kind; ``where`` are their positions among the rows."""

    plan: Plan
    lanes: Lanes
    where: Rows
    verdict: LaneVerdict


@dataclass(slots=True)
class Decision:
    """What is said of every row that was asked about.

    Attributes:
        kinds: nodes with data, kind by kind.
        blocked: positions of nodes that must not be used.
    """

    snapshot: Snapshot
    rows: Rows
    kinds: list[KindVerdict] = field(default_factory=list)
    blocked: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    _scores: Amount | None = None

    def verdicts(self, shapes: Callable[[DemandRules], PodShape]) -> Verdicts | None:
        """Return the outcome of the filter; ``None`` if all rows pass."""
        groups: dict[tuple[str, ...], tuple[int, RejectionGroup]] = {}
        choice = np.zeros(len(self.rows), dtype=np.int32)
        for positions, rejection in self._refusals(shapes):
            number, group = groups.get(rejection.key, (len(groups) + 1, None))
            choice[positions] = number
            groups[rejection.key] = number, _joined(group, len(positions), rejection)
        if not groups:
            return None
        return Verdicts(choice, (SUCCESS, *(status_of(group) for _, group in groups.values())))

    def scores(self, options: NativeOptions) -> Amount:
        """Return the score of each node by row; 0 for nodes without data."""
        if self._scores is None:
            self._scores = np.zeros(self.snapshot.zones.room, dtype=np.int64)
            for kind in self.kinds:
                rated = score_lanes(kind.plan, kind.lanes, kind.verdict, options)
                self._scores[kind.lanes.rows] = rated
        return self._scores

    def _refusals(
        self, shapes: Callable[[DemandRules], PodShape]
    ) -> Iterator[tuple[Rows, Rejection]]:
        for position in self.blocked.tolist():
            node = self.snapshot.at(int(self.rows[position]))
            yield np.array([position]), blocked_rejection(node)
        for kind in self.kinds:
            refused = np.flatnonzero(~kind.verdict.ok)
            if not refused.size:
                continue
            for group in refusals_of(kind.plan, kind.lanes.part(refused)):
                row = int(kind.lanes.rows[refused[group.closest]])
                yield kind.where[refused[group.lanes]], self._rejection(shapes, row)

    def _rejection(self, shapes: Callable[[DemandRules], PodShape], row: int) -> Rejection:
        node = self.snapshot.at(row)
        counts = counts_at(node)
        verdict = None if counts is None else judge(shapes(counts.rules.demand), counts)
        if isinstance(verdict, Rejection):
            return verdict
        raise InconsistentDecisionError(f"node {node.name}: refused among others, not alone")


def decide(
    snapshot: Snapshot,
    rows: Rows,
    columns: Columns,
    shapes: Callable[[DemandRules], PodShape],
) -> Decision:
    """Judge the nodes at *rows*; *columns* must be up to date."""
    decision = Decision(snapshot, rows)
    blocked = snapshot.zones.blocked[rows]
    kinds = columns.kind[rows]
    if blocked.any():
        decision.blocked = np.flatnonzero(blocked)
        kinds[blocked] = NO_DATA
    for number, where in _by_kind(kinds):
        rules = columns.rules[number]
        if rules is None:
            continue
        plan = plan_of(shapes(rules.demand), rules)
        lanes = Lanes(snapshot.zones, columns, rows[where], rules.zones)
        decision.kinds.append(KindVerdict(plan, lanes, where, judge_lanes(plan, lanes)))
    return decision


def blocked_rejection(node: NodeInfo) -> Rejection:
    """Return the refusal of a node that must not be used for now."""
    return Rejection(kind=Kind.BLOCKED, reason=node.numa.blocked if node.numa else "")


def counts_at(node: NodeInfo) -> NodeCounts | None:
    """Return the numbers of a node; ``None`` without a usable report."""
    belief = node.numa
    if belief is None or belief.topology is None:
        return None
    return counts_of(belief.topology, belief.available)


def status_of(group: RejectionGroup) -> Status:
    """Return the refusal as plugins tell it."""
    rejection = group.closest
    refuse = unresolvable if rejection.kind in _HOPELESS else unschedulable
    return refuse(rejection.message, detail=group)


def _by_kind(kinds: npt.NDArray[np.int32]) -> Iterator[tuple[int, Rows]]:
    """Yield each kind with the positions that are of it."""
    if not kinds.size:
        return
    first = int(kinds[0])
    if (kinds == first).all():
        yield first, np.arange(len(kinds), dtype=np.intp)
        return
    for number in np.unique(kinds).tolist():
        yield number, np.flatnonzero(kinds == number)


def _joined(group: RejectionGroup | None, nodes: int, rejection: Rejection) -> RejectionGroup:
    if group is None:
        return RejectionGroup(nodes, rejection)
    closer = min(group.closest, rejection, key=closeness)
    return RejectionGroup(group.nodes + nodes, closer)
