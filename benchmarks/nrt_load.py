"""What NodeResourceTopology objects cost an API server, at 100, 1,000 and 5,000 nodes.

Every node has the report of a busy machine of 8 NUMA nodes. Six clients watch, as three schedulers,
two extenders and a dashboard do, and reports change at a steady rate, as exporters write when a pod
comes or goes: first whole ones, one merge patch each, then updates that have only what pods change,
as with ``--max-silence``. The server is the lab's, in a process of its own, and besides a real
kube-apiserver with etcd where ``KUBEBUILDER_ASSETS`` says that there is one. On a busy machine the
CPU time tells more than the latencies.

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
from numakube.api import nrt_update
from numakube.api.crds import UPDATE_CRD, crd
from numakube.api.meta import Named
from numakube.apps.exporter.nrt_writer import difference
from numakube.kubelet.config_from_words import lab_configuration, parse_kubelet_options
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of
from numakube.testing.pods import pod
from numakube.topology import nrt_names
from numakube.topology.exact_report import Heartbeat
from numakube.topology.model_report import nrt_of
from numakube.topology.report_update import update_of
from numakube_lab.replay.run_case import TOKENS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator

    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.nrt_update import NodeResourceTopologyUpdate

SIZES: Final = (100, 1000, 5000)
WATCHERS: Final = 6
RATE: Final = 50
"""Changed reports a second."""
SECONDS: Final = 10.0
SHAPE: Final = "2 sockets, 4 numa, 8 cores, smt 2, 64Gi, gpu 1"
PODS: Final = 50
REPORTS: Final = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
UPDATES: Final = f"/apis/{nrt_update.GROUP}/{nrt_update.VERSION}/{nrt_update.PLURAL}"
TIMES: Final = ("2026-11-17T10:00:00.000000Z", "2026-11-17T10:05:00.000000Z")
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

    @property
    def change_seconds(self) -> float:
        """CPU time of the server for one change."""
        return self.cpu_seconds / len(self.writes)


class _Name(msgspec.Struct):
    name: str


class _Metadata(msgspec.Struct):
    metadata: _Name


class _Event(msgspec.Struct):
    object: _Metadata


_VERSION: Final = msgspec.json.Decoder(Named)


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
        yield from rows("lab", size, *found)
    for size in sizes if assets() else ():
        with tempfile.TemporaryDirectory() as folder, RealServer(Path(folder)) as real:
            found = asyncio.run(measure(real.url, size, real.pids, real.tls, rate=rate))
        yield from rows("kube-apiserver and etcd", size, *found)


def rows(server: str, size: int, whole: Load, updates: Load) -> Iterator[dict[str, object]]:
    """Yield one row a figure."""
    yield from _rows(f"{server}, {size} nodes", whole)
    yield from _rows(f"{server}, {size} nodes, updates", updates)
    name = f"{server}, {size} nodes: an update against a whole report"
    yield _row(f"{name}, CPU time", updates.change_seconds / whole.change_seconds, "ratio")
    sent = updates.watched_bytes / len(updates.arrivals)
    yield _row(f"{name}, bytes", sent * len(whole.arrivals) / whole.watched_bytes, "ratio")


def _rows(name: str, found: Load) -> Iterator[dict[str, object]]:
    yield _row(f"{name}: list of all", found.list_bytes / 2**20, "MB")
    yield _row(f"{name}: time of that list", 1000 * found.list_seconds, "ms")
    yield _row(f"{name}: median of a write", 1000 * statistics.median(found.writes), "ms")
    yield _row(f"{name}: 99th percentile of a write", _percentile(found.writes), "ms")
    arrival = f"{name}: 99th percentile until a watcher of {WATCHERS} has it"
    yield _row(arrival, _percentile(found.arrivals), "ms")
    cpu = 1000 * found.change_seconds
    yield _row(f"{name}: CPU time of a change, {WATCHERS} watchers", cpu, "ms")
    load = f"{name}, {len(found.writes) / found.seconds:.0f} changes a second"
    yield _row(f"{load}: CPU of the server", 100 * found.cpu_seconds / found.seconds, "% of a core")
    yield _row(
        f"{load}: to each watcher", found.watched_bytes / WATCHERS / found.seconds / 1e3, "kB/s"
    )
    yield _row(f"{name}: memory of the server", found.memory_mb, "MB")


def _row(metric: str, value: float, unit: str) -> dict[str, object]:
    return {"metric": metric, "value": round(value, 2 if unit == "ratio" else 1), "unit": unit}


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
) -> tuple[Load, Load]:
    """Fill a server with reports, then change them, and their updates, while clients watch."""
    before, after = reports()
    headers = {"Authorization": f"Bearer {TOKENS['admin']}"} if tls else {}
    async with aiohttp.ClientSession(
        url,
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0, ssl=tls or True),
        read_bufsize=2**22,
    ) as session:
        server = _Server(session, tuple(pids), size, rate)
        await server.fill(REPORTS, crd(), before)
        patches = difference(before, after), difference(after, before)
        whole = await server.load(
            REPORTS, [_Patch(msgspec.json.encode(patch)) for patch in patches]
        )
        one, other = updates(before, after)
        versions = await server.fill(UPDATES, crd(UPDATE_CRD), one)
        return whole, await server.load(
            UPDATES, [_Replacement(msgspec.to_builtins(each), versions) for each in (other, one)]
        )


def updates(
    before: NodeResourceTopology, after: NodeResourceTopology
) -> tuple[NodeResourceTopologyUpdate, NodeResourceTopologyUpdate]:
    """Return what an exporter writes that has reported *before* in whole."""
    promise = {nrt_names.SURPRISES_ANNOTATION: str(Heartbeat(300.0, TIMES[0]))}
    annotations = {**before.metadata.annotations, **promise}
    metadata = msgspec.structs.replace(before.metadata, annotations=annotations)
    report = msgspec.structs.replace(before, metadata=metadata)
    same, more = (update_of(report, now, time=TIMES[1]) for now in (before, after))
    assert same is not None
    assert more is not None
    return same, more


@dataclass(frozen=True, slots=True)
class _Patch:
    """Changes an object as exporters change a report."""

    body: bytes

    async def send(self, session: aiohttp.ClientSession, kind: str, name: str) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        async with session.patch(f"{kind}/{name}", data=self.body, headers=headers) as answer:
            await answer.read()
            answer.raise_for_status()


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Replaces an object as exporters replace an update; versions are those of the last answers."""

    document: dict[str, Any]
    versions: dict[str, str]

    async def send(self, session: aiohttp.ClientSession, kind: str, name: str) -> None:
        metadata = {"name": name, "resourceVersion": self.versions[name]}
        document = {**self.document, "metadata": metadata}
        async with session.put(f"{kind}/{name}", json=document) as answer:
            body = await answer.read()
            answer.raise_for_status()
        self.versions[name] = _VERSION.decode(body).metadata.resource_version


