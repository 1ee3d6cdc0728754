"""One scheduler plays one row: what it bound, how fast, and what that took.

Nodes are objects, and no kubelet runs: reports stay as they were before the first pod, and each
scheduler has to remember what it has placed. Afterwards the kubelet model of every node is given
its pods in the order in which they were bound, and what it rejects is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks._fleet import create_fleet, create_node, kubelet_of, plans_of
from benchmarks.lab_api import cpu_seconds
from benchmarks.scheduler_throughput import IN_FLIGHT, Observer, all_told, create_pods
from benchmarks.scoreboard.rows import Row, plain, plain_node
from numakube.errors import NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.reflector import Reflector, reflecting
from numakube.kubelet.admission_outcome import Rejected
from numakube_lab.exporters import install_definition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from benchmarks.scoreboard.rivals import Rival
    from benchmarks.scoreboard.rows import Churn, Object
    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document

PATIENCE_SECONDS: Final = 30.0
"""So long without a binding, and no more are waited for."""
_MB: Final = 1024
_GATE: Final = "numakube.dev/never"


class Turn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of a row under a scheduler.

    Attributes:
        bound: how many of the measured pods; ``wanted`` is how many there were.
        bound_per_second: from the first creation to the last binding.
        told_per_second: until the events were written as well, where that can be told.
        median_seconds: from the creation of a pod to its binding, as ``slowest_seconds`` of 99 %.
        scheduler_milliseconds: CPU time of the scheduler for each pod that it bound.
        server_milliseconds: CPU time of API server and etcd.
        memory_mb: the most memory that the scheduler had.
        rejected: how many of the pods the kubelets would reject, where they align.
        cores: of the machine.
    """

    row: str
    rival: str = ""
    version: str = ""
    turn: int = 0
    wanted: int
    bound: int
    bound_per_second: float
    told_per_second: float | None = None
    median_seconds: float
    slowest_seconds: float
    scheduler_milliseconds: float
    server_milliseconds: float
    memory_mb: int
    rejected: int | None = None
    cores: int = 1


@dataclass(frozen=True, slots=True)
class Site:
    """Where turns are played.

    Attributes:
        kubeconfig: how to reach an API server without nodes.
        pids: the processes of the server and its store.
    """

    kubeconfig: Path
    pids: tuple[int, ...]


async def play(row: Row, rival: Rival, site: Site, *, turn: int, cores: int) -> Turn:
    """Return what *rival* makes of *row*."""
    config = load_config(kubeconfig=str(site.kubeconfig), context=None, env={}, root=Path("/"))
    async with connect(config, rate=0) as client:
        await _prepare(client, row)
        reflector, observer = Reflector(client, PODS), Observer()
        reflector.store.subscribe(observer)
        async with reflecting(reflector):
            with rival.start(site.kubeconfig) as process:
                await _warm_up(client, observer, row)
                played = await _measured(client, observer, row, (process.pid, site.pids))
            pods = list(reflector.store.values())
    return msgspec.structs.replace(
        played,
        rival=rival.name,
        version=rival.version,
        turn=turn,
        cores=cores,
        rejected=rejections(row, pods, observer.bound) if row.kubelet else None,
    )


async def _prepare(client: Client, row: Row) -> None:
    await install_definition(client)
    if row.shape:
        await create_fleet(client, plans_of(row.nodes, row.shape, row.kubelet))
    else:
        nodes = (
            plain_node(f"node-{number}", row.labels(number), 110 if number else row.most_on_first)
            for number in range(row.nodes)
        )
        await _several(client, nodes)
    for resource, document in row.beside(row):
        await client.create(resource, document)


async def _several(client: Client, nodes: Iterator[Document]) -> None:
    async def create() -> None:
        for document in nodes:
            await create_node(client, document)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(create())


