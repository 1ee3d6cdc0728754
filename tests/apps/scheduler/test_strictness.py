"""Nodes that promise less than pods want, in a strict scheduler and in a lenient one (B21)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from numakube.api.scheduler_config import (
    SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    numa_configuration,
)
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster, without_election

pytestmark = pytest.mark.timeout(180)

UNREPORTED = ("node-0", "node-1")
NO_DATA = "2 node(s) without a usable NodeResourceTopology"


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Four nodes of two NUMA nodes with 16 CPUs each; half of them report nothing."""
    async with lab_cluster(4, on=sites) as world:
        world.exporters.freeze(UNREPORTED)
        for name in UNREPORTED:
            await world.client.delete(NODE_RESOURCE_TOPOLOGIES, name)
        yield world


def config(**args: Any) -> KubeSchedulerConfiguration:
    """Return the configuration of a scheduler with these arguments of the NUMA plugin."""
    election = without_election().leader_election
    plain = numa_configuration([SCHEDULER_NAME], args)
    return msgspec.structs.replace(plain, leader_election=election)


def nodes_of(world: LabCluster, phase: str) -> set[str]:
    """Return where pods in *phase* are."""
    return {world.pod(name).spec.node_name for name in world.by_phase(phase)}


async def test_b21_strict_no_kubelet_rejects_a_pod_though_half_of_the_nodes_are_unknown(
    world: LabCluster,
) -> None:
    """Pods wait, with the reason, until the nodes report; then they run there without a restart."""
    await world.start(config(missingData="Refuse"))
    await world.create(*(pod_document(f"p{number}", "10") for number in range(8)))
    await world.until(lambda: len(world.by_phase("Running")) == 4)
    await world.settled()
    assert nodes_of(world, "Running") == {"node-2", "node-3"}
    for name in world.by_phase("Pending"):
        assert NO_DATA in await world.refuses(name, NO_DATA)
    world.exporters.thaw(UNREPORTED)
    await world.until(lambda: len(world.by_phase("Running")) == 8)
    assert world.by_phase("Failed") == set()


async def test_b21_lenient_pods_are_tried_on_unknown_nodes_last(world: LabCluster) -> None:
    """The default, as before: known nodes first, then blindly, which kubelets may reject."""
    await world.start(config())
    await world.create(*(pod_document(f"p{number}", "10") for number in range(4)))
    await world.until(lambda: len(world.by_phase("Running")) == 4)
    assert nodes_of(world, "Running") == {"node-2", "node-3"}
    await world.create(*(pod_document(f"q{number}", "10") for number in range(6)))
    await world.until(lambda: bool(world.by_phase("Failed")))
    statuses = [world.pod(name).status for name in world.by_phase("Failed")]
    reasons = {status.reason for status in statuses if status is not None}
    assert reasons == {"TopologyAffinityError"}


async def test_b21_a_pod_can_be_stricter_than_the_profile(world: LabCluster) -> None:
    """By an annotation; one that cannot be understood is named, and the pod waits."""
    await world.start(config(missingData="Allow"))
    strict = {"annotations": {"topology.numakube.dev/missing-data": "Refuse"}}
    await world.create(
        *(pod_document(f"s{number}", "10", metadata=_named(strict, number)) for number in range(5))
    )
    await world.until(lambda: len(world.by_phase("Running")) == 4)
    assert nodes_of(world, "Running") == {"node-2", "node-3"}
    (left,) = world.by_phase("Pending")
    assert NO_DATA in await world.refuses(left, NO_DATA)
    wrong = {"name": "odd", "annotations": {"topology.numakube.dev/missing-data": "Reject"}}
    await world.create(pod_document("odd", metadata=wrong))
    assert "unknown word 'Reject': use one of Allow" in await world.refuses("odd")


def _named(metadata: dict[str, Any], number: int) -> dict[str, Any]:
    return {**metadata, "name": f"s{number}"}


async def test_b21_a_weaker_policy_than_required_is_refused(sites: Opener) -> None:
    """A kubelet with best-effort would start the pod unaligned."""
    async with lab_cluster(2, kubelet="policy=best-effort", on=sites) as world:
        await world.start(config(requiredPolicy="single-numa-node", weakerPolicy="Refuse"))
        await world.create(pod_document("p", "4"))
        text = "2 node(s) whose kubelet policy best-effort is weaker than single-numa-node"
        assert text in await world.refuses("p")
