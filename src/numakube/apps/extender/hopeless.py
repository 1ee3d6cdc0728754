"""Which refusals kube-scheduler must not answer by preemption.

It would look for victims by its own view of resources, in which the pod fits as it is, find none,
and complain in an order that changes from attempt to attempt: a new text each time, and the pod is
tried without end. So wherever it could start looking, and wherever no eviction helps, the node goes
to ``failedAndUnresolvableNodes``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.status import Code
from numakube.scheduling.numa.rejection import Kind, Rejection, RejectionGroup

if TYPE_CHECKING:
    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zones import ZoneTable

_NOBODY: Final = 2**31
"""Above every priority: there is no pod to evict."""


def may_preempt(pod: PodInfo) -> bool:
    """Tell whether kube-scheduler may evict others for *pod*."""
    return pod.pod.spec.preemption_policy != "Never"


class LowestPriorities:
    """The lowest priority on each node, looked up again only where a node has changed."""

    def __init__(self) -> None:
        self._known: list[tuple[int, int]] = []

    def on(self, cluster: Cluster, rows: Rows) -> IntArray:
        """Return the lowest priority of the pods at *rows*; above every priority if none."""
        known, by_row = self._known, cluster.by_row
        known.extend([(-1, _NOBODY)] * (len(by_row) - len(known)))
        found = []
        for row in rows.tolist():
            node = by_row[row]
            if node is not None and known[row][0] != node.generation:
                lowest = min((pod.priority for pod in node.pods.values()), default=_NOBODY)
                known[row] = node.generation, lowest
            found.append(known[row][1])
        return np.array(found, dtype=np.int64)


def are_hopeless(status: Status, zones: ZoneTable, rows: Rows) -> Mask:
    """Tell which of *rows*, refused for the same reason, would refuse even with nobody there."""
    if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return np.ones(len(rows), dtype=np.bool_)
    detail = status.detail
    if isinstance(detail, RejectionGroup):
        detail = detail.closest
    if not isinstance(detail, Rejection) or detail.kind not in (Kind.NODE, Kind.ALIGN):
        return np.zeros(len(rows), dtype=np.bool_)
    amounts = np.sort(zones.allocatable(detail.resource)[:, rows], axis=0)[::-1]
    if detail.kind is Kind.ALIGN:
        amounts = amounts[: len(detail.zones)]
    short: Mask = amounts.sum(axis=0) < detail.wanted
    return short
