"""What is known about pods of one kind on every node, kept from one pod to the next.

Replicas of a workload ask the same question of nodes that have hardly changed. A `VerdictCache` has
the answer for each row with the change of the node that it was worked out for; only rows that have
changed since are judged again. A kind that is seen for the first time is judged on all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from numakube.api.strictness import Leniency
from numakube.scheduling.arrays import picked, span
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.framework.status import (
    SUCCESS,
    Status,
    Verdicts,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.numa.alignment_refusal import (
    AlignmentRefusal,
    AlignmentRefusalGroup,
    Kind,
)
from numakube.scheduling.numa.native.alignment import judge_batch
from numakube.scheduling.numa.native.alignment_score import score_batch
from numakube.scheduling.numa.native.model_check import Worths, unconnected
from numakube.scheduling.numa.native.node_batch import NodeBatch
from numakube.scheduling.numa.native.node_counts import NodeCounts, counts_of
from numakube.scheduling.numa.native.pod_wants import new_checks
from numakube.scheduling.numa.native.reference_alignment import judge_by
from numakube.scheduling.numa.native.reference_alignment_score import score_node
from numakube.scheduling.numa.native.refusal_groups import RefusalKey, RefusedNodes, refusals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from numakube.api.strictness import Strictness
    from numakube.kubelet.pod_demand import DemandRules
    from numakube.scheduling.arrays import Rows, SmallScores
    from numakube.scheduling.numa.native.native_options import NativeOptions
    from numakube.scheduling.numa.native.node_batch import RuleColumns
    from numakube.scheduling.numa.native.node_counts import NodeRules
    from numakube.scheduling.numa.native.pod_wants import PodChecks, PodWants
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_columns import RowChanges
    from numakube.scheduling.snapshot.nodes import NodeInfo


# ------------------------------------------------------------------------------------------------
# What a pod's strictness makes of a node, before anything is counted.
#
# A node without a usable report, and one whose kubelet has a weaker policy than the pod asks for,
# promise less than the pod wants. They are refused, rated below all others, or taken as they are,
# as `numakube.api.strictness` says. A machine with one zone keeps every promise.

UNKNOWN_SCORE: Final = MAX_NODE_SCORE // 2
"""Of nodes without data that are as good as others: neither well nor badly aligned."""


def broken_promise(asked: Strictness, rules: NodeRules | None) -> AlignmentRefusal | None:
    """Return why a node with *rules*, or without data, is refused; ``None`` if it is not."""
    if asked.mistakes:
        return AlignmentRefusal(
            kind=Kind.ANNOTATION, reason="; ".join(asked.mistakes), hopeless=True
        )
    if asked.closeness is not None and (rules is None or not rules.connected):
        return unconnected(asked.closeness)
    if rules is None:
        refused = asked.missing_data is Leniency.REFUSE
        return AlignmentRefusal(kind=Kind.MISSING_DATA, hopeless=True) if refused else None
    if asked.weaker_policy is Leniency.REFUSE and is_weaker(asked, rules):
        reason = f"{rules.policy} is weaker than {asked.required_policy}"
        return AlignmentRefusal(
            kind=Kind.WEAKER_POLICY, policy=rules.policy, reason=reason, hopeless=True
        )
    return None


def promised_score(asked: Strictness, rules: NodeRules | None) -> int | None:
    """Return the score of a node that promises less; ``None`` if its placement decides."""
    if rules is None:
        return UNKNOWN_SCORE if asked.missing_data is Leniency.ALLOW else 0
    lenient = asked.weaker_policy is Leniency.ALLOW
    return 0 if not lenient and is_weaker(asked, rules) else None


def is_weaker(asked: Strictness, rules: NodeRules) -> bool:
    """Tell whether the kubelet's policy is weaker than the pod asks for."""
    return rules.zones > 1 and rules.policy.code < asked.required_policy.code


# ------------------------------------------------------------------------------------------------
# What is known about pods of one kind on every node, kept from one pod to the next.

