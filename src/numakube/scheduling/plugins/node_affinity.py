"""NodeAffinity: node selector, required and preferred node affinity. Follows kube-scheduler 1.37.

Affinity added by the plugin's arguments holds for every pod of the profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.affinity_and_taints import NAME_FIELD
from numakube.api.selectors import IN
from numakube.errors import InvalidValue
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Filter,
    NormalizesScores,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    Verdicts,
    failure,
    unresolvable,
)
from numakube.scheduling.matching import (
    NodePreferences,
    node_preferences,
    node_rule,
    required_nodes,
)
from numakube.scheduling.plugins.plugin_arguments import NodeAffinityArgs, read_args
from numakube.scheduling.snapshot.pod_equivalence import encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.affinity_and_taints import NodeSelectorTerm
    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

NOT_MATCHED: Final = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED: Final = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT: Final = unresolvable("pod affinity terms conflict")

_PREFERENCES: Final = StateKey[NodePreferences]("NodeAffinity")


class NodeAffinity(PreFilter, Filter, VectorFilter, PreScore, Score, VectorScore, NormalizesScores):
    """The node must match what the pod asks of nodes; preferred ones score higher."""

    name = "NodeAffinity"
    wakes_on = EventKind.NODE_ADDED | EventKind.NODE_UPDATED
    judges_nodes_alone = True

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        added = args.added_affinity if args else None
        self._enforced = node_rule(added.required if added else None)
        self._added = node_preferences(added.preferred if added else ())

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodeAffinity:
        """Return the plugin for *args* as they stand in a configuration."""
        return cls(read_args(NodeAffinityArgs, args))

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Skip a pod that asks nothing; name the nodes if the pod itself names them."""
        if required_nodes(pod).is_empty and self._enforced.is_empty:
            return PreFilterResult(SKIP)
        names = _named_nodes(pod)
        if names is not None and not names:
            return PreFilterResult(CONFLICT)
        return PreFilterResult(nodes=names)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that does not match."""
        if not self._enforced.accepts(node):
            return NOT_ENFORCED
        return SUCCESS if required_nodes(pod).accepts(node) else NOT_MATCHED

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes that do not match."""
        wanted = required_nodes(pod).where(snapshot, rows)
        enforced = self._enforced.where(snapshot, rows)
        if wanted.all() and enforced.all():
            return None
        return Verdicts.first_of(len(rows), [(~enforced, NOT_ENFORCED), (~wanted, NOT_MATCHED)])

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip a pod without preferences."""
        affinity = pod.pod.spec.affinity
        preferred = affinity.node_affinity.preferred if affinity and affinity.node_affinity else ()
        if not preferred and not self._added.terms:
            return SKIP
        try:
            state.write(_PREFERENCES, node_preferences(preferred))
        except InvalidValue as error:
            return failure(str(error))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Add up the weights of the terms that match."""
        own = state.read(_PREFERENCES)
        return self._added.score(node) + (own.score(node) if own else 0)

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Add up the weights of the terms that match."""
        own = state.read(_PREFERENCES)
        added = self._added.score_all(snapshot, rows)
        return added + (own.score_all(snapshot, rows) if own else np.int64(0))

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """More is better."""
        return _share_of_largest(scores)

    def likeness(self, pod: PodInfo) -> bytes:
        """Which nodes it selects."""
        spec = pod.pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        return encoded(spec.node_selector, affinity)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """The node must match now."""
        node = event.node_info
        if node is None:
            return True
        return self._enforced.accepts(node) and required_nodes(pod).accepts(node)


def _named_nodes(pod: PodInfo) -> frozenset[str] | None:
    """Return the nodes that required terms name, if every one of them names some."""
    affinity = pod.pod.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if required is None or not required.node_selector_terms:
        return None
    named: frozenset[str] = frozenset()
    for term in required.node_selector_terms:
        names = _names(term)
        if names is None:
            return None
        named |= names
    return named


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for match_field in term.match_fields:
        if match_field.key == NAME_FIELD and match_field.operator == IN:
            values = frozenset(match_field.values)
            names = values if names is None else names & values
    return names


def _share_of_largest(scores: IntArray) -> IntArray:
    """Return each of *scores* as a share of the largest."""
    largest = int(scores.max(initial=0))
    return MAX_NODE_SCORE * scores // largest if largest else scores
