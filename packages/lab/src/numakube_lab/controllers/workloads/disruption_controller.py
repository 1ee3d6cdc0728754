"""Pod disruption budgets: how many of the selected pods may be evicted now.

The API server's eviction takes from what this controller reports. Follows kube-controller-manager
1.35.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from numakube.api.selectors import selects
from numakube.kube import ObjectKey, key_of
from numakube.kube.catalog import PODS
from numakube.values.times import format_time
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    LabController,
    ObjectPlan,
    status_change,
)
from numakube_lab.controllers.common.pod_states import is_active, is_ready, time_of
from numakube_lab.controllers.object_types import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DisruptionBudget,
    DisruptionBudgetCondition,
)
from numakube_lab.controllers.workloads.deployment_sets import share_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.meta import OwnerReference
    from numakube.api.pod import Pod
    from numakube.kube import EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster, Owned
    from numakube_lab.controllers.object_types import IntOrPercent

DELETION_TIMEOUT: Final = 120.0
"""Seconds after which an evicted pod that is still there counts as never evicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBudget:
    """A budget and its pods.

    Attributes:
        pods: the active pods that it selects.
        scales: the wanted sizes of the workloads of these pods, by uid.
        without_scale: pods of which no workload with a size is known.
    """

    budget: DisruptionBudget
    pods: Sequence[Pod]
    scales: Mapping[str, int]
    without_scale: Sequence[str] = ()
    now: datetime


def reconcile(seen: ObservedBudget) -> ObjectPlan:
    """Decide what a budget allows."""
    budget = seen.budget
    disrupted, again = _disrupted(seen)
    counts = _expected(seen)
    if isinstance(counts, str):
        status = msgspec.structs.replace(
            budget.status,
            disruptions_allowed=0,
            conditions=_conditions(seen, "False", "SyncFailed", counts),
        )
    else:
        expected, desired = counts
        healthy = sum(is_ready(pod) and pod.metadata.name not in disrupted for pod in seen.pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        met = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
        status = msgspec.structs.replace(
            budget.status,
            observed_generation=budget.metadata.generation,
            disrupted_pods=disrupted,
            disruptions_allowed=allowed,
            current_healthy=healthy,
            desired_healthy=desired,
            expected_pods=expected,
            conditions=_conditions(seen, *met, ""),
        )
    version = budget.metadata.resource_version
    key = key_of(budget)
    return ObjectPlan(status_change(DISRUPTION_BUDGETS, key, version, budget.status, status), again)


def _expected(seen: ObservedBudget) -> tuple[int, int] | str:
    """Return how many pods there should be and must stay; or why that is not known."""
    least, most_lost = seen.budget.spec.min_available, seen.budget.spec.max_unavailable
    if most_lost is None and isinstance(least, int):
        return len(seen.pods), least
    if seen.without_scale:
        return f"found no controller ref for pod {seen.without_scale[0]!r}"
    expected = sum(seen.scales.values())
    if most_lost is not None:
        return expected, max(0, expected - _rounded_up(most_lost, expected))
    return expected, 0 if least is None else _rounded_up(least, expected)


def _rounded_up(part: IntOrPercent, whole: int) -> int:
    return share_of(part, whole, round_up=True)


def _disrupted(seen: ObservedBudget) -> tuple[dict[str, str], float | None]:
    """Return the evicted pods that have yet to go, and when to stop waiting for the next."""
    kept: dict[str, str] = {}
    waits: list[float] = []
    present = {pod.metadata.name for pod in seen.pods}
    for name, moment in seen.budget.status.disrupted_pods.items():
        since = time_of(moment)
        if name not in present or since is None:
            continue
        left = (since + timedelta(seconds=DELETION_TIMEOUT) - seen.now).total_seconds()
        if left > 0:
            kept[name] = moment
            waits.append(left)
    return kept, min(waits, default=None)


def _conditions(
    seen: ObservedBudget, status: str, reason: str, message: str
) -> tuple[DisruptionBudgetCondition, ...]:
    budget = seen.budget
    kind = "DisruptionAllowed"
    current = next((each for each in budget.status.conditions if each.type == kind), None)
    since = current.last_transition_time if current and current.status == status else None
    new = DisruptionBudgetCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        observed_generation=budget.metadata.generation,
        last_transition_time=since or format_time(seen.now),
    )
    return (*(each for each in budget.status.conditions if each.type != kind), new)


class DisruptionBudgets(LabController):
    """Looks after all pod disruption budgets."""

    name: ClassVar[str] = "disruption-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._budgets = cluster.mirror(DISRUPTION_BUDGETS)
        self._pods = cluster.mirror(PODS)
        self._replica_sets = cluster.mirror(REPLICA_SETS)
        self._deployments = cluster.mirror(DEPLOYMENTS)
        self._stateful_sets = cluster.mirror(STATEFUL_SETS)

    def watch(self) -> None:
        """Look again when a budget, a selected pod or the size of a workload changes."""
        self.follow(self._budgets)
        self.follow(self._pods, self._concerned)
        self.follow(self._deployments, self._neighbours)
        self.follow(self._replica_sets, self._neighbours)
        self.follow(self._stateful_sets, self._neighbours)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what one budget allows."""
        budget = self._budgets.get(key)
        if budget is None or budget.metadata.deletion_timestamp is not None:
            return NOTHING
        pods = [
            pod
            for pod in self._pods.in_namespace(key.namespace)
            if _covers(budget, pod) and is_active(pod)
        ]
        scales: dict[str, int] = {}
        without: list[str] = []
        for pod in pods:
            scale = self._scale_of(pod)
            if scale is None:
                without.append(pod.metadata.name)
            else:
                scales[scale[0]] = scale[1]
        return reconcile(
            ObservedBudget(
                budget=budget,
                pods=pods,
                scales=scales,
                without_scale=without,
                now=self.clock.now(),
            )
        )

    def _scale_of(self, pod: Pod) -> tuple[str, int] | None:
        """Return uid and wanted size of the workload that *pod* belongs to."""
        owner, namespace = pod.metadata.controller, pod.metadata.namespace
        if owner is None:
            return None
        if owner.kind == "StatefulSet":
            stateful = self._stateful_sets.get(ObjectKey(namespace, owner.name))
            return (owner.uid, stateful.spec.replicas) if stateful else None
        if owner.kind == "ReplicaSet":
            return self._scale_of_set(owner, namespace)
        return None

    def _scale_of_set(self, owner: OwnerReference, namespace: str) -> tuple[str, int] | None:
        replica_set = self._replica_sets.get(ObjectKey(namespace, owner.name))
        if replica_set is None:
            return None
        above = replica_set.metadata.controller
        if above is None or above.kind != "Deployment":
            return owner.uid, replica_set.spec.replicas
        deployment = self._deployments.get(ObjectKey(namespace, above.name))
        return (above.uid, deployment.spec.replicas) if deployment else None

    def _concerned(self, pod: Pod) -> Iterable[ObjectKey]:
        return [
            key_of(budget)
            for budget in self._budgets.in_namespace(pod.metadata.namespace)
            if _covers(budget, pod)
        ]

    def _neighbours(self, workload: Owned) -> Iterable[ObjectKey]:
        namespace = workload.metadata.namespace
        return [key_of(budget) for budget in self._budgets.in_namespace(namespace)]


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    """Tell whether *budget* selects *pod*; an empty selector selects all, none selects none."""
    selector = budget.spec.selector
    return selector is not None and selects(selector, pod.metadata.labels)