async def _warm_up(client: Client, observer: Observer, row: Row) -> None:
    """Return when the scheduler runs, and all pods are bound that are to be there before."""
    await create_pods(client, observer, {"warm-up"}, document=lambda name: _named(name, plain()))
    await observer.all_bound({"warm-up"})
    gated = {f"gated-{number}" for number in range(row.gated)}
    await create_pods(client, observer, gated, document=_gated)
    first = row.first or row.pod
    names = {f"before-{number}": number for number in range(row.initial)}
    await create_pods(
        client, observer, set(names), document=lambda name: _named(name, first(names[name]))
    )
    await _settled(observer, set(names))


def _named(name: str, document: Document) -> Document:
    document["metadata"] = {**document["metadata"], "name": name, "namespace": "default"}
    return document


def _gated(name: str) -> Document:
    return _named(name, plain(schedulingGates=[{"name": _GATE}]))


async def _measured(
    client: Client, observer: Observer, row: Row, pids: tuple[int, tuple[int, ...]]
) -> Turn:
    scheduler, server = pids
    numbers = {f"measured-{number}": number for number in range(row.pods)}
    names = set(numbers)
    async with _churning(client, row.churn):
        used, served = cpu_seconds(scheduler), sum(map(cpu_seconds, server))
        start = time.perf_counter()
        await create_pods(
            client, observer, names, document=lambda name: _named(name, row.pod(numbers[name]))
        )
        bound = await _settled(observer, names)
        last = max(map(observer.bound.__getitem__, bound), default=start)
        told = None
        if row.all_told and bound == names:
            await all_told(client, row.pods + row.initial + 1)
            told = time.perf_counter() - start
        used, served = cpu_seconds(scheduler) - used, sum(map(cpu_seconds, server)) - served
    many = len(bound)
    return Turn(
        row=row.title,
        wanted=row.pods,
        bound=many,
        bound_per_second=round(many / (last - start), 1) if many else 0.0,
        told_per_second=round(many / told, 1) if told else None,
        median_seconds=round(observer.latency(bound, 0.5), 3) if many else 0.0,
        slowest_seconds=round(observer.latency(bound, 0.99), 3) if many else 0.0,
        scheduler_milliseconds=round(1000 * used / max(many, 1), 2),
        server_milliseconds=round(1000 * served / max(many, 1), 2),
        memory_mb=_most_memory_mb(scheduler),
    )


async def _settled(observer: Observer, names: set[str]) -> set[str]:
    """Return which of *names* are bound when all are, or when no more come."""
    while not names <= observer.bound.keys():
        observer.changed.clear()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await observer.changed.wait()
        except TimeoutError:
            break
    return names & observer.bound.keys()


@asynccontextmanager
async def _churning(client: Client, churn: Churn | None) -> AsyncIterator[None]:
    if churn is None:
        yield
        return
    task = asyncio.create_task(_churn(client, churn))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _churn(client: Client, churn: Churn) -> None:
    number = 0
    while True:
        objects = churn.objects(number)
        for resource, document in objects:
            await client.create(resource, document)
        await asyncio.sleep(churn.seconds)
        if churn.recreated:
            await _delete(client, objects)
        number += 1


async def _delete(client: Client, objects: tuple[Object, ...]) -> None:
    for resource, document in objects:
        meta = document["metadata"]
        with suppress(NotFound):
            await client.delete(resource, meta["name"], namespace=meta.get("namespace", ""))


def rejections(row: Row, pods: list[Pod], order: dict[str, float]) -> int:
    """Return how many of *pods* the kubelets reject, in the *order* of their binding."""
    by_node = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: order.get(pod.metadata.name, 0.0)):
        by_node[pod.spec.node_name].append(pod)
    rejected = 0
    for plan in plans_of(row.nodes, row.shape, row.kubelet):
        kubelet = kubelet_of(plan)
        for pod in by_node[plan.name]:
            rejected += isinstance(kubelet.admit(pod), Rejected)
    return rejected


def _most_memory_mb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // _MB
    raise NumakubeError(f"the kernel does not say how much memory process {pid} has had")
