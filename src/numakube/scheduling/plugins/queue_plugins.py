"""PrioritySort and SchedulingGates: which pod comes next, and which not yet.

Follows the plugins of these names in kube-scheduler 1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import PreEnqueue, QueueSort
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.snapshot.pods import PodInfo


class PrioritySort(QueueSort):
    """Pods of higher priority first; among equals, who has waited longest."""

    name = "PrioritySort"
    wakes_on = EventKind(0)

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> PrioritySort:
        """Return the plugin; it has no arguments."""
        return cls()

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[object, ...]:
        """Return priority, negated, and time."""
        return -pod.priority, queued_at


class SchedulingGates(PreEnqueue):
    """Pods wait until all their gates are removed."""

    name = "SchedulingGates"
    wakes_on = EventKind.UNSCHEDULED_POD_UPDATED

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> SchedulingGates:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Refuse a pod that has a gate."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Only a change of the pod itself takes a gate away."""
        return event.pod is None or event.pod.uid == pod.uid
