"""What the metrics show, of claims as well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from prometheus_client import CollectorRegistry
from tests.apps.scheduler.test_mixed_pods import GPU, TEMPLATE, mixed
from tests.scheduling.conftest import pod_of
from tests.scheduling.test_scheduling_queue import Rules

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.apps.node_state_metrics import NodeZonesState
from numakube.apps.scheduler.metrics import ClaimMetrics, SchedulerMetrics
from numakube.kube.catalog import PODS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.scheduling.framework.status import (
    TOO_COSTLY,
    Diagnosis,
    Status,
    failure,
    unschedulable,
)
from numakube.scheduling.scheduling_queue import SchedulingQueue
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.testing import bound, pod
from numakube.topology.topology_view import NodeTopology
from numakube_lab.controllers.object_types import RESOURCE_CLAIM_TEMPLATES
from numakube_lab.testing import lab_cluster, uniform_plans

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.values.resources import Amounts


@dataclass(frozen=True)
class Belief:
    """As much of a belief as decides about the state."""

    topology: NodeTopology | None
    blocked: str = ""
    available: tuple[Amounts, ...] = ()


def test_gauges_show_what_the_queue_holds() -> None:
    """Read when asked, not when changed."""
    registry = CollectorRegistry()
    metrics, queue = SchedulerMetrics(registry), SchedulingQueue(Rules())
    metrics.watch_queue(queue, ["Fit"])
    for number in range(3):
        queue.add(pod_of(f"p{number}"), 0)
    entry = queue.pop(0)
    assert entry is not None
    queue.refused(entry, frozenset({"Fit"}), 0)

    def value(queue_name: str) -> float | None:
        return registry.get_sample_value("scheduler_pending_pods", {"queue": queue_name})

    assert (value("active"), value("unschedulable"), value("gated")) == (2, 1, 0)
    assert registry.get_sample_value("scheduler_unschedulable_pods", {"plugin": "Fit"}) == 1


def test_nodes_are_counted_by_what_is_known_of_them() -> None:
    """Each once, and every state is there, so that an alert finds a zero."""
    registry = CollectorRegistry(auto_describe=True)
    metrics, cluster = SchedulerMetrics(registry), Cluster()
    metrics.node_states.cluster = cluster
    topology = NodeTopology(node="n", zones=())
    beliefs = {
        "none": None,
        "unusable": Belief(None),
        "blocked": Belief(replace(topology, stale_reason="kubelet away"), blocked="foreign pods"),
        "stale": Belief(replace(topology, stale_reason="kubelet away")),
        "orphaned": Belief(replace(topology, orphaned="its pod is gone")),
        "counts": Belief(topology),
    }
    for name, belief in beliefs.items():
        cluster.set_node(Node(metadata=ObjectMeta(name=name)))
        cluster.suppose(name, cast("NumaBelief | None", belief))

    found = {
        state.value: registry.get_sample_value("numakube_cache_nodes", {"state": state.value})
        for state in NodeZonesState
    }
    once = dict.fromkeys(("blocked", "stale", "orphaned", "counts"), 1)
    assert found == {"unknown": 2, **once, "exact": 0}


def test_plugins_are_timed_in_one_attempt_of_ten() -> None:
    """The first among them; what is timed every time does not depend on attempts."""
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)

    def count(point: str) -> float | None:
        name = "scheduler_plugin_execution_duration_seconds_count"
        return registry.get_sample_value(name, {"plugin": "Fit", "extension_point": point})

    for _ in range(11):
        metrics.begin_attempt()
        with metrics.stopwatch("Filter", "Fit"), metrics.stopwatch("Score", "Fit"):
            pass
        with metrics.timer("Bind", "Fit"):
            pass
    assert (count("Filter"), count("Score"), count("Bind")) == (2, 2, 11)


# What the scheduler's metrics say of claims, and of pods that are not aligned.


async def test_claims_are_counted_and_misaligned_pods_found() -> None:
    """On a node of which another scheduler gave the first CPUs to a pod that had to be spread."""
    machine = from_shape("2 sockets, 4 cores, smt 2, 32Gi, gpu 1")
    (plan,) = uniform_plans(1, machine, "policy=best-effort", "1.35")
    async with lab_cluster(plans=(plan.with_claimable(GPU),)) as cluster:
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE, namespace="default")
        process = (await cluster.start()).process

        def value(name: str, **labels: str) -> float:
            return process.registry.get_sample_value(name, labels) or 0

        await cluster.create(mixed("near", "2"))
        await cluster.runs("near")
        assert value("numakube_claim_allocations_total", result="success") == 1
        assert value("numakube_claim_write_seconds_count") == 1
        for number, cpu in enumerate(("3", "5", "4")):
            await cluster.client.create(PODS, bound(pod(f"blind-{number}", cpu=cpu), "node-0"))
            await cluster.runs(f"blind-{number}")

        async def counted() -> bool:
            await process.census.count()
            return value("numakube_misaligned_pods", cause="best-effort") == 1

        await cluster.until(counted)
        assert value("numakube_misaligned_pods", cause="claims") == 0


def refusal(text: str) -> Status:
    """Return what the plugin says of a node, or of a pod."""
    return unschedulable(text).by("DynamicResources")


def test_refusals_for_claims_are_counted_once_an_attempt() -> None:
    """By what the plugin said; those of other plugins are not."""
    registry = CollectorRegistry()
    metrics = ClaimMetrics(registry)
    waiting = refusal("waiting for dynamic resource controller")
    metrics.refused(Diagnosis(pre_filter=waiting))
    metrics.refused(Diagnosis(pre_filter=unschedulable("no").by("NodeName")))

    def count(reason: str) -> float | None:
        return registry.get_sample_value("numakube_claim_refusals_total", {"reason": reason})

    assert count("not_ready") == 1
    texts = ("no devices for the claims on NUMA node 0, where", "cannot allocate all claims")
    refused = [(np.array([row], dtype=np.intp), refusal(text)) for row, text in enumerate(texts)]
    metrics.refused(Diagnosis(excluded=refused))
    assert (count("not_near"), count("no_devices"), count("elsewhere")) == (1, 1, None)
    costly = failure("claim a/b: too much", detail=TOO_COSTLY).by("DynamicResources")
    metrics.refused(Diagnosis(excluded=[(np.array([0], dtype=np.intp), costly)]))
    assert (count("too_costly"), count("other")) == (1, None)
