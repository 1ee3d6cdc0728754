"""Who aligns a pod, the kubelet or a scheduler, behind one engine.

Where a kubelet aligns pods the NUMA engine decides, as ever. Where none does, pods that ask for it
by annotations and labels are given NUMA nodes, CPUs and devices by the plugin NodeNUMAResource, as
`numakube scheduler` does. A node must pass both; each lets pass what is the other's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.bind_annotations import annotations_of
from numakube.scheduling.framework.cycle_state import CycleState, StateKey
from numakube.scheduling.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import Ratings, Rows
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.koordinator.node_numa_resource import NodeNUMAResource
    from numakube.scheduling.numa.numa_engine import NumaEngine
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_READ: Final = StateKey["Status"]("allotting-wish")
_RATES: Final = StateKey[bool]("allotting-rates")


class AllottingEngine:
    """A `NumaEngine` that also allots; the state of a cycle carries what a pod wishes."""

    def __init__(self, cluster: Cluster, engine: NumaEngine, plugin: NodeNUMAResource) -> None:
        self._cluster = cluster
        self._engine = engine
        self._plugin = plugin

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*."""
        status = self._engine.filter(state, pod, node)
        if not status.ok:
            return status
        wish = self._wish(state, pod)
        return wish if _is_refusal(wish) else self._plugin.filter(state, pod, node)

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*; ``None`` if all of them can."""
        wish = self._wish(state, pod)
        if _is_refusal(wish):
            return Verdicts.where(np.zeros(len(rows), dtype=np.bool_), wish)
        aligned = self._engine.filter_all(state, pod, snapshot, rows)
        allotted = self._plugin.filter_all(state, pod, snapshot, rows)
        return allotted if aligned is None else aligned.then(allotted)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node*."""
        score = self._engine.score(state, pod, node)
        return (score + self._plugin.score(state, pod, node)) // 2 if state.read(_RATES) else score

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate the nodes at *rows*; both opinions count the same, as in the default profile."""
        scores = self._engine.score_all(state, pod, snapshot, rows)
        rates = self._wish(state, pod).ok and self._plugin.pre_score(state, pod, snapshot, rows).ok
        state.write(_RATES, rates)
        if not rates:
            return scores
        others = self._plugin.score_all(state, pod, snapshot, rows)
        return np.add(scores, others, dtype=np.int64) // 2

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Ask the kubelet model."""
        return self._engine.confirm(state, pod, node)

    def annotations(self, pod: PodInfo, node: NodeInfo) -> Mapping[str, str]:
        """Return what the binding of *pod* to *node*, which admits it, has to write."""
        state = CycleState()
        if self._wish(state, pod).ok:
            self._plugin.reserve(state, pod, node)
        return annotations_of(state)

    def expect(self, pod: PodInfo, node: NodeInfo) -> None:
        """Let *pod*, which is on its way, hold something of *node*, a copy."""
        if self._wish(CycleState(), pod).ok:
            self._plugin.add_pod(CycleState(), pod, pod, node)

    def _wish(self, state: CycleState, pod: PodInfo) -> Status:
        """Read what *pod* wishes, once in a cycle; skipped if that is nothing."""
        known = state.read(_READ)
        if known is None:
            known = self._plugin.pre_filter(state, pod, self._cluster.snapshot()).status
            state.write(_READ, known)
        return known


def _is_refusal(status: Status) -> bool:
    return not (status.ok or status.skipped)