@dataclass(frozen=True, slots=True)
class _Server:
    """The server that is measured."""

    session: aiohttp.ClientSession
    pids: tuple[int, ...]
    size: int
    rate: float

    async def fill(self, kind: str, definition: Any, one: msgspec.Struct) -> dict[str, str]:  # noqa: ANN401 - JSON
        """Create an object like *one* for each node; return their versions."""
        async with self.session.post(DEFINITIONS, json=definition) as answer:
            answer.raise_for_status()
        document = msgspec.to_builtins(one)
        numbers, versions = iter(range(self.size)), dict[str, str]()

        async def create() -> None:
            for number in numbers:
                name = f"node-{number}"
                metadata = {**document["metadata"], "name": name}
                body = {**document, "metadata": metadata}
                async with self.session.post(kind, json=body) as answer:
                    answer.raise_for_status()
                    version = _VERSION.decode(await answer.read()).metadata.resource_version
                    versions[name] = version

        await _served(self.session, kind)
        await asyncio.gather(*(create() for _ in range(IN_FLIGHT)))
        return versions

    async def load(self, kind: str, changes: list[_Patch] | list[_Replacement]) -> Load:
        """Change objects while clients watch."""
        found, sent = Load(), dict[str, float]()
        version = await _list(self.session, kind, found)
        watching = [
            asyncio.create_task(_watch(self.session, kind, version, sent, found))
            for _ in range(WATCHERS)
        ]
        used = self._used()
        await asyncio.sleep(IDLE_SECONDS)
        idle = (self._used() - used) / IDLE_SECONDS
        begun, used = time.perf_counter(), self._used()
        await self._change(kind, changes, sent, found.writes)
        found.seconds = time.perf_counter() - begun
        found.cpu_seconds = self._used() - used - idle * found.seconds
        found.memory_mb = sum(map(_memory_mb, self.pids))
        for task in watching:
            task.cancel()
        return found

    def _used(self) -> float:
        return sum(map(cpu_seconds, self.pids))

    async def _change(
        self,
        kind: str,
        changes: list[_Patch] | list[_Replacement],
        sent: dict[str, float],
        writes: list[float],
    ) -> None:
        """Change one object after the other at a steady rate, and wait for the last answers."""
        begun = time.perf_counter()

        async def write(name: str, change: _Patch | _Replacement) -> None:
            sent[name] = now = time.perf_counter()
            await change.send(self.session, kind, name)
            writes.append(time.perf_counter() - now)

        async with asyncio.TaskGroup() as tasks:
            for number in range(int(self.rate * SECONDS)):
                due = begun + number / self.rate - time.perf_counter()
                await asyncio.sleep(max(0.0, due))
                change = changes[number // self.size % 2]
                tasks.create_task(write(f"node-{number % self.size}", change))


async def _served(session: aiohttp.ClientSession, kind: str) -> None:
    """Wait until the new kind is served."""
    for _ in range(_ATTEMPTS):
        async with session.get(kind) as answer:
            if answer.status != HTTPStatus.NOT_FOUND:
                return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{kind} is not served")


async def _list(session: aiohttp.ClientSession, kind: str, found: Load) -> str:
    begun = time.perf_counter()
    async with session.get(kind, headers={"Accept-Encoding": "identity"}) as answer:
        body = await answer.read()
    found.list_seconds, found.list_bytes = time.perf_counter() - begun, len(body)
    version: str = msgspec.json.decode(body)["metadata"]["resourceVersion"]
    return version


async def _watch(
    session: aiohttp.ClientSession, kind: str, version: str, sent: dict[str, float], found: Load
) -> None:
    """Take note of when changes arrive, for as long as it lasts."""
    decoder = msgspec.json.Decoder(_Event)
    query = {"watch": "1", "resourceVersion": version}
    async with session.get(kind, params=query) as answer:
        while line := await answer.content.readline():
            found.watched_bytes += len(line)
            name = decoder.decode(line).object.metadata.name
            if name in sent:
                found.arrivals.append(time.perf_counter() - sent[name])


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s*(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    for figure in run((int(sys.argv[1]),), float(sys.argv[2])):
        print(json.dumps({"benchmark": "nrt_load", **figure}), flush=True)
