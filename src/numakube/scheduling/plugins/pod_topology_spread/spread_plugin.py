"""The plugin: which constraints hold for a pod, and when to ask it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.errors import InvalidValue
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    Filter,
    NormalizesScores,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status, failure
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.plugins.plugin_arguments import PodTopologySpreadArgs, read_args
from numakube.scheduling.plugins.pod_topology_spread.spread_constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    default_constraints,
    own_constraints,
)
from numakube.scheduling.plugins.pod_topology_spread.spread_filter import (
    NO_DOMAIN,
    SKEWED,
    FilterState,
    filter_state,
)
from numakube.scheduling.plugins.pod_topology_spread.spread_score import ScoreState, score_state
from numakube.scheduling.snapshot.pod_equivalence import encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.plugins.pod_topology_spread.spread_constraints import Constraint
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_FILTER: Final = StateKey[FilterState]("PodTopologySpread.filter")
_SCORE: Final = StateKey[ScoreState]("PodTopologySpread.score")


class PodTopologySpread(
    PreFilter, Filter, VectorFilter, PreScore, Score, VectorScore, NormalizesScores
):
    """Spreads pods over domains of the cluster."""

    name = "PodTopologySpread"
    wakes_on = (
        EventKind.POD_ADDED
        | EventKind.POD_UPDATED
        | EventKind.POD_DELETED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.NODE_REMOVED
    )

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        args = args or PodTopologySpreadArgs()
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> PodTopologySpread:
        """Return the plugin for *args* as they stand in a configuration."""
        return cls(read_args(PodTopologySpreadArgs, args))

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Count pods by domain; skip a pod without hard constraints."""
        try:
            constraints = self._constraints(pod, HARD, snapshot.objects)
        except InvalidValue as error:
            return PreFilterResult(failure(f"get constraints from pod: {error.reason or error}"))
        if not constraints:
            return PreFilterResult(SKIP)
        state.write(_FILTER, filter_state(pod, constraints, snapshot))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count one more."""
        known = state.read(_FILTER)
        if known is not None:
            known.change(pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Count one less."""
        known = state.read(_FILTER)
        if known is not None:
            known.change(pod, removed, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node without domain, and one whose domain would have too many pods."""
        known = state.read(_FILTER)
        for one in known.domains if known is not None else ():
            status = one.judge(node)
            if not status.ok:
                return status
        return SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes without domain, and those whose domain would have too many pods."""
        known = state.read(_FILTER)
        refusals = []
        for one in known.domains if known is not None else ():
            missing, skewed = one.refused(rows)
            refusals += [(missing, NO_DOMAIN), (skewed, SKEWED)]
        if not any(mask.any() for mask, _ in refusals):
            return None
        return Verdicts.first_of(len(rows), refusals)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Count pods by domain; skip a pod without soft constraints."""
        try:
            constraints = self._constraints(pod, SOFT, snapshot.objects)
        except InvalidValue as error:
            return failure(f"calculating preScoreState: {error.reason or error}")
        if not constraints:
            return SKIP
        own = bool(pod.pod.spec.topology_spread_constraints)
        found = score_state(pod, constraints, snapshot, rows, all_keys=own or not self._system)
        state.write(_SCORE, found)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate one node; more is worse until it is normalised."""
        known = state.read(_SCORE)
        return known.score(node) if known is not None else 0

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate all nodes; more is worse until it is normalised."""
        known = state.read(_SCORE)
        return known.score_all(rows) if known is not None else np.zeros(len(rows), dtype=np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Fewer is better; nodes outside all domains get nothing."""
        known = state.read(_SCORE)
        return known.normalized(scores) if known is not None else scores

    def likeness(self, pod: PodInfo) -> bytes:
        """Its constraints, and its labels where they say which pods count."""
        own = pod.pod.spec.topology_spread_constraints
        names = {key for one in own for key in one.match_label_keys}
        labels = {key: value for key, value in pod.labels.items() if key in names}
        return encoded(pod.namespace, own, labels)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A pod must be of those that are spread, or a node have the topology keys."""
        own = pod.pod.spec.topology_spread_constraints
        if not own or event.kind is EventKind.UNSCHEDULED_POD_UPDATED:
            return True
        if event.pod is not None:
            if event.pod.namespace != pod.namespace:
                return False
            return event.kind is EventKind.POD_UPDATED or _is_spread(pod, event.pod)
        node = event.node_info
        if node is None or event.kind is not EventKind.NODE_ADDED:
            return True
        hard = (one for one in own if one.when_unsatisfiable == HARD)
        return all(one.topology_key in node.labels for one in hard)

    def _constraints(
        self, pod: PodInfo, action: str, objects: ClusterObjects
    ) -> tuple[Constraint, ...]:
        if pod.pod.spec.topology_spread_constraints:
            return own_constraints(pod, action)
        return default_constraints(self._defaults, pod, action, objects)


def _is_spread(pod: PodInfo, other: PodInfo) -> bool:
    """Tell whether *other* counts for a hard constraint of *pod*."""
    try:
        hard = own_constraints(pod, HARD)
    except InvalidValue:
        return True
    return any(one.selector.matches(other.labels) for one in hard)