_FEW: Final = 4
"""Rows that are judged one by one: below that arrays cost more than they save."""
_MANY: Final = 64
"""Rows that a cluster has at least for each of the few."""

_MOST_SMALL: Final = 255
"""Groups of refusals that a byte can number."""

T = TypeVar("T", bound=np.generic)


class InconsistentDecisionError(AssertionError):
    """The vectorised path and the reference disagree: a bug in one of them."""


class VerdictCache:
    """Verdicts and scores of pods of one kind, by row.

    Attributes:
        columns: what is derived from the reports of all nodes.
        wants_pairs: whether such pods ask for devices of several resources.
        worths: how close the devices of such pods are to each other.
        scores: from 1; 0 for nodes that promise too little, and meaningless for refused ones.
    """

    def __init__(
        self,
        columns: RuleColumns,
        wants_for: Callable[[DemandRules], PodWants],
        options: NativeOptions,
        *,
        wants_pairs: bool,
    ) -> None:
        self.columns = columns
        self.wants_pairs = wants_pairs
        self._wants_for = wants_for
        self._options = options
        self._rows: Rows | None = None
        self._changes = -1
        # Small types: memory that a new kind of pods takes has to be fetched from the system.
        self._group: npt.NDArray[np.integer] = np.zeros(0, dtype=np.uint8)
        self._share: npt.NDArray[np.float64] = np.zeros(0)
        self.scores: SmallScores = np.zeros(0, dtype=np.int8)
        self.worths = Worths()
        self._keys: list[RefusalKey] = []
        self._numbers: dict[RefusalKey, int] = {}
        self._told: dict[int, tuple[int, int, AlignmentRefusal]] = {}
        self._latest: tuple[Rows, Verdicts | None] | None = None
        self._checks: dict[int, PodChecks] = {}

    def update(self, snapshot: Snapshot) -> None:
        """Judge the nodes that have changed; the columns must be up to date."""
        # Between two pods of a workload one node has changed: the one that took the first. Arrays
        # cost the same for one row as for a hundred, so a few rows go through the reference, and
        # only if it refuses them through the arrays, which alone number groups of refusals. A new
        # kind of pods is judged on one node of each state and the rest copied. Without the three
        # ways a cycle on 5,000 nodes would cost what judging all of them costs.
        #
        # That rows are the same object is the usual case, and says that no node came or went: then
        # the log of changes tells which rows to look at, and no array of all rows is touched.
        rows, changes = snapshot.rows, snapshot.zones.changes
        if rows is self._rows and changes.count == self._changes:
            return
        is_new = self._rows is None
        stale = self._stale(rows, changes)
        self._rows, self._changes = rows, changes.count
        if is_new:
            self._judge_one_of_each(snapshot, rows)
            return
        if stale.size <= _FEW and stale.size * _MANY <= rows.size:
            stale = stale[[not self._fits(snapshot.at(row)) for row in stale.tolist()]]
        if stale.size:
            self._judge(snapshot, stale)

    def _stale(self, rows: Rows, changes: RowChanges) -> Rows:
        """Return which of *rows* have changed."""
        if rows is self._rows:
            return changes.since(self._changes)
        room = len(changes.at)
        if len(self._group) != room:
            self._group = _grown(self._group, room)
            self.scores = _grown(self.scores, room)
        if self._rows is None:
            return rows
        stale = changes.at > self._changes
        stale[np.setdiff1d(rows, self._rows, assume_unique=True)] = True
        return rows[stale[rows]]

    def verdicts(self, snapshot: Snapshot, rows: Rows) -> Verdicts | None:
        """Return the outcome of the filter for *rows*; ``None`` if all of them pass.

        It is the same as before if no other nodes are asked about and none that was or is refused
        has changed.
        """
        latest = self._latest
        if latest is None or not (rows is latest[0] or np.array_equal(rows, latest[0])):
            latest = self._latest = rows, self._verdicts(snapshot, rows)
        return latest[1]

    def _verdicts(self, snapshot: Snapshot, rows: Rows) -> Verdicts | None:
        groups = picked(self._group, rows)
        refused = (groups != 0).nonzero()[0]
        if not refused.size:
            return None
        among = groups[refused]
        choice = np.zeros(len(rows), dtype=np.int32)
        statuses = [SUCCESS]
        for number in np.bincount(among).nonzero()[0].tolist():
            positions = refused[among == number]
            choice[positions] = len(statuses)
            members = rows[positions]
            closest = int(members[self._share[members].argmin()])
            refusal = self._refusal(snapshot, number, closest)
            statuses.append(status_of(AlignmentRefusalGroup(len(members), refusal)))
        return Verdicts(choice, tuple(statuses))

    def _fits(self, node: NodeInfo) -> bool:
        """Note the score of one node if it can take such pods; refusals take more work."""
        counts = self._counts(node)
        if counts is None or (node.numa is not None and node.numa.blocked):
            return False
        asked = self._options.strictness
        if broken_promise(asked, counts.rules) is not None:
            return False
        checks = self._checks_for(int(self.columns.kind[node.row]), counts.rules)
        verdict = judge_by(checks, counts)
        if isinstance(verdict, AlignmentRefusal):
            return False
        if self._group[node.row]:
            self._group[node.row] = 0
            self._latest = None
        promised = promised_score(asked, counts.rules)
        parts = score_node(checks, counts, verdict, self._options.typical)
        self.scores[node.row] = parts.total(self._options) if promised is None else promised
        return True

    def _judge_one_of_each(self, snapshot: Snapshot, rows: Rows) -> None:
        """Judge one node of each state, and note the same of all others in that state."""
        equal = self.columns.equal(snapshot.zones, rows)
        if equal is None:
            self._judge(snapshot, rows)
            return
        self._judge(snapshot, equal.judged)
        equal.spread(self.scores)
        if self._group[equal.judged].max(initial=0):
            equal.spread(self._group)
            equal.spread(self._share)

    def _judge(self, snapshot: Snapshot, rows: Rows) -> None:
        self._latest = None
        at = span(rows)
        self._group[at] = 0
        self.scores[at] = 0
        blocked = snapshot.zones.blocked[at]
        if np.count_nonzero(blocked):
            self._refuse_blocked(snapshot, rows[blocked])
            rows = rows[~blocked]
        for number, members in _by_kind(picked(self.columns.kind, rows), rows):
            rules = self.columns.rules[number]
            if self._promises(members, rules) or rules is None:
                continue
            checks = self._checks_for(number, rules)
            batch = NodeBatch(snapshot.zones, self.columns, members, number)
            verdict = judge_batch(checks, batch)
            refused = (~verdict.ok).nonzero()[0]
            scored = promised_score(self._options.strictness, rules) is None
            if scored and refused.size < batch.size:
                scores = score_batch(checks, batch, verdict, self._options)
                self.scores[span(members)] = scores
            if refused.size:
                self._refuse(batch.rows[refused], refusals_of(checks, batch.part(refused)))

    def _counts(self, node: NodeInfo) -> NodeCounts | None:
        """Return the numbers of a node, by the rules that the columns have found."""
        rules, belief = self.columns.rules[int(self.columns.kind[node.row])], node.numa
        if rules is None or belief is None or belief.topology is None:
            return None
        return NodeCounts(rules=rules, zones=belief.topology.zones, free=belief.available)

    def _checks_for(self, kind: int, rules: NodeRules) -> PodChecks:
        """Return what to check on nodes of a kind."""
        checks = self._checks.get(kind)
        if checks is None:
            checks = self._checks[kind] = new_checks(self._wants_for(rules.demand), rules)
        return checks

    def _promises(self, rows: Rows, rules: NodeRules | None) -> bool:
        """Note what nodes that promise too little get; tell whether they are refused for it."""
        asked = self._options.strictness
        promised = promised_score(asked, rules)
        if promised:
            self.scores[span(rows)] = promised
        broken = broken_promise(asked, rules)
        if broken is None:
            return False
        self._note(rows, RefusalKey(broken.kind, detail=(broken.reason,), hopeless=True), 1.0)
        return True

    def _refuse(self, rows: Rows, refusals: Iterator[RefusedNodes]) -> None:
        for refused in refusals:
            self._note(rows[refused.positions], refused.key, refused.share)

    def _refuse_blocked(self, snapshot: Snapshot, rows: Rows) -> None:
        for row in rows.tolist():
            reason = blocked_refusal(snapshot.at(row)).reason
            self._note(row, RefusalKey(Kind.BLOCKED, detail=(reason,)), 1.0)

    def _note(
        self, rows: Rows | int, key: RefusalKey, share: npt.NDArray[np.float64] | float
    ) -> None:
        """Note that *rows* are refused, and how far they are from being accepted."""
        number = self._numbers.setdefault(key, len(self._keys) + 1)
        if number > len(self._keys):
            self._keys.append(key)
        if number > _MOST_SMALL and self._group.dtype == np.uint8:
            self._group = self._group.astype(np.int32)
        if len(self._share) != len(self._group):
            self._share = _grown(self._share, len(self._group))
        self._group[rows] = number
        self._share[rows] = share

    def _refusal(self, snapshot: Snapshot, number: int, row: int) -> AlignmentRefusal:
        """Return what is said of the closest node of a group; remembered, since it rarely moves."""
        # The arrays know that a node is refused and how far off it is, but not the words. Those
        # come from the reference, asked about one node of each group: two sets of words would drift
        # apart, and a node that is refused among others but not alone shows a bug at once.
        change = int(snapshot.zones.changes.at[row])
        told = self._told.get(number)
        if told is None or told[:2] != (row, change):
            hopeless = self._keys[number - 1].hopeless
            refusal = self._judged_alone(snapshot.at(row), hopeless=hopeless)
            told = self._told[number] = row, change, refusal
        return told[2]

    def _judged_alone(self, node: NodeInfo, *, hopeless: bool) -> AlignmentRefusal:
        if node.numa is not None and node.numa.blocked:
            return blocked_refusal(node)
        counts = self._counts(node)
        broken = broken_promise(self._options.strictness, None if counts is None else counts.rules)
        if broken is not None:
            return broken
        if counts is not None:
            kind = int(self.columns.kind[node.row])
            checks = self._checks_for(kind, counts.rules)
            verdict = judge_by(checks, counts, may_be_hopeless=hopeless)
            if isinstance(verdict, AlignmentRefusal):
                return verdict
        raise InconsistentDecisionError(f"node {node.name}: refused among others, not alone")


