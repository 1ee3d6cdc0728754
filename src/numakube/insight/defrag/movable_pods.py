"""Which pods may be moved: those that a controller makes again elsewhere, as they are.

Not moved are daemons and static pods, pods with local data, pods that `MOVABLE` or the autoscaler's
annotation keeps where they are, pods of higher priority than the one that needs the room, and pods
that a disruption budget protects, all moves of a plan together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.explain.empty_node import stays_with_its_node
from numakube.scheduling.preemption.budgets import budgets_of, split_by_violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.workloads import PodDisruptionBudget
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

MOVABLE: Final = "numakube.dev/movable"
"""Annotation of pods: ``false`` keeps them where they are."""
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class MovablePods:
    """Knows who may be moved."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets = budgets_of(budgets)

    def on(self, node: NodeInfo, *, priority: int | None = None) -> list[PodInfo]:
        """Return the pods of *node* that may move, for a pod of *priority*; the least first."""
        found = [
            one
            for one in node.pods.values()
            if may_move(one) and (priority is None or one.priority <= priority)
        ]
        return sorted(found, key=lambda one: (one.priority, one.name))

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
