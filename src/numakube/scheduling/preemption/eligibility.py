"""Whether a pod may evict others now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.pods import PodInfo

_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


def why_not(
    pod: PodInfo, nominated: str, snapshot: Snapshot, refusals: Mapping[str, Status]
) -> str | None:
    """Return why *pod* must not evict anybody, in kube-scheduler's words; ``None`` if it may.

    Args:
        pod: the pod that fits nowhere.
        nominated: the node on which room has been made for it already, if any.
        snapshot: the cluster.
        refusals: why each node refused the pod.
    """
    if pod.pod.spec.preemption_policy == "Never":
        return _NEVER
    refusal = refusals.get(nominated)
    if not nominated or (
        refusal is not None and refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    ):
        return None
    node = snapshot.node(nominated)
    pods = node.pods.values() if node is not None else ()
    leaving = any(one.priority < pod.priority and is_being_preempted(one) for one in pods)
    return _TERMINATING if leaving else None


def is_being_preempted(pod: PodInfo) -> bool:
    """Tell whether *pod* is going away to make room for another."""
    conditions = pod.pod.status.conditions if pod.pod.status else ()
    return pod.is_being_deleted and any(
        one.type == "DisruptionTarget"
        and one.status == "True"
        and one.reason == "PreemptionByScheduler"
        for one in conditions
    )
