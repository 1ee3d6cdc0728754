"""Gangs: how long one is planned, and how long it takes until all its pods are bound.

API server (the lab's), scheduler and the client that creates the pods are separate processes. The
gang is created once the scheduler has bound another pod, so that its start does not count. Nothing
is bound before the whole gang has a place, so the time from the creation of the last pod to the
first binding is that of the plan.

Budgets: 512 pods on 512 nodes bound within 3 s plus what the server needs; 1,000 pods on 5,000
nodes planned within 2 s.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks._fleet import create_fleet, plans_of
from benchmarks.scheduler_throughput import (
    GIVE_UP_SECONDS,
    IN_FLIGHT,
    KUBELET,
    SHAPE,
    api_server,
    kubeconfig_of,
    pod,
    scheduler,
)
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.reflector import Reflector, reflecting
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.store import Change

CASES: Final = ((512, 512, None, 3.0), (5000, 1000, 2.0, None))
"""Nodes, pods, and the seconds in which the gang is to be planned, and bound."""


def run() -> Iterator[dict[str, object]]:
    """Measure every case."""
    for nodes, pods, plan_budget, bound_budget in CASES:
        planned, bound = measure(nodes, pods)
        at = f"gang of {pods} on {nodes} nodes"
        for metric, value, budget in (
            (f"{at}, planned", planned, plan_budget),
            (f"{at}, all bound", bound, bound_budget),
        ):
            row: dict[str, object] = {"metric": metric, "value": round(value, 2), "unit": "s"}
            yield row if budget is None else {**row, "budget": budget}


def measure(nodes: int, pods: int) -> tuple[float, float]:
    """Return the seconds from the creation of the last pod to the first and the last binding."""
    with tempfile.TemporaryDirectory() as folder, api_server() as url:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        return asyncio.run(_measure(kubeconfig, nodes, pods))


async def _measure(kubeconfig: Path, nodes: int, pods: int) -> tuple[float, float]:
    config = load_config(kubeconfig=str(kubeconfig), context=None, env={}, root=Path("/"))
    bound: list[float] = []
    started, finished = asyncio.Event(), asyncio.Event()

    def on_change(change: Change[Pod]) -> None:
        if not change.object.spec.node_name:
            return
        if change.object.metadata.name == "warm-up":
            started.set()
            return
        bound.append(time.perf_counter())
        if len(bound) == pods:
            finished.set()

    async with connect(config, rate=0) as client:
        await create_fleet(client, plans_of(nodes, SHAPE, KUBELET))
        reflector = Reflector(client, PODS)
        reflector.store.subscribe(on_change)
        async with reflecting(reflector):
            with scheduler(kubeconfig):
                async with asyncio.timeout(GIVE_UP_SECONDS):
                    await client.create(PODS, pod("warm-up"), namespace="default")
                    await started.wait()
                    created = await _create(client, pods)
                    await finished.wait()
    return bound[0] - created, bound[-1] - created


async def _create(client: Client, pods: int) -> float:
    """Create the gang; return when its last pod was there."""
    numbers = iter(range(pods))

    async def create() -> None:
        for number in numbers:
            await client.create(PODS, _member(number, pods), namespace="default")

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(create())
    return time.perf_counter()


def _member(number: int, pods: int) -> dict[str, Any]:
    document = pod(f"gang-{number}")
    document["metadata"]["labels"] = {NAME_LABEL: "train", MIN_LABEL: str(pods)}
    return document
