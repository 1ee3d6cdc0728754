"""What the extender costs: one answer about 5,000 nodes, and whole cycles per second.

Nodes are objects with exact topology reports. The time of an answer is from the bytes of the
request to the bytes of the reply. kube-scheduler filters with several workers, so that the names
come in another order for each pod.

Whole cycles (filter, prioritize, bind with its claim) go over HTTP, with API server, extender and
who plays kube-scheduler as processes of their own; what the extender uses of its core tells how
many it can do. Times are of the processor, since nothing here waits for anything else.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec

from benchmarks._fleet import create_fleet, plans_of
from benchmarks.lab_api import cpu_seconds
from benchmarks.scheduler_throughput import api_server, kubeconfig_of
from kube_lab_server import ApiServer
from numakube.apps.extender.extender_messages import (
    BindingArgs,
    ExtenderArgs,
    MetaVictims,
    PreemptionArgs,
    Requests,
    read,
    write,
)
from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.apps.host.http_serving import Listen
from numakube.kube.catalog import NAMESPACES, NODES, PODS
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube_lab.inprocess_transport import InProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from numakube.api.pod import Pod

SHAPE: Final = "2 sockets, 32 cores, smt 2, 256Gi, gpu 4"
KUBELET: Final = "policy=single-numa-node,scope=container"
NODE_COUNT: Final = 5_000
ANSWERS: Final = 100
CYCLE_NODES: Final = 1_000
CYCLES: Final = 600
IN_FLIGHT: Final = 16
WANTED_RATE: Final = 150


def run() -> Iterator[dict[str, object]]:
    """Yield all figures."""
    yield from asyncio.run(answers())
    yield from cycles()


async def answers() -> list[dict[str, object]]:
    """Measure filter and prioritize with all names; each pod is bound before the next comes."""
    async with extender(NODE_COUNT) as (client, process):
        names, dice = list(process.mirror.cluster.row_of), Random(2)
        requests = Requests()
        times: dict[str, list[float]] = {"filter": [], "prioritize": []}
        for index in range(ANSWERS):
            pod = await create_pod(client, index, "8" if index % 2 else "12")
            dice.shuffle(names)
            body = write(ExtenderArgs(pod=pod, node_names=tuple(names)))
            started = time.thread_time()
            result = process.verbs.filter(requests.read(body))
            encoded = requests.expect(result.node_names or ())
            answer = write(msgspec.structs.replace(result, node_names=encoded))
            times["filter"].append(time.thread_time() - started)
            kept = msgspec.json.decode(answer)
            body = write(ExtenderArgs(pod=pod, node_names=tuple(kept["NodeNames"])))
            started = time.thread_time()
            scores = process.verbs.prioritize(requests.read(body))
            write(scores)
            times["prioritize"].append(time.thread_time() - started)
            best = max(scores, key=lambda score: score.score)
            assert best.host in kept["NodeNames"]
            await bind(process, pod, best.host)
        both = [sum(pair) for pair in zip(times["filter"], times["prioritize"], strict=True)]
        victims = await preempt_seconds(client, process)
    return [
        _ms(f"filter, {NODE_COUNT} names, median", times["filter"]),
        _ms(f"prioritize, {NODE_COUNT} names, median", times["prioritize"]),
        _ms(f"filter + prioritize, {NODE_COUNT} names, median", both, budget=10),
        _ms("preempt, 100 candidates, median", victims),
    ]


async def preempt_seconds(client: Client, process: ExtenderProcess) -> list[float]:
    """Measure preempt calls."""
    cluster = process.mirror.cluster
    pod = await create_pod(client, 10**6, "8")
    used = [node for node in cluster.nodes() if node.pods][:100]
    candidates = {node.name: tuple(node.pods)[:1] for node in used}
    args = PreemptionArgs(
        pod=pod,
        node_name_to_meta_victims={
            name: msgspec.convert({"Pods": [{"UID": uid} for uid in uids]}, MetaVictims)
            for name, uids in candidates.items()
        },
    )
    body, times = write(args), []
    for _ in range(10):
        started = time.thread_time()
        write(process.verbs.preempt(read(PreemptionArgs, body)))
        times.append(time.thread_time() - started)
    return times


def cycles() -> list[dict[str, object]]:
    """Measure whole cycles."""
    with tempfile.TemporaryDirectory() as folder, api_server() as url:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        return asyncio.run(_cycles(kubeconfig))


async def _cycles(kubeconfig: Path) -> list[dict[str, object]]:
    config = load_config(kubeconfig=str(kubeconfig), context=None, env={}, root=Path("/"))
    async with connect(config, rate=0) as client:
        await create_fleet(client, plans_of(CYCLE_NODES, SHAPE, KUBELET))
        await client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        names = [node.metadata.name for node in (await client.list(NODES)).items]
        pods = [await create_pod(client, index, "8") for index in range(CYCLES)]
        with program(kubeconfig) as (pid, url):
            await ready(url)
            async with aiohttp.ClientSession(url) as session:
                await drive(session, pods[:20], names)
                idle, started = cpu_seconds(pid), time.perf_counter()
                await drive(session, pods[20:], names)
                used, seconds = cpu_seconds(pid) - idle, time.perf_counter() - started
    at, done = f"{CYCLE_NODES} names", CYCLES - 20
    return [
        {
            "metric": f"filter, prioritize and bind: CPU of the extender, {at}",
            "value": round(1000 * used / done, 2),
            "unit": "ms",
            "budget": round(1000 / WANTED_RATE, 2),
        },
        {"metric": f"whole cycles per second on a core of its own, {at}", "value": done // used},
        {
            "metric": f"whole cycles per second, all processes here, {at}",
            "value": round(done / seconds, 1),
        },
    ]


@contextmanager
def program(kubeconfig: Path) -> Iterator[tuple[int, str]]:
    """Run the extender in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["extender", "--log-level", "warning", "--bind-address", address]
    words += ["--kubeconfig", str(kubeconfig)]
    command = [str(Path(sys.executable).with_name("numakube")), *words]
    with subprocess.Popen(command) as process:  # noqa: S603 - our own
        try:
            yield process.pid, f"http://{address}"
        finally:
            process.terminate()


