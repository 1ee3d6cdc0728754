"""The cost of a large lab: a thousand nodes and ten thousand pods in one process.

Pods are created bound, over the same in-process transport that controllers and kubelets use, and
each goes through admission by the exact model.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from typing import TYPE_CHECKING

from kube_lab_server import ApiServer
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.apps.host.process_life import quiet_collector
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kubelet.machines.shape_text import from_shape
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.nodes.node_pool import NodePool

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = 1000
PODS_PER_NODE = 10
IDLE_SECONDS = 20.0
SHAPE = "2 sockets, 32 cores, smt 2, 256Gi"


def run() -> Iterator[dict[str, object]]:
    """Yield time to ready, memory and idle load."""
    with quiet_collector():
        found = asyncio.run(measure(NODES, PODS_PER_NODE))
    scale = f"{NODES} nodes, {NODES * PODS_PER_NODE} pods"
    budgets = {"s": 60, "MB": 2000, "%": 5}
    for metric, value, unit in found:
        budget = budgets[unit] if "ready" in metric or unit != "s" else None
        row: dict[str, object] = {"metric": f"{scale}: {metric}", "value": value, "unit": unit}
        yield row if budget is None else {**row, "budget": budget}


async def measure(nodes: int, pods_per_node: int) -> list[tuple[str, float, str]]:
    """Build a lab, wait until all pods run, and let it idle."""
    start, cpu_before = time.perf_counter(), time.process_time()
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        async with NodePool(client) as pool:
            await pool.add(*(node_plan(f"node-{number:04}") for number in range(nodes)))
            registered = time.perf_counter()
            await create_pods(client, nodes, pods_per_node)
            created = time.perf_counter()
            await all_running(pool, nodes * pods_per_node)
            ready, busy = time.perf_counter(), time.process_time() - cpu_before
            cpu, began = time.process_time(), time.perf_counter()
            await asyncio.sleep(IDLE_SECONDS)
            idle = (time.process_time() - cpu) / (time.perf_counter() - began)
    return [
        ("nodes registered", round(registered - start, 1), "s"),
        ("pods created", round(created - registered, 1), "s"),
        ("all ready", round(ready - start, 1), "s"),
        ("CPU time until all ready", round(busy, 1), "s"),
        ("resident memory", round(resident_mb()), "MB"),
        ("idle CPU", round(100 * idle, 1), "%"),
    ]


def node_plan(name: str) -> NodePlan:
    """Return a node of 128 CPUs with all managers static."""
    return NodePlan(name=name, machine=_MACHINE, config=_CONFIG)


async def create_pods(client: Client, nodes: int, pods_per_node: int) -> None:
    """Create guaranteed pods of one to four CPUs, node by node."""
    for number in range(nodes * pods_per_node):
        node = number % nodes
        limits = {"cpu": str(1 + number % 4), "memory": "2Gi"}
        container = {"name": "main", "image": "app:1", "resources": {"limits": limits}}
        document = {
            "metadata": {"name": f"pod-{number:05}", "namespace": "default"},
            "spec": {"nodeName": f"node-{node:04}", "containers": [container]},
        }
        await client.create(PODS, document)


async def all_running(pool: NodePool, count: int) -> None:
    """Return when *count* pods run."""
    changed = asyncio.Event()
    unsubscribe = pool.pods.subscribe(lambda _: changed.set(), replay=False)
    while sum(_is_running(pod.status) for pod in pool.pods.values()) < count:
        await changed.wait()
        changed.clear()
        await asyncio.sleep(0.05)  # counting ten thousand pods after each change would cost more
    unsubscribe()


def _is_running(status: object) -> bool:
    return getattr(status, "phase", "") == "Running"


def resident_mb() -> float:
    """Return the largest amount of memory that the process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


_MACHINE = from_shape(SHAPE)
_CONFIG = KubeletConfiguration(
    cpu_manager_policy="static",
    topology_manager_policy="single-numa-node",
    reserved_system_cpus="0,64",
)