def _grown(column: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    """Return *column* with more rows; many times as fast as ``np.pad``."""
    larger = np.zeros(size, dtype=column.dtype)
    larger[: len(column)] = column
    return larger


def blocked_refusal(node: NodeInfo) -> AlignmentRefusal:
    """Return the refusal of a node that must not be used for now."""
    reason = node.numa.blocked if node.numa else ""
    return AlignmentRefusal(kind=Kind.BLOCKED, reason=reason, hopeless=True)


def counts_at(node: NodeInfo) -> NodeCounts | None:
    """Return the numbers of a node; ``None`` without a usable report."""
    belief = node.numa
    if belief is None or belief.topology is None:
        return None
    return counts_of(belief.topology, belief.available)


def status_of(group: AlignmentRefusalGroup) -> Status:
    """Return the refusal as plugins tell it."""
    refusal = group.closest
    refuse = unresolvable if refusal.hopeless else unschedulable
    return refuse(refusal.message, detail=group)


def _by_kind(kinds: npt.NDArray[np.int32], rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Yield each of *kinds*, which are those of *rows*, with the rows that are of it."""
    if kinds.size and np.count_nonzero(kinds == kinds[0]) == kinds.size:
        yield int(kinds[0]), rows
        return
    for number in np.bincount(kinds).nonzero()[0].tolist():
        yield number, rows[kinds == number]
