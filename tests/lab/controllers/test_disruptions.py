"""Pod disruption budgets, and the default service accounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.lab.controllers.kit import bench, workload

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.errors import TooManyRequests
from numakube.kube.client import Client
from numakube.kube.clock import RetryPolicy
from numakube.kube.resource_types import ObjectKey, key_of
from numakube.kube.subresources import evict_pod
from numakube.values.times import format_time
from numakube_lab.controllers.cluster.namespace_controller import ACCOUNTS, ServiceAccounts
from numakube_lab.controllers.common.controller_loop import PlannedChange
from numakube_lab.controllers.object_types import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
)
from numakube_lab.controllers.workloads.deployment_controller import Deployments
from numakube_lab.controllers.workloads.disruption_controller import (
    DisruptionBudgets,
    ObservedBudget,
    reconcile,
)
from numakube_lab.controllers.workloads.replica_set_controller import ReplicaSets
from numakube_lab.inprocess_transport import InProcess

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pods(healthy: int, sick: int = 0) -> list[Pod]:
    """Pods, some of them ready."""
    states = ["True"] * healthy + ["False"] * sick
    return [
        Pod(
            metadata=ObjectMeta(name=f"p{number}"),
            status=PodStatus(conditions=(PodCondition(type="Ready", status=state),)),
        )
        for number, state in enumerate(states)
    ]


def decide(
    found: list[Pod], scale: int, *, without: tuple[str, ...] = (), **spec: Any
) -> dict[str, Any]:
    """Return the status that a budget gets."""
    seen = ObservedBudget(
        budget=DisruptionBudget(spec=DisruptionBudgetSpec(**spec)),
        pods=found,
        scales={"workload": scale},
        without_scale=without,
        now=NOW,
    )
    (change,) = reconcile(seen).actions
    assert isinstance(change, PlannedChange)
    status: dict[str, Any] = change.patch["status"]
    return status


@pytest.mark.parametrize(
    ("found", "scale", "spec", "expected"),
    [
        (pods(3), 3, {"min_available": 2}, (3, 2, 3, 1)),
        (pods(2, 1), 3, {"min_available": 2}, (3, 2, 2, 0)),
        (pods(3), 3, {"min_available": "50%"}, (3, 2, 3, 1)),
        (pods(3), 4, {"max_unavailable": 1}, (4, 3, 3, 0)),
        (pods(4), 4, {"max_unavailable": "25%"}, (4, 3, 4, 1)),
        (pods(4), 4, {"max_unavailable": "30%"}, (4, 2, 4, 2)),
        ([], 0, {"min_available": 0}, (0, 0, 0, 0)),
    ],
)
def test_what_a_budget_allows(
    found: list[Pod], scale: int, spec: dict[str, Any], expected: tuple[int, ...]
) -> None:
    """Percentages are of what the workloads want, and rounded up."""
    status = decide(found, scale, **spec)
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    assert tuple(status.get(name, 0) for name in names) == expected


def test_pods_without_a_workload_make_percentages_meaningless() -> None:
    """Then nothing may be evicted, and the budget says why."""
    status = decide(pods(3), 0, without=("p0",), min_available="50%")
    assert status.get("disruptionsAllowed", 0) == 0
    assert status["conditions"][0]["reason"] == "SyncFailed"


def test_an_evicted_pod_counts_as_lost_until_it_is_clear_that_it_stays() -> None:
    """For two minutes."""
    moment = format_time(NOW - timedelta(seconds=60))
    old = format_time(NOW - timedelta(seconds=121))
    disrupted = {"p0": moment, "p1": old, "vanished": moment}
    budget = DisruptionBudget(
        spec=DisruptionBudgetSpec(min_available=1),
        status=DisruptionBudgetStatus(disrupted_pods=disrupted),
    )
    plan = reconcile(ObservedBudget(budget=budget, pods=pods(3), scales={}, now=NOW))
    (change,) = plan.actions
    assert isinstance(change, PlannedChange)
    assert change.patch["status"]["currentHealthy"] == 2
    assert change.patch["status"]["disruptedPods"] == {"p1": None, "vanished": None}
    assert plan.again_after == 60
    assert msgspec.to_builtins(budget)["status"]["disruptedPods"] == disrupted


async def test_an_eviction_beyond_the_budget_is_refused_and_later_allowed() -> None:
    """With the workload healthy again, the next may go."""
    async with bench(Deployments, ReplicaSets, DisruptionBudgets) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=2))
        await lab.sees(DEPLOYMENTS, "web", lambda one: one.status.available_replicas == 2)
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await lab.apply(DISRUPTION_BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
        await lab.sees(DISRUPTION_BUDGETS, "web", lambda one: one.status.disruptions_allowed == 1)
        lab.kubelet.outcome = lambda _: None
        impatient = Client(InProcess(lab.server), rate=0, retry=RetryPolicy(attempts=1))
        first, second = lab.pods.in_namespace("default")
        await evict_pod(lab.client, key_of(first))
        with pytest.raises(TooManyRequests):
            await evict_pod(impatient, key_of(second))
        lab.kubelet.outcome = lambda _: ("Running", True)
        lab.kubelet.again()
        await lab.sees(
            DISRUPTION_BUDGETS,
            "web",
            lambda one: one.status.disruptions_allowed == 1 and not one.status.disrupted_pods,
        )
        await evict_pod(lab.client, key_of(second))


async def test_every_namespace_has_a_default_service_account() -> None:
    """It comes back when it is deleted."""
    async with bench(ServiceAccounts) as lab:
        await lab.client.create(NAMESPACES, {"metadata": {"name": "team"}})
        accounts = lab.mirror(ACCOUNTS)
        key = ObjectKey("team", "default")
        await lab.until(ACCOUNTS, lambda: accounts.get(key) is not None)
        await lab.sees(ACCOUNTS, "default")
        found = accounts.get(key)
        assert found is not None
        await lab.client.delete(ACCOUNTS, "default", namespace="team")
        await lab.until(ACCOUNTS, lambda: _is_another(accounts.get(key), found.metadata.uid))


def _is_another(found: Any, uid: str) -> bool:
    return found is not None and found.metadata.uid != uid
