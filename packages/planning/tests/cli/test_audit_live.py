"""``kubectl numa check pods`` on a running cluster: why pods lose their alignment, and a cure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec
from packages.planning.tests.rebalancer.fragmented import cordon, on, replica_set
from packages.planning.tests.test_audit import GPU, found
from tests.cli.conftest import Ended

from numakube.apps.gathering import SCHEDULING, gather
from numakube.insight.facts import SchedulerFacts, facts_of
from numakube.insight.misalignment import Cause
from numakube.kube.catalog import PODS, REPLICA_SETS
from numakube.kube.client import strategic_patch
from numakube.kubelet.machine import Device
from numakube.scheduling.recorder.flight_documents import flight_document
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, lab_cluster
from numakube_planning.audit import AuditedPod

Run = Callable[..., Ended]
SHAPE = "2 sockets, 4 cores, smt 1, 16Gi, gpu 1"


async def audited(world: LabCluster) -> dict[str, AuditedPod]:
    """Return the pods that are not aligned, by their app."""
    recording = world.running[0].process.scheduler.recording
    flights = [flight_document(flight, recording.wall()) for flight in recording.recorder]
    told = {"s": SchedulerFacts("s", {"attempts": {"items": flights}})}
    facts = replace(facts_of(await gather(world.client, what=SCHEDULING)), schedulers=told)
    return {name.partition("-")[0]: one for name, one in found(facts).items()}


async def causes(world: LabCluster, expected: dict[str, str]) -> dict[str, AuditedPod]:
    """Wait until these pods are not aligned, for these causes; the metric counts them, too."""
    shown = await until(
        lambda: audited(world),
        lambda pods: {name: one.cause for name, one in pods.items()} == expected,
    )
    counts = {cause: list(expected.values()).count(cause) for cause in Cause}
    await until(lambda: counted(world), lambda found: found == counts)
    return shown


async def counted(world: LabCluster) -> dict[Cause, float | None]:
    """Return the metric by cause."""
    process = world.running[0].process
    await process.census.count()
    value = process.registry.get_sample_value
    return {cause: value("numakube_misaligned_pods", {"cause": cause}) for cause in Cause}


async def resize(world: LabCluster, name: str, cpu: str) -> None:
    """Ask for another number of CPUs."""
    amounts = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    change = strategic_patch({"spec": {"containers": [container]}})
    await world.client.patch(PODS, name, change, namespace="default", subresource="resize")


async def test_every_cause_is_told_and_the_pod_can_be_placed_again(numakube: Run) -> None:
    """Spread by best-effort, with a broken device, resized; then moved to where it is aligned."""
    async with lab_cluster(2, SHAPE, "policy=best-effort") as world:
        await world.start()
        await cordon(world, "node-1", cordoned=True)
        await world.create(pod_document("a"), pod_document("b", also={GPU: "1"}))
        await world.runs("a", "b")
        await world.client.create(REPLICA_SETS, replica_set("wide", "3"))
        await world.until(lambda: "wide" in on(world, "node-0"))
        wide = (await causes(world, {"wide": "best-effort"}))["wide"]
        assert wide.predicted == wide.actual == "zone 0: cpu 1, memory 1Gi; zone 1: cpu 2"
        status, kubelet = world.pod(wide.name).status, world.pool.kubelet("node-0")
        assert status is not None
        assert kubelet.admission is not None
        assert (wide.since, wide.better) == (status.start_time, ())

        broken = [Device(f"gpu-{n}", (n,), healthy=False) for n in range(2)]
        kubelet.admission.set_devices(GPU, broken)
        await resize(world, wide.name, "2")
        await causes(world, {"wide": "resized", "b": "device-health"})
        await resize(world, wide.name, "3")
        await causes(world, {"wide": "best-effort", "b": "device-health"})

        await cordon(world, "node-1", cordoned=False)
        for_it = ("plan", "defrag", "--for", f"pod/{wide.name}", "--apply")
        ended = await asyncio.to_thread(numakube, *for_it, "--kubeconfig", world.site.kubeconfig)
        assert (ended.code, ended.err) == (0, "")
        await world.until(lambda: on(world, "node-1") == {"wide"})
        await causes(world, {"b": "device-health"})


async def test_kubelets_reject_what_another_policy_admitted() -> None:
    """At their restart: such a pod ends, and its replacement is aligned or waits."""
    async with lab_cluster(1, SHAPE, "policy=best-effort") as world:
        await world.start()
        await world.create(pod_document("a"), pod_document("b"))
        await world.runs("a", "b")
        await world.create(pod_document("wide", "3"))
        await world.runs("wide")
        await causes(world, {"wide": "best-effort"})
        kubelet = world.pool.kubelet("node-0")
        config = msgspec.structs.replace(kubelet.plan.config, topology_manager_policy="restricted")
        kubelet.plan = replace(kubelet.plan, config=config)
        await world.pool.restart("node-0")
        await world.until(lambda: world.by_phase("Failed") == {"wide"})
        status = world.pod("wide").status
        assert status is not None
        assert status.reason == "TopologyAffinityError"
        await causes(world, {})
