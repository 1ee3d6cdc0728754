"""How long a scheduler takes from its start to its first binding, on a cluster that is in use.

The lab's API server has 5,000 nodes with exact reports, 50,000 running pods that these reports
name, and one pod that waits. The time is from the start of the scheduler's process, which has no
leader to wait for, until that pod is bound. Most of the run goes into filling the server.

Budget: 10 s.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._fleet import create_fleet, plans_of
from benchmarks.lab_api import cpu_seconds
from benchmarks.scheduler_throughput import (
    KUBELET,
    NAME,
    SHAPE,
    kubeconfig_of,
    scheduler,
    server_process,
)
from kube_lab_server import ApiServer
from numakube.apps.host.process_life import run_fast
from numakube.kube.catalog import PODS
from numakube.kube.client import Client, merge_patch
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.testing import until
from numakube_lab.inprocess_transport import InProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod

NODE_COUNT: Final = 5_000
PODS_PER_NODE: Final = 10
WANTED_SECONDS: Final = 10.0
GIVE_UP_SECONDS: Final = 120.0
SERVER: Final = "from benchmarks import start_up; start_up.serve({nodes})"


def run() -> Iterator[dict[str, object]]:
    """Measure one start."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server_process(SERVER.format(nodes=NODE_COUNT)) as (url, server),
    ):
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        before, started = cpu_seconds(server), time.perf_counter()
        with scheduler(kubeconfig) as process:
            run_fast(first_bound(kubeconfig))
            wall = time.perf_counter() - started
            cpu = {"scheduler": cpu_seconds(process.pid), "server": cpu_seconds(server) - before}
    at = f"{NODE_COUNT} nodes, {NODE_COUNT * PODS_PER_NODE} pods"
    for metric, value, budget in (
        ("start to first binding", wall, {"budget": WANTED_SECONDS}),
        ("CPU of the scheduler until then", cpu["scheduler"], {}),
        ("CPU of the API server until then", cpu["server"], {}),
    ):
        yield {"metric": f"{metric}, {at}", "value": round(value, 2), "unit": "s", **budget}


async def first_bound(kubeconfig: Path) -> None:
    """Return when the pod that waits is bound."""
    config = load_config(kubeconfig=str(kubeconfig), context=None, env={}, root=Path("/"))
    async with connect(config, rate=0) as client:
        await until(
            lambda: client.get(PODS, "waiting", namespace="default"),
            lambda pod: pod.spec.node_name,
            within=GIVE_UP_SECONDS,
        )


def serve(nodes: int) -> None:
    """Serve a cluster of *nodes* nodes that is in use; print the address once it is there."""
    run_fast(_serve(nodes))


async def _serve(nodes: int) -> None:
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        plans = plans_of(nodes, SHAPE, KUBELET)
        pods = {plan.name: await _run_pods(client, plan.name) for plan in plans}
        await create_fleet(client, plans, pods)
        await _create_pod(client, "waiting", {"schedulerName": NAME})
        print(server.url, flush=True)
        await asyncio.Event().wait()


async def _run_pods(client: Client, node: str) -> list[Pod]:
    """Create the pods of *node*, which run."""
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    patch, pods = merge_patch({"status": status}), []
    for number in range(PODS_PER_NODE):
        name = f"{node}-{number}"
        await _create_pod(client, name, {"nodeName": node})
        pods.append(
            await client.patch(PODS, name, patch, namespace="default", subresource="status")
        )
    return pods


async def _create_pod(client: Client, name: str, spec: dict[str, str]) -> Pod:
    amounts = {"cpu": "2", "memory": "1Gi"}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "registry.example/app", "resources": resources}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [container], **spec},
    }
    return await client.create(PODS, document)
