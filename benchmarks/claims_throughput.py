"""Pods with claims for devices bound per second, on 1,000 nodes with 8 GPUs and 8 NICs by DRA.

API server with the controller that makes claims of templates, scheduler, and the client that
creates the pods are separate processes on one machine. Nodes are objects with slices and exact
topology reports; no kubelet runs. A pod wants CPUs on one NUMA node, and a GPU and a NIC on one
PCIe root: by a claim that was there before, or by one that is made for it from a template. With a
kube-scheduler in ``KUBEBUILDER_ASSETS`` that one takes turns with ours; it knows nothing of NUMA.

Budget: 300 pods/s. A scheduler or an API server that needs more CPU for a pod than that leaves, a
core each, cannot reach it; on a busy machine this tells more than the wall clock.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.real.api_server import assets

from benchmarks._fleet import create_fleet, plans_of
from benchmarks.claims import KINDS, claim_spec, device_class, slices
from benchmarks.lab_api import cpu_seconds
from benchmarks.scheduler_throughput import (
    IN_FLIGHT,
    KUBELET,
    Observer,
    create_pods,
    kube_scheduler,
    kubeconfig_of,
    pod,
    scheduler,
    server_process,
)
from numakube.apps.host.process_life import run_fast
from numakube.kube.catalog import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.reflector import Reflector, reflecting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scheduler_throughput import Start
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document, Resource

NODES: Final = 1000
BURST: Final = 1000
STOCK_BURST: Final = 200
"""Pods for kube-scheduler, which takes many times as long for one."""
PODS_PER_SECOND: Final = 300.0
SHAPE: Final = "2 sockets, 32 cores, smt 2, 256Gi"
WAYS: Final = ("claims by name", "claims of templates")
ROUNDS: Final = 2
"""How often each scheduler has its turn, where there are two; the better turn counts."""

SERVER: Final = """
import asyncio
import structlog
from numakube.apps.host.process_life import quiet_collector
from numakube.apps.host.process_life import run_fast
from numakube.kube.client import Client
from kube_lab_server import ApiServer
from numakube_lab.controllers.all_controllers import Controllers
from numakube_lab.controllers.cluster.claim_controller import PodClaims
from numakube_lab.inprocess_transport import InProcess
async def main():
    async with ApiServer() as server:
        async with Controllers(Client(InProcess(server), rate=0), which=[PodClaims]):
            with quiet_collector():
                print(server.url, flush=True)
                await asyncio.Event().wait()
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
run_fast(main())
"""


def run() -> Iterator[dict[str, object]]:
    """Measure ours, and a stock kube-scheduler in turn with it if there is one."""
    binaries = assets()
    stock = binaries / "kube-scheduler" if binaries is not None else None
    starts: dict[str, Start] = {"": scheduler}
    if binaries is not None and stock is not None and stock.exists():
        starts["kube-scheduler"] = partial(kube_scheduler, binaries)
    for way in WAYS:
        best: dict[str, Turn] = {}
        for _ in range(ROUNDS if len(starts) > 1 else 1):
            for name, start in starts.items():
                pods = STOCK_BURST if name else BURST
                turn = measure(start, templates=way == WAYS[1], pods=pods)
                best[name] = min(best.get(name, turn), turn)
        for name, turn in best.items():
            yield from turn.figures(f"{way}, {name}" if name else way, ours=not name)
        if len(best) > 1:
            ratio = best["kube-scheduler"].wall / best[""].wall
            yield {
                "metric": f"pods bound per second, ours to kube-scheduler's, {way}",
                "value": round(ratio, 3),
            }


class Turn(NamedTuple):
    """Milliseconds that one pod took, by the clock and of the CPU of scheduler and API server."""

    wall: float
    scheduler: float
    server: float

    def figures(self, what: str, *, ours: bool) -> Iterator[dict[str, object]]:
        """Yield what one pod costs; the budget is ours."""
        yield {"metric": f"pods bound per second, {what}", "value": round(1000 / self.wall, 1)}
        parts = ("wall time per bound pod", "scheduler CPU per pod", "API server CPU per pod")
        for name, value in zip(parts, self, strict=True):
            figure = {"metric": f"{name}, {what}", "value": round(value, 2), "unit": "ms"}
            yield {**figure, "budget": round(1000 / PODS_PER_SECOND, 2)} if ours else figure


def measure(start: Start, *, templates: bool, pods: int = BURST) -> Turn:
    """Return what binding a pod took."""
    with tempfile.TemporaryDirectory() as folder, server_process(SERVER) as (url, server):
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        return run_fast(_measure(kubeconfig, start, server, templates=templates, pods=pods))


async def _measure(
    kubeconfig: Path, start: Start, server: int, *, templates: bool, pods: int
) -> Turn:
    config = load_config(kubeconfig=str(kubeconfig), context=None, env={}, root=Path("/"))
    async with connect(config, rate=0) as client:
        await _create_devices(client)
        burst = [f"burst-{number}" for number in range(pods)]
        if not templates:
            await _create_all(client, RESOURCE_CLAIMS, map(_claim, ("warm-up", *burst)))
        reflector, observer = Reflector(client, PODS), Observer()
        reflector.store.subscribe(observer)
        make = partial(_pod, templates=templates)
        async with reflecting(reflector):
            with start(kubeconfig) as process:
                await create_pods(client, observer, ("warm-up",), document=make)
                await observer.all_bound({"warm-up"})
                used = time.perf_counter(), cpu_seconds(process.pid), cpu_seconds(server)
                await create_pods(client, observer, burst, document=make)
                await observer.all_bound(set(burst))
                now = time.perf_counter(), cpu_seconds(process.pid), cpu_seconds(server)
        await _check(client, pods + 1)
        return Turn(*(1000 * (one - before) / pods for one, before in zip(now, used, strict=True)))


async def _create_devices(client: Client) -> None:
    plans = plans_of(NODES, SHAPE, KUBELET)
    await create_fleet(client, plans)
    await _create_all(client, DEVICE_CLASSES, map(device_class, KINDS))
    every = (one for plan in plans for one in slices(plan.name))
    await _create_all(client, RESOURCE_SLICES, every)
    template = {"metadata": {"name": "devices"}, "spec": {"spec": claim_spec()}}
    await client.create(RESOURCE_CLAIM_TEMPLATES, template, namespace="default")


async def _create_all(
    client: Client, resource: Resource[Any], documents: Iterator[Document]
) -> None:
    async def create() -> None:
        for document in documents:
            await client.create(resource, document)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(create())


def _claim(name: str) -> Document:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": claim_spec()}


def _pod(name: str, *, templates: bool) -> Document:
    source = {"resourceClaimTemplateName": "devices"} if templates else {"resourceClaimName": name}
    document = pod(name)
    document["spec"]["resourceClaims"] = [{"name": "devices", **source}]
    document["spec"]["containers"][0]["resources"]["claims"] = [{"name": "devices"}]
    return document


async def _check(client: Client, count: int) -> None:
    """Make sure that every claim has its devices, and no device is in two claims."""
    held: Counter[tuple[str, str, str]] = Counter()
    claims = (await client.list(RESOURCE_CLAIMS)).items
    for claim in claims:
        results = claim["status"]["allocation"]["devices"]["results"]
        assert len(results) == len(KINDS), claim
        held.update((result["driver"], result["pool"], result["device"]) for result in results)
    assert len(claims) == count, len(claims)
    assert max(held.values()) == 1, held.most_common(3)
