"""Refusals that still hold: a pod like one that fitted nowhere need not be tried again.

A refusal holds until room is made somewhere. Even then it holds if each node that has changed since
is refused for the reasons that it was refused for before: a pod that came and went leaves a node
as it was. That is only asked where every filter that had a say judges nodes one by one, and where
no pod could be evicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from numakube.scheduling.snapshot.pod_equivalence import (
    depends_on_pods,
    replica_key,
    scheduling_key,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.diagnosis import Diagnosis
    from numakube.scheduling.framework.nominations import Nominations
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo

_GUARD: Final = "RejectionGuard"
"""Whose refusals end with time."""
WITHOUT_OTHER_PODS: Final = frozenset({"GangScheduling", _GUARD})
"""Filters that look beyond a node, but not at the pods on it; no other pod changes them."""
_VERDICTS_KEPT: Final = 1_000_000
"""Nodes of all refusals together: some thirty megabytes."""
_ASKED_AT_MOST: Final = 8
"""Nodes that are asked again one by one; more are better tried together."""


@dataclass(eq=False)
class _Known:
    """A refusal, and when it was found to hold: generations of room, nominations and all else."""

    diagnosis: Diagnosis
    state: CycleState
    evicting_may_help: bool
    stamp: tuple[int, int]
    generation: int
    nodes_generation: int

    @cached_property
    def statuses(self) -> Mapping[str, Status]:
        """The refusal of every node."""
        return self.diagnosis.statuses()


class KnownRefusals:
    """The refusals of one scheduler."""

    def __init__(self, cluster: Cluster, nominations: Nominations) -> None:
        self._cluster = cluster
        self._nominations = nominations
        self._known: dict[PodKey, _Known] = {}

    def get(self, pod: PodInfo, runtime: Runtime) -> Diagnosis | None:
        """Return why *pod* fits nowhere, if that is known of one like it and holds."""
        known = self._known.get(self._key(pod))
        if known is None:
            return None
        stamp = self._stamp(pod)
        if known.stamp != stamp:
            if not self._holds(known, pod, runtime):
                return None
            known.stamp, known.generation = stamp, self._cluster.generation
        return known.diagnosis

    def put(self, pod: PodInfo, diagnosis: Diagnosis, state: CycleState) -> None:
        """Remember why *pod* fits nowhere, unless it may fit in time."""
        if _GUARD in diagnosis.plugins():
            return
        if len(self._known) > _VERDICTS_KEPT // max(1, diagnosis.total):
            self._known.clear()
        cluster = self._cluster
        self._known[self._key(pod)] = _Known(
            diagnosis,
            state,
            self._evicting_may_help(pod),
            self._stamp(pod),
            cluster.generation,
            cluster.nodes_generation,
        )

    def _holds(self, known: _Known, pod: PodInfo, runtime: Runtime) -> bool:
        """Tell whether all nodes that have changed are refused as they were."""
        cluster = self._cluster
        if (
            known.nodes_generation != cluster.nodes_generation
            or known.evicting_may_help
            or known.stamp[1] != self._nominations.generation
            or self._nominations
            or cluster.aside
            or not cluster.indexes.terms.is_empty
            or self._evicting_may_help(pod)
        ):
            return False
        changed = cluster.changed_since(known.generation, most=_ASKED_AT_MOST)
        if changed is None or not _is_node_by_node(known, runtime):
            return False
        statuses = known.statuses
        return all(
            runtime.filter_node(known.state, pod, node) == statuses.get(node.name)
            for node in changed
        )

    def _evicting_may_help(self, pod: PodInfo) -> bool:
        lowest = self._cluster.indexes.lowest_priority
        return lowest is not None and lowest < pod.priority

    def _key(self, pod: PodInfo) -> PodKey:
        """Return what *pod* has in common with those that are refused wherever it is."""
        selected = self._nominations or not self._cluster.indexes.terms.is_empty
        return scheduling_key(pod) if selected or depends_on_pods(pod) else replica_key(pod)

    def _stamp(self, pod: PodInfo) -> tuple[int, int]:
        cluster = self._cluster
        own = cluster.generation if depends_on_pods(pod) else cluster.room_generation
        return own, self._nominations.generation


def _is_node_by_node(known: _Known, runtime: Runtime) -> bool:
    """Tell whether the nodes were refused by filters that look at nothing but the node."""
    diagnosis = known.diagnosis
    if diagnosis.pre_filter is not None or diagnosis.excluded:
        return False
    beyond = runtime.filters_beyond_nodes(known.state)
    return beyond <= WITHOUT_OTHER_PODS and not beyond & diagnosis.plugins()
