"""The cost of a thousand exporters in one process, and how soon they report.

Every node of a lab has an exporter. Pods are created at a steady rate on one node after the other;
an update's latency is the time from the kubelet's change to the object that a watcher is sent.
The CPU time of the same lab without exporters is subtracted to tell what they cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.lab_scale import node_plan
from kube_lab_server import ApiServer
from numakube.apps.host.process_life import quiet_collector
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, PODS
from numakube.kube.client import Client
from numakube.kube.reflector import Reflector
from numakube.kube.store import Removed
from numakube_lab.exporters import ExporterPool
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from numakube.api.nrt import NodeResourceTopology
    from numakube.kube.store import Change

NODES = 1000
PODS_PER_SECOND = 50
CHURN_SECONDS = 20.0
IDLE_SECONDS = 10.0


@dataclass
class Latencies:
    """When nodes changed, and how long it took until their reports did."""

    changed: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def on_node(self, name: str) -> None:
        """Take note of a kubelet's change."""
        self.changed.setdefault(name, time.perf_counter())

    def on_report(self, change: Change[NodeResourceTopology]) -> None:
        """Take note of a report."""
        begun = self.changed.pop(change.object.metadata.name, None)
        if begun is not None and not isinstance(change, Removed):
            self.seconds.append(time.perf_counter() - begun)


def run() -> Iterator[dict[str, object]]:
    """Yield the time to the first reports, latencies and CPU shares."""
    with quiet_collector():
        without = asyncio.run(measure(exporters=False))
        found = asyncio.run(measure(exporters=True))
    scale = f"{NODES} exporters"
    busy = 100 * (found["busy"] - without["busy"])
    idle = 100 * (found["idle"] - without["idle"])
    yield _row(f"{scale}: all first reports", found["first"], "s")
    yield _row(f"{scale}: median latency at {PODS_PER_SECOND} pods/s", found["p50"], "ms", 300)
    yield _row(f"{scale}: 99th percentile of latency", found["p99"], "ms", 300)
    yield _row(f"{scale}: CPU of one core at {PODS_PER_SECOND} pods/s", busy, "%", 100)
    yield _row(f"{scale}: whole lab, CPU of one core", 100 * found["busy"], "%", 100)
    yield _row(f"{scale}: idle CPU", idle, "%", 5)


def _row(metric: str, value: float, unit: str, budget: int | None = None) -> dict[str, object]:
    row: dict[str, object] = {"metric": metric, "value": round(value, 1), "unit": unit}
    return row if budget is None else {**row, "budget": budget}


async def measure(*, exporters: bool) -> dict[str, float]:
    """Let a lab idle, then create pods; return the figures."""
    async with ApiServer() as server, contextlib.AsyncExitStack() as stack:
        client = Client(InProcess(server), rate=0)
        pool = await stack.enter_async_context(NodePool(client))
        await pool.add(*(node_plan(f"node-{number:04}") for number in range(NODES)))
        found = {"first": 0.0, "p50": 0.0, "p99": 0.0}
        latencies = Latencies()
        if exporters:
            found["first"] = await _begin(stack, client, pool, latencies)
        found["idle"] = await _cpu_seconds(asyncio.sleep(IDLE_SECONDS)) / IDLE_SECONDS
        # The nominal time: on a busy machine the same work takes longer, but no more CPU.
        found["busy"] = await _cpu_seconds(_churn(client)) / CHURN_SECONDS
        if exporters:
            found["p50"] = 1000 * statistics.median(latencies.seconds)
            found["p99"] = 1000 * statistics.quantiles(latencies.seconds, n=100)[-1]
    return found


async def _begin(
    stack: contextlib.AsyncExitStack, client: Client, pool: NodePool, latencies: Latencies
) -> float:
    """Start exporters; return the seconds until every node has its first report."""
    begun = time.perf_counter()
    await stack.enter_async_context(ExporterPool(client, pool))
    reflector: Reflector[NodeResourceTopology] = Reflector(client, NODE_RESOURCE_TOPOLOGIES)
    task = asyncio.create_task(reflector.run())
    stack.callback(task.cancel)
    news = asyncio.Event()
    stop = reflector.store.subscribe(lambda _: news.set())
    while len(reflector.store) < NODES:
        await news.wait()
        news.clear()
    stop()
    pool.observe(latencies.on_node)
    reflector.store.subscribe(latencies.on_report, replay=False)
    return time.perf_counter() - begun


async def _churn(client: Client) -> None:
    """Create pods at a steady rate, on one node after the other."""
    begun = time.perf_counter()
    for number in range(int(PODS_PER_SECOND * CHURN_SECONDS)):
        await asyncio.sleep(max(0.0, begun + number / PODS_PER_SECOND - time.perf_counter()))
        limits = {"cpu": "2", "memory": "2Gi"}
        container = {"name": "main", "image": "app:1", "resources": {"limits": limits}}
        document = {
            "metadata": {"name": f"pod-{number:05}", "namespace": "default"},
            "spec": {"nodeName": f"node-{number % NODES:04}", "containers": [container]},
        }
        await client.create(PODS, document)


async def _cpu_seconds(work: Awaitable[None]) -> float:
    """Return the CPU time that the process used while *work* lasted."""
    begun = time.process_time()
    await work
    return time.process_time() - begun