async def ready(url: str) -> None:
    """Return when the extender has its state; kube-scheduler's connections are its own."""
    async with aiohttp.ClientSession(url) as session:
        while True:
            with suppress(aiohttp.ClientConnectionError):
                async with session.get("/readyz") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.2)


async def drive(session: aiohttp.ClientSession, pods: list[Pod], names: list[str]) -> None:
    """Schedule *pods* as kube-scheduler does, with bindings in the background."""
    slots, dice = asyncio.Semaphore(IN_FLIGHT), Random(1)

    async def call(verb: str, body: bytes) -> Any:  # noqa: ANN401 - a JSON document
        async with session.post(f"/{verb}", data=body) as response:
            assert response.status == 200, await response.text()
            return msgspec.json.decode(await response.read())

    async def finish(pod: Pod, node: str) -> None:
        async with slots:
            error = (await call("bind", write(_binding(pod, node))))["Error"]
            assert not error, error

    async with asyncio.TaskGroup() as bindings:
        names = list(names)
        for pod in pods:
            dice.shuffle(names)
            body = write(ExtenderArgs(pod=pod, node_names=tuple(names)))
            kept = (await call("filter", body))["NodeNames"]
            body = write(ExtenderArgs(pod=pod, node_names=tuple(kept)))
            scores = await call("prioritize", body)
            top = max(score["Score"] for score in scores)
            best = dice.choice([score["Host"] for score in scores if score["Score"] == top])
            bindings.create_task(finish(pod, best))


@asynccontextmanager
async def extender(nodes: int) -> AsyncIterator[tuple[Client, ExtenderProcess]]:
    """Run an API server with *nodes* nodes, and an extender that has seen them."""
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        await create_fleet(client, plans_of(nodes, SHAPE, KUBELET))
        await client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        process = ExtenderProcess(ExtenderOptions.default(), Client(InProcess(server), rate=0))
        stop = asyncio.Event()
        running = asyncio.create_task(process.run(stop, Listen()))
        await process.serving.wait()
        await process.mirror.synced()
        yield client, process
        stop.set()
        await running


async def create_pod(client: Client, index: int, cpu: str) -> Pod:
    """Create a guaranteed pod."""
    amounts = {"cpu": cpu, "memory": "8Gi"}
    container = {
        "name": "main",
        "image": "registry.example/app",
        "resources": {"requests": amounts, "limits": amounts},
    }
    document = {
        "metadata": {"name": f"pod-{index}", "namespace": "default"},
        "spec": {"schedulerName": "kube", "containers": [container]},
    }
    return await client.create(PODS, document)


async def bind(process: ExtenderProcess, pod: Pod, node: str) -> None:
    """Bind, as the next pod's calls come after it."""
    result = await process.verbs.bind(_binding(pod, node))
    assert not result.error, result.error


def _binding(pod: Pod, node: str) -> BindingArgs:
    meta = pod.metadata
    return BindingArgs(
        pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node
    )


def _ms(metric: str, seconds: list[float], *, budget: float = 0) -> dict[str, object]:
    result = {"metric": metric, "value": round(statistics.median(seconds) * 1e3, 3), "unit": "ms"}
    return {**result, "budget": budget} if budget else result
