"""Which pods may be moved: those that a controller makes again elsewhere, as they are.

Not moved are daemons and static pods, pods with local data, pods that `MOVABLE` or the autoscaler's
annotation keeps where they are, pods of higher priority than the one that needs the room, and pods
that a disruption budget protects, all moves of a plan together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.explain.empty_node import stays_with_its_node
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.preemption.disruption_budgets import budgets_of, split_by_violation
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.workloads import PodDisruptionBudget
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

MOVABLE: Final = "numakube.dev/movable"
"""Annotation of pods: ``false`` keeps them where they are."""
_BELIEFS: Final = (ExactBelief, CountsBelief)
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class MovablePods:
    """Knows who may be moved."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets = budgets_of(budgets)
        self._places: dict[str, frozenset[int]] = {}

    def on(self, node: NodeInfo, *, priority: int | None = None) -> list[PodInfo]:
        """Return the pods of *node* that may move, for a pod of *priority*; the least first."""
        found = [
            one
            for one in node.pods.values()
            if may_move(one) and (priority is None or one.priority <= priority)
        ]
        return sorted(found, key=lambda one: (one.priority, one.name))

    def places_of(self, pod: PodInfo, node: NodeInfo) -> frozenset[int]:
        """Return the NUMA nodes on which *pod* holds something, as far as that is known.

        Which does not change as long as it stays: it is looked up once.
        """
        if pod.uid not in self._places:
            known = node.numa.places_of(pod.uid) if isinstance(node.numa, _BELIEFS) else frozenset()
            self._places[pod.uid] = known
        return self._places[pod.uid]

    def kind(self, pod: PodInfo, node: NodeInfo) -> object:
        """Return what is equal for pods of *node* that leave the same room and need the same."""
        return scheduling_key(pod), self.places_of(pod, node)

    def within_budgets(self, leaving: Iterable[PodInfo]) -> bool:
        """Tell whether the budgets allow all of *leaving* to go."""
        return not self._budgets or not split_by_violation(leaving, self._budgets)[0]


def may_move(pod: PodInfo) -> bool:
    """Tell whether *pod* may be moved, whatever budgets say."""
    return pod.memo("may-move", lambda _: _may_move(pod))


def _may_move(pod: PodInfo) -> bool:
    meta, volumes = pod.pod.metadata, pod.pod.spec.volumes
    kept = {meta.annotations.get(key) for key in (MOVABLE, _SAFE_TO_EVICT)}
    local = any(one.empty_dir is not None or one.host_path is not None for one in volumes)
    return (
        meta.controller is not None
        and "false" not in kept
        and not local
        and not pod.is_being_deleted
        and not stays_with_its_node(pod)
    )
