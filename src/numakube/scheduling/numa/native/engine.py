"""Native mode as an engine of the NUMA plugin."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from numakube.api.pods import has_pod_level_resources
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.numa.demands import demand_key
from numakube.scheduling.numa.native.columns import Columns
from numakube.scheduling.numa.native.exact import ModelCheck
from numakube.scheduling.numa.native.ledger import (
    Ledger,
    blocked_rejection,
    counts_at,
    status_of,
)
from numakube.scheduling.numa.native.options import Fidelity, NativeOptions
from numakube.scheduling.numa.native.plan import plan_of
from numakube.scheduling.numa.native.reference import Fit, judge
from numakube.scheduling.numa.native.score import score_node
from numakube.scheduling.numa.native.shape import shape_of
from numakube.scheduling.numa.rejection import Rejection, RejectionGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.core import Pod
    from numakube.kubelet.demand import DemandRules
    from numakube.scheduling.framework.state import CycleState
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.framework.verdicts import Amount, Rows, Verdicts
    from numakube.scheduling.numa.native.score import ScoreParts
    from numakube.scheduling.numa.native.shape import PodShape
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zones import ZoneTable

_REMEMBERED_SHAPES = 64
"""Shapes of pods whose answers are kept; each takes about 30 bytes a node."""


class NativeEngine:
    """Predicts what each node's kubelet will do with a pod; a `NumaEngine`."""

    def __init__(self, options: NativeOptions | None = None) -> None:
        self.options = options or NativeOptions()
        self._books: WeakKeyDictionary[ZoneTable, Books] = WeakKeyDictionary()
        self._model = ModelCheck(remembered=self.options.remembered_refusals)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*, from counts."""
        del state
        verdict = self.judge(pod, node)
        return _status(verdict) if isinstance(verdict, Rejection) else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*, from counts; ``None`` if all of them can."""
        del state
        ledger = self._ledger(pod, snapshot)
        return None if ledger is None else ledger.verdicts(snapshot, rows)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* from 0 (no data) to `MAX_NODE_SCORE`."""
        del state
        if wants_nothing(pod):
            return MAX_NODE_SCORE
        parts = self.explain_score(pod, node)
        return parts.total(self.options) if parts is not None else 0

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Amount:
        """Rate the nodes at *rows*, all of which passed the filter."""
        del state
        ledger = self._ledger(pod, snapshot)
        if ledger is None:
            return np.full(len(rows), MAX_NODE_SCORE, dtype=np.int64)
        return ledger.scores[rows]

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Ask the kubelet model whether *node* will admit *pod*."""
        del state
        if self.options.fidelity is not Fidelity.EXACT:
            return SUCCESS
        answer = self._model.check(pod, node)
        return _status(answer) if isinstance(answer, Rejection) else SUCCESS

    def judge(self, pod: PodInfo, node: NodeInfo) -> Fit | Rejection:
        """Return what counts say of one node, as a value."""
        shapes = shapes_of(pod)
        if wants_nothing(pod):
            return Fit()
        if node.numa is not None and node.numa.blocked:
            return blocked_rejection(node)
        counts = counts_at(node)
        return Fit() if counts is None else judge(shapes(counts.rules.demand), counts)

    def explain_score(self, pod: PodInfo, node: NodeInfo) -> ScoreParts | None:
        """Return the parts of a node's score; ``None`` for a node that has none."""
        counts = counts_at(node)
        fit = self.judge(pod, node)
        if counts is None or isinstance(fit, Rejection):
            return None
        plan = plan_of(shapes_of(pod)(counts.rules.demand), counts.rules)
        return score_node(plan, counts, fit)

    def _ledger(self, pod: PodInfo, snapshot: Snapshot) -> Ledger | None:
        books = self._books.get(snapshot.zones)
        if books is None:
            books = self._books[snapshot.zones] = Books(self.options)
        return books.ledger(pod, snapshot)


class Books:
    """The ledgers of one cluster, by what pods demand."""

    def __init__(self, options: NativeOptions) -> None:
        self._options = options
        self._columns = Columns()
        self._ledgers: OrderedDict[bytes, Ledger | None] = OrderedDict()

    def ledger(self, pod: PodInfo, snapshot: Snapshot) -> Ledger | None:
        """Return the ledger of pods like *pod*, up to date; ``None`` if they want nothing."""
        key = pod.memo("numa-demand-key", demand_key)
        if key not in self._ledgers:
            self._open(key, pod)
        self._ledgers.move_to_end(key)
        ledger = self._ledgers[key]
        if ledger is not None:
            self._columns.update(snapshot)
            ledger.update(snapshot)
        return ledger

    def _open(self, key: bytes, pod: PodInfo) -> None:
        nothing = wants_nothing(pod)
        ledger = None if nothing else Ledger(self._columns, shapes_of(pod), self._options)
        self._ledgers[key] = ledger
        if len(self._ledgers) > _REMEMBERED_SHAPES:
            self._ledgers.popitem(last=False)


def wants_nothing(pod: PodInfo) -> bool:
    """Tell whether no kubelet aligns anything of *pod*."""
    if pod.memo("pod-level-resources", has_pod_level_resources):
        return False
    return not pod.memo("numa-shape", shape_of)


def shapes_of(pod: PodInfo) -> Callable[[DemandRules], PodShape]:
    """Return what *pod* wants, by how a kubelet reads it; differs for pod-level resources only."""
    if not pod.memo("pod-level-resources", has_pod_level_resources):
        shape = pod.memo("numa-shape", shape_of)
        return lambda rules: shape

    def read(rules: DemandRules) -> PodShape:
        def make(pod: Pod) -> PodShape:
            return shape_of(pod, rules)

        return pod.memo(("numa-shape", rules), make)

    return read


def _status(rejection: Rejection) -> Status:
    return status_of(RejectionGroup(1, rejection))
