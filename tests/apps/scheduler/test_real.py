"""The scheduler against a real kube-apiserver; nodes are objects with exact reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
from benchmarks._fleet import create_fleet, plans_of
from tests.apps.scheduler.world import NAME, pod_document, refusal_of, without_election
from tests.real.api_server import RealServer, needs_assets, real_server

from numakube.api.core import Pod
from numakube.api.yamls import dump_yaml
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.apps.scheduler.settings import default_configuration
from numakube.kube.catalog import CORE_EVENTS, PODS, PRIORITY_CLASSES
from numakube.kube.client import Client
from numakube.kube.config import load_config
from numakube.kube.connect import connect
from numakube.kube.patches import merge_patch
from numakube.lab.replay.run import TOKENS

pytestmark = [needs_assets, pytest.mark.timeout(180)]

SHAPE = "2 sockets, 8 cores, smt 2, 32Gi"
PATIENCE_SECONDS = 60.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RealServer]:
    """A real server."""
    async with real_server(tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: RealServer, tmp_path: Path) -> AsyncIterator[Client]:
    """Its administrator; there are three nodes."""
    path = tmp_path / "kubeconfig"
    cluster = {"server": server.url, "certificate-authority": str(server.ca)}
    config = {
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": TOKENS["admin"]}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    }
    path.write_text(dump_yaml(config))
    async with connect(load_config(kubeconfig=path, env={}), rate=0) as client:
        await create_fleet(client, plans_of(3, SHAPE, "policy=single-numa-node"))
        yield client


async def pods(client: Client) -> dict[str, Pod]:
    """Return all pods by name."""
    return {pod.metadata.name: pod for pod in (await client.list(PODS)).items}


async def until_bound(client: Client, count: int) -> dict[str, Pod]:
    """Return the pods when so many are bound and the others have been refused."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await pods(client)
            bound = [pod for pod in found.values() if pod.spec.node_name]
            others = [pod for pod in found.values() if not pod.spec.node_name]
            if len(bound) == count and all(refusal_of(pod) for pod in others):
                return found
            await asyncio.sleep(0.1)


async def running(stack: AsyncExitStack, client: Client, process: SchedulerProcess) -> None:
    """Run a scheduler until *stack* is closed."""
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop))

    async def end() -> None:
        stop.set()
        assert await task == 0

    stack.push_async_callback(end)
    await process.mirror.synced()


async def test_pods_are_aligned_refused_and_preempted(client: Client) -> None:
    """Bound as many as the zones hold; the rest is told why; the urgent one makes room."""
    async with AsyncExitStack() as stack:
        await running(stack, client, SchedulerProcess(without_election(), client))
        for number in range(14):
            await client.create(PODS.raw, pod_document(f"p{number}", "6"), namespace="default")
        found = await until_bound(client, 12)
        waiting = next(pod for pod in found.values() if not pod.spec.node_name)
        assert refusal_of(waiting).startswith("0/3 nodes are available: 3 ")
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        urgent = pod_document("urgent", "6", priorityClassName="urgent")
        await client.create(PODS.raw, urgent, namespace="default")
        await finish_victims(client)
        reasons = {event.reason for event in (await client.list(CORE_EVENTS)).items}
    assert {"Scheduled", "FailedScheduling", "Preempted"} <= reasons


async def finish_victims(client: Client) -> None:
    """Be the kubelet of pods that are told to go, until the urgent one is bound."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await pods(client)
            if found["urgent"].spec.node_name:
                return
            for name, pod in found.items():
                if pod.metadata.deletion_timestamp is not None:
                    await client.delete(PODS, name, namespace="default", grace_seconds=0)
            await asyncio.sleep(0.1)


async def test_a_leader_is_elected_and_a_gate_is_waited_for(client: Client) -> None:
    """The lease is a real one, and so is the watch that tells of the gate."""
    config = default_configuration(NAME)
    election = msgspec.structs.replace(config.leader_election, resource_namespace="kube-system")
    config = msgspec.structs.replace(config, leader_election=election)
    async with AsyncExitStack() as stack:
        process = SchedulerProcess(config, client)
        await running(stack, client, process)
        gated = pod_document("gated", schedulingGates=[{"name": "example.com/quota"}])
        await client.create(PODS.raw, gated, namespace="default")
        await client.create(PODS.raw, pod_document("free"), namespace="default")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await pods(client))["free"].spec.node_name:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert process.leading
        assert not (await pods(client))["gated"].spec.node_name
        patch = merge_patch({"spec": {"schedulingGates": []}})
        await client.patch(PODS, "gated", patch, namespace="default")
        await until_bound(client, 2)
