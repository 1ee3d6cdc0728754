"""What the scheduler's metrics say of claims, and of pods that are not aligned."""

from __future__ import annotations

import numpy as np
from prometheus_client import CollectorRegistry
from tests.apps.scheduler.test_mixed_pods import GPU, TEMPLATE, mixed

from numakube.apps.scheduler.claim_metrics import ClaimMetrics
from numakube.kube.catalog import PODS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.scheduling.framework.diagnosis import Diagnosis
from numakube.scheduling.framework.status import TOO_COSTLY, Status, failure, unschedulable
from numakube.testing import bound, pod
from numakube_lab.controllers.types.claim_types import RESOURCE_CLAIM_TEMPLATES
from numakube_lab.testing import lab_cluster, uniform_plans


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
