"""TaintToleration: taints keep pods away unless tolerated. Follows kube-scheduler 1.35."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.arrays import uniform
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Filter,
    NormalizesScores,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.matching.taints import (
    PREFER_NO_SCHEDULE,
    is_tolerated,
    keeps_away,
    taint_sets,
)
from numakube.scheduling.snapshot.pod_equivalence import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.affinity_and_taints import Taint, Toleration
    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

TAINTED: Final = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration(Filter, VectorFilter, Score, VectorScore, NormalizesScores):
    """Nodes with fewer taints that merely discourage the pod score higher."""

    name = "TaintToleration"
    wakes_on = EventKind.NODE_ADDED | EventKind.NODE_UPDATED | EventKind.UNSCHEDULED_POD_UPDATED
    judges_nodes_alone = True

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> TaintToleration:
        """Return the plugin; it has no arguments."""
        return cls()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node with a taint that forbids the pod."""
        away = keeps_away(node.node.spec.taints, pod.pod.spec.tolerations)
        return TAINTED if away else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes with a taint that forbids the pod."""
        column = taint_sets(snapshot)
        if not column.values:
            return None
        tolerations = pod.pod.spec.tolerations
        ok = column.where(lambda taints: not keeps_away(taints or (), tolerations), rows)
        return None if ok.all() else Verdicts.where(ok, TAINTED)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Count the taints that discourage the pod."""
        return _discouraging(node.node.spec.taints, _relevant(pod))

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Count the taints that discourage the pod."""
        column = taint_sets(snapshot)
        if not column.values:
            return uniform(0, len(rows))
        tolerations = _relevant(pod)
        counts = [_discouraging(taints, tolerations) for taints in column.values]
        if not any(counts):
            return uniform(0, len(rows))
        table = np.array([*counts, 0], dtype=np.int64)
        scores: IntArray = table[column.codes[rows]]
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Fewer is better."""
        return _share_below_largest(scores)

    def likeness(self, pod: PodInfo) -> bytes:
        """What it tolerates."""
        return encoded(pod.pod.spec.tolerations)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A node must be without forbidding taints, or the pod itself have changed."""
        if event.kind is EventKind.UNSCHEDULED_POD_UPDATED or event.node_info is None:
            return True
        return not keeps_away(event.node_info.node.spec.taints, pod.pod.spec.tolerations)


def _relevant(pod: PodInfo) -> tuple[Toleration, ...]:
    return tuple(t for t in pod.pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))


def _discouraging(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> int:
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations)
        for taint in taints
    )


def _share_below_largest(scores: IntArray) -> IntArray:
    """Return how far each of *scores*, which count what is bad, lies below the largest."""
    largest = int(scores.max(initial=0))
    if not largest:
        return np.full_like(scores, MAX_NODE_SCORE)
    return MAX_NODE_SCORE - MAX_NODE_SCORE * scores // largest
