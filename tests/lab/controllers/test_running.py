"""All controllers together."""

from __future__ import annotations

import asyncio
import time

from tests.lab.controllers.kit import Bench, bench, workload

from kube_lab_server import ApiServer
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.testing import turns, until
from numakube_lab.controllers.all_controllers import ALL, Controllers
from numakube_lab.controllers.object_types import DEPLOYMENTS, REPLICA_SETS
from numakube_lab.inprocess_transport import InProcess

REPORT_SECONDS = 0.2


def ready(lab: Bench, name: str, count: int) -> bool:
    """Tell whether a deployment has all its pods."""
    found = lab.mirror(DEPLOYMENTS).in_namespace("default")
    return any(
        deployment.metadata.name == name and deployment.status.ready_replicas == count
        for deployment in found
    )


async def test_a_deployment_runs_on_nodes_and_goes_without_a_trace() -> None:
    """From the deployment to scheduled pods, and back to nothing."""
    async with bench(*ALL, nodes=("a", "b"), assign="") as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=4))
        await lab.until(DEPLOYMENTS, lambda: ready(lab, "web", 4))
        assert sorted(pod.spec.node_name for pod in lab.pods.store.values()) == ["a", "a", "b", "b"]
        await lab.client.delete(DEPLOYMENTS, "web", namespace="default")
        await lab.until(PODS, lambda: not len(lab.pods.store))


async def test_controllers_can_be_stopped_and_started_again() -> None:
    """What changed meanwhile is noticed; nothing of the first run is left."""
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        controllers = Controllers(client)
        before = asyncio.all_tasks()
        await client.create(DEPLOYMENTS, workload("web", replicas=1), namespace="default")
        await _run_until(controllers, 1)
        assert asyncio.all_tasks() == before
        document = await client.get(DEPLOYMENTS.raw, "web", namespace="default")
        document["spec"]["replicas"] = 3
        await client.update(DEPLOYMENTS.raw, document)
        await _run_until(controllers, 3)
        assert asyncio.all_tasks() == before


async def _run_until(controllers: Controllers, count: int) -> None:
    """Run until there are that many pods."""
    async with controllers:
        pods = controllers.cluster.mirror(PODS)
        await until(lambda: len(pods.store), lambda found: found == count)


async def test_reports_are_few_however_many_pods_get_ready() -> None:
    """A status that changes again and again is written at intervals, and its last state always."""
    async with bench(*ALL, nodes=("a",), assign="", report_seconds=REPORT_SECONDS) as lab:
        written, begun = 0, time.monotonic()

        def note(_: object) -> None:
            nonlocal written
            written += 1

        lab.mirror(REPLICA_SETS).store.subscribe(note)
        await lab.apply(DEPLOYMENTS, workload("web", replicas=40))
        await lab.until(DEPLOYMENTS, lambda: ready(lab, "web", 40))
        assert written <= 10 + (time.monotonic() - begun) / REPORT_SECONDS


async def test_nothing_happens_when_nothing_changes() -> None:
    """Controllers at rest send no requests at all."""
    async with bench(*ALL, nodes=("a",), assign="") as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=2))
        await lab.until(DEPLOYMENTS, lambda: ready(lab, "web", 2))
        await lab.recorded()
        version = -1
        # At rest means that a while of the event loop changes nothing.
        for _ in range(50):
            version = lab.server.state.store.version
            await turns(200)
            if lab.server.state.store.version == version:
                break
        await turns(500)
        assert lab.server.state.store.version == version
