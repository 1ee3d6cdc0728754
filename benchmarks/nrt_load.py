"""What NodeResourceTopology objects cost an API server, at 100, 1,000 and 5,000 nodes.

Every node has the report of a busy machine of 8 NUMA nodes. Six clients watch, as three schedulers,
two extenders and a dashboard do, and reports change at a steady rate, one merge patch each, as
exporters write when a pod comes or goes. The server is the lab's, in a process of its own, and
besides a real kube-apiserver with etcd where ``KUBEBUILDER_ASSETS`` says that there is one. On a
busy machine the CPU time tells more than the latencies.

``python -m benchmarks.nrt_load 30000 118`` measures other numbers of nodes and changes a second.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec
from tests.real.api_server import RealServer, assets

from benchmarks.lab_api import SERVER, cpu_seconds
from numakube.api.crds import crd
from numakube.apps.exporter.nrt_writer import difference
from numakube.kubelet.config_from_words import lab_configuration, parse_kubelet_options
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.settings_from_config import settings_of
from numakube.testing.pods import pod
from numakube.topology.model_report import nrt_of
from numakube_lab.replay.run_file import TOKENS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator

    from numakube.api.nrt import NodeResourceTopology

SIZES: Final = (100, 1000, 5000)
WATCHERS: Final = 6
RATE: Final = 50
"""Changed reports a second."""
SECONDS: Final = 10.0
SHAPE: Final = "2 sockets, 4 numa, 8 cores, smt 2, 64Gi, gpu 1"
PODS: Final = 50
KIND: Final = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IN_FLIGHT: Final = 16
IDLE_SECONDS: Final = 3.0
_ATTEMPTS: Final = 300


@dataclass(slots=True)
class Load:
    """What was measured at one size."""

    list_seconds: float = 0.0
    list_bytes: int = 0
    writes: list[float] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    memory_mb: float = 0.0
    seconds: float = 0.0
    watched_bytes: int = 0


class _Name(msgspec.Struct):
    name: str


class _Metadata(msgspec.Struct):
    metadata: _Name


class _Event(msgspec.Struct):
    object: _Metadata


def run(sizes: Iterable[int] = SIZES, rate: float = RATE) -> Iterator[dict[str, object]]:
    """Yield the figures of each size, on the lab and on a real API server."""
    for size in sizes:
        with subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-c", SERVER], stdout=subprocess.PIPE
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().decode().strip()
            found = asyncio.run(measure(url, size, (server.pid,), rate=rate))
            server.terminate()
        yield from rows("lab", size, found)
    for size in sizes if assets() else ():
        with tempfile.TemporaryDirectory() as folder, RealServer(Path(folder)) as real:
            found = asyncio.run(measure(real.url, size, real.pids, real.tls, rate=rate))
        yield from rows("kube-apiserver and etcd", size, found)


def rows(server: str, size: int, found: Load) -> Iterator[dict[str, object]]:
    """Yield one row a figure."""
    name = f"{server}, {size} nodes"
    yield _row(f"{name}: list of all reports", found.list_bytes / 2**20, "MB")
    yield _row(f"{name}: time of that list", 1000 * found.list_seconds, "ms")
    yield _row(f"{name}: median of a write", 1000 * statistics.median(found.writes), "ms")
    yield _row(f"{name}: 99th percentile of a write", _percentile(found.writes), "ms")
    arrival = f"{name}: 99th percentile until a watcher of {WATCHERS} has it"
    yield _row(arrival, _percentile(found.arrivals), "ms")
    cpu = 1000 * found.cpu_seconds / len(found.writes)
    yield _row(f"{name}: CPU time of a change, {WATCHERS} watchers", cpu, "ms")
    load = f"{name}, {len(found.writes) / found.seconds:.0f} changes a second"
    yield _row(f"{load}: CPU of the server", 100 * found.cpu_seconds / found.seconds, "% of a core")
    yield _row(
        f"{load}: to each watcher", found.watched_bytes / WATCHERS / found.seconds / 1e3, "kB/s"
    )
    yield _row(f"{name}: memory of the server", found.memory_mb, "MB")


def _row(metric: str, value: float, unit: str) -> dict[str, object]:
    return {"metric": metric, "value": round(value, 1), "unit": unit}


def _percentile(seconds: list[float]) -> float:
    return 1000 * statistics.quantiles(seconds, n=100)[-1]


def reports() -> tuple[NodeResourceTopology, NodeResourceTopology]:
    """Return the report of a busy node, and that after one more pod."""
    machine = from_shape(SHAPE)
    config = lab_configuration(machine, parse_kubelet_options(""))
    node = KubeletNode(machine, settings_of(config, machine))
    for number in range(PODS):
        node.admit(pod(f"pod-{number}"))
    before = nrt_of("node", node)
    node.admit(pod("one-more"))
    return before, nrt_of("node", node)


async def measure(
    url: str,
    size: int,
    pids: Iterable[int],
    tls: ssl.SSLContext | None = None,
    *,
    rate: float = RATE,
) -> Load:
    """Fill a server with reports, then change them while clients watch."""
    known, before, after = tuple(pids), *reports()
    headers = {"Authorization": f"Bearer {TOKENS['admin']}"} if tls else {}
    async with aiohttp.ClientSession(
        url,
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0, ssl=tls or True),
        read_bufsize=2**22,
    ) as session:
        await _fill(session, before, size)
        found = Load()
        version = await _list(session, found)
        sent: dict[str, float] = {}
        watching = [
            asyncio.create_task(_watch(session, version, sent, found)) for _ in range(WATCHERS)
        ]
        used = sum(map(cpu_seconds, known))
        await asyncio.sleep(IDLE_SECONDS)
        idle = (sum(map(cpu_seconds, known)) - used) / IDLE_SECONDS
        begun, used = time.perf_counter(), sum(map(cpu_seconds, known))
        patches = difference(before, after), difference(after, before)
        await _change(session, size, patches, sent, found.writes, rate)
        found.seconds = time.perf_counter() - begun
        found.cpu_seconds = sum(map(cpu_seconds, known)) - used - idle * found.seconds
        found.memory_mb = sum(map(_memory_mb, known))
        for task in watching:
            task.cancel()
    return found


async def _fill(session: aiohttp.ClientSession, report: NodeResourceTopology, size: int) -> None:
    async with session.post(DEFINITIONS, json=crd()) as answer:
        answer.raise_for_status()
    document = msgspec.to_builtins(report)
    numbers = iter(range(size))

    async def create() -> None:
        for number in numbers:
            metadata = {**document["metadata"], "name": f"node-{number}"}
            async with session.post(KIND, json={**document, "metadata": metadata}) as answer:
                answer.raise_for_status()

    await _served(session)
    await asyncio.gather(*(create() for _ in range(IN_FLIGHT)))


async def _served(session: aiohttp.ClientSession) -> None:
    """Wait until the new kind is served."""
    for _ in range(_ATTEMPTS):
        async with session.get(KIND) as answer:
            if answer.status != HTTPStatus.NOT_FOUND:
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{KIND} is not served")


async def _list(session: aiohttp.ClientSession, found: Load) -> str:
    begun = time.perf_counter()
    async with session.get(KIND, headers={"Accept-Encoding": "identity"}) as answer:
        body = await answer.read()
    found.list_seconds, found.list_bytes = time.perf_counter() - begun, len(body)
    version: str = msgspec.json.decode(body)["metadata"]["resourceVersion"]
    return version


async def _watch(
    session: aiohttp.ClientSession, version: str, sent: dict[str, float], found: Load
) -> None:
    """Take note of when changes arrive, for as long as it lasts."""
    decoder = msgspec.json.Decoder(_Event)
    query = {"watch": "1", "resourceVersion": version}
    async with session.get(KIND, params=query) as answer:
        while line := await answer.content.readline():
            found.watched_bytes += len(line)
            name = decoder.decode(line).object.metadata.name
            if name in sent:
                found.arrivals.append(time.perf_counter() - sent[name])


async def _change(
    session: aiohttp.ClientSession,
    size: int,
    patches: tuple[dict[str, Any], dict[str, Any]],
    sent: dict[str, float],
    writes: list[float],
    rate: float,
) -> None:
    """Change one report after the other at a steady rate, and wait for the last answers."""
    bodies = [msgspec.json.encode(patch) for patch in patches]
    begun = time.perf_counter()

    async def write(name: str, body: bytes) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        sent[name] = now = time.perf_counter()
        async with session.patch(f"{KIND}/{name}", data=body, headers=headers) as answer:
            await answer.read()
            answer.raise_for_status()
        writes.append(time.perf_counter() - now)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * SECONDS)):
            await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
            body = bodies[number // size % 2]
            tasks.create_task(write(f"node-{number % size}", body))


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s*(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    for figure in run((int(sys.argv[1]),), float(sys.argv[2])):
        print(json.dumps({"benchmark": "nrt_load", **figure}), flush=True)
