"""Pods that come and go at a steady rate for long: what grows, and whether decisions slow down.

``python -m benchmarks.soak --nodes 5000 --rate 200 --minutes 30`` prints a line for each period and
then how the last quarter of the steady time differs from the first: when as many pods go as come
and, in a long run, the lab has as many events as it keeps. API server (the lab's), scheduler and
the client are processes of their own. Nodes are objects with exact reports. No kubelet runs, so
that the scheduler's reservations last as long as the pods.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import sys
import tempfile
import time
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING, Final

import aiohttp

from benchmarks.__main__ import with_ratio
from benchmarks._fleet import create_fleet, plans_of
from benchmarks.lab_api import SERVER, cpu_seconds
from benchmarks.scheduler_throughput import (
    KUBELET,
    SHAPE,
    kubeconfig_of,
    memory_mb,
    pod,
    scheduler,
    server_process,
)
from kube_lab_server.server.api_server import MOST_EVENTS
from numakube.apps.host.process_life import run_fast
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.reflector import Reflector, reflecting
from numakube.kube.store import Updated
from numakube.testing import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.store import Change

TICK_SECONDS: Final = 0.1
_TASKS: Final = re.compile(r"^numakube_tasks (\S+)$", re.MULTILINE)
GROWTH: Final = {
    "scheduler_mb": 1.1,
    "server_mb": 1.1,
    "descriptors": 1.2,
    "tasks": 1.2,
    "p99": 1.5,
}
"""How much more the last quarter may have than the first, as a multiple."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long, how much, and how often to look."""

    nodes: int = 1000
    rate: float = 100.0
    minutes: float = 1.0
    lifetime_seconds: float = 15.0
    period_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was seen at the end of a period; latencies, in seconds, are of pods bound in it."""

    seconds: float
    pods: int
    waiting: int
    p50: float
    p99: float
    scheduler_mb: float
    server_mb: float
    scheduler_cpu: float
    descriptors: int
    tasks: float


@dataclass(slots=True)
class Churn:
    """Pods that come and go.

    Attributes:
        created: when pods that are not bound yet were created.
        bound: when pods that live were bound, and their names, the oldest first.
        waits: how long those of this period have waited.
    """

    client: Client
    plan: Plan
    created: dict[str, float] = field(default_factory=dict)
    bound: deque[tuple[float, str]] = field(default_factory=deque)
    waits: list[float] = field(default_factory=list)
    count: int = 0

    def __call__(self, change: Change[Pod]) -> None:
        """Take a change of a pod."""
        name = change.object.metadata.name
        if isinstance(change, Updated) and change.object.spec.node_name and name in self.created:
            now = time.monotonic()
            self.waits.append(now - self.created.pop(name))
            self.bound.append((now, name))

    async def run(self) -> None:
        """Create and delete pods until cancelled."""
        begin = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while True:
                now = time.monotonic()
                while self.count < (now - begin) * self.plan.rate:
                    self.count += 1
                    group.create_task(self._create(f"soak-{self.count}"))
                while self.bound and self.bound[0][0] < now - self.plan.lifetime_seconds:
                    group.create_task(self._delete(self.bound.popleft()[1]))
                await asyncio.sleep(TICK_SECONDS)

    async def _create(self, name: str) -> None:
        self.created[name] = time.monotonic()
        await self.client.create(PODS, pod(name), namespace="default")

    async def _delete(self, name: str) -> None:
        await self.client.delete(PODS, name, namespace="default", grace_seconds=0)


def run() -> Iterator[dict[str, object]]:
    """Yield what grows in a minute at 1,000 nodes."""
    yield from growth(run_fast(soak(Plan())), Plan())


async def soak(plan: Plan, *, tell: bool = False) -> list[Sample]:
    """Let pods come and go; return a sample for each period, and *tell* of each at once."""
    samples: list[Sample] = []
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url, server = stack.enter_context(server_process(SERVER))
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        config = load_config(kubeconfig=str(kubeconfig), context=None, env={}, root=Path("/"))
        client = await stack.enter_async_context(connect(config, rate=0))
        await create_fleet(client, plans_of(plan.nodes, SHAPE, KUBELET))
        churn, reflector = Churn(client, plan), Reflector(client, PODS)
        reflector.store.subscribe(churn)
        await stack.enter_async_context(reflecting(reflector))
        address = _free_address()
        process = stack.enter_context(scheduler(kubeconfig, address))
        metrics = f"http://{address}/metrics"
        await until(partial(_tasks_of, metrics), despite=(aiohttp.ClientError,), within=120)
        look = partial(_look, churn, process.pid, server, metrics)
        task = asyncio.create_task(churn.run())
        begin = time.monotonic()
        while time.monotonic() - begin < 60 * plan.minutes and not task.done():
            await asyncio.sleep(plan.period_seconds)
            samples.append(await look(time.monotonic() - begin))
            if tell:
                print(json.dumps(asdict(samples[-1])), flush=True)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
    return samples


async def _look(churn: Churn, pid: int, server: int, metrics: str, seconds: float) -> Sample:
    waits, churn.waits = churn.waits, []
    steps = quantiles(waits, n=100) if len(waits) > 1 else [0.0] * 99
    return Sample(
        seconds=round(seconds, 1),
        pods=len(waits),
        waiting=len(churn.created),
        p50=round(steps[49], 4),
        p99=round(steps[98], 4),
        scheduler_mb=round(memory_mb(pid), 1),
        server_mb=round(memory_mb(server), 1),
        scheduler_cpu=round(cpu_seconds(pid), 2),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - no files
        tasks=await _tasks_of(metrics),
    )


async def _tasks_of(metrics: str) -> float:
    async with aiohttp.ClientSession() as session, session.get(metrics) as answer:
        found = _TASKS.search(await answer.text())
    assert found is not None
    return float(found[1])


def _steady_after(plan: Plan) -> float:
    """Return when as many pods go as come and, in a long run, the lab has all events it keeps."""
    filled = MOST_EVENTS / plan.rate
    return max(2 * plan.lifetime_seconds, filled if 60 * plan.minutes > 2 * filled else 0.0)


def growth(samples: list[Sample], plan: Plan) -> Iterator[dict[str, object]]:
    """Yield how the last quarter of the steady time compares with the first."""
    steady = [sample for sample in samples if sample.seconds > _steady_after(plan)]
    quarter = max(1, len(steady) // 4)
    at = f"{plan.nodes} nodes, {plan.rate:.0f} pods/s, {plan.minutes:g} minutes"
    for name, most in GROWTH.items():
        first, last = (
            mean(getattr(sample, name) for sample in part)
            for part in (steady[:quarter], steady[-quarter:])
        )
        yield {
            "metric": f"{name}, {at}, last quarter to first",
            "value": round(last / first, 3) if first else 1.0,
            "first": round(first, 4),
            "last": round(last, 4),
            "budget": most,
        }
    bound = sum(sample.pods for sample in steady)
    used = steady[-1].scheduler_cpu - steady[0].scheduler_cpu
    seconds = steady[-1].seconds - steady[0].seconds
    yield {"metric": f"pods bound per second, {at}", "value": round(bound / max(seconds, 1), 1)}
    yield {
        "metric": f"scheduler CPU per pod that came and went, {at}",
        "value": round(1000 * used / max(bound, 1), 2),
        "unit": "ms",
    }


def _free_address() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def main(words: list[str]) -> int:
    """Soak as the command line says; return 1 if something has grown too much."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    for name, value in asdict(Plan()).items():
        flag = f"--{name.removesuffix('_seconds').replace('_', '-')}"
        parser.add_argument(flag, dest=name, type=type(value), default=value)
    plan = Plan(**vars(parser.parse_args(words)))
    grown = list(growth(run_fast(soak(plan, tell=True)), plan))
    for result in grown:
        print(json.dumps({"benchmark": "soak", **result}), flush=True)
    ratios = [with_ratio(result).get("ratio") for result in grown]
    return int(any(isinstance(ratio, float) and ratio > 1 for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
