"""Pods bound per second: created as fast as the server takes them, and at a steady rate.

API server, scheduler and the client that creates the pods are separate processes on one machine.
Nodes are objects with exact topology reports; no kubelet runs. With ``KUBEBUILDER_ASSETS`` set
there are more cases on a real kube-apiserver: ours, and a stock kube-scheduler if it is there.
A pod is told of by an event, which may be written after it is bound; CPU time, that of the server
too, is counted until all are written.

Budgets: 180 pods/s at 1,000 nodes, 100 pods/s at 5,000, with 1.8 and 2.5 ms of CPU a pod; 99 % of
the pods bound within 3 s of their creation at 100 pods/s; 400 MB of memory at 5,000 nodes; 2 % of a
core when there is nothing to do.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.real.api_server import RealServer, assets

from benchmarks._fleet import create_fleet, plans_of
from benchmarks.lab_api import SERVER, cpu_seconds
from numakube.api.yaml_text import dump_yaml
from numakube.apps.host.process_life import run_fast
from numakube.kube.catalog import CORE_EVENTS, PODS
from numakube.kube.client import list_request
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.reflector import Reflector, reflecting
from numakube.kube.store import Updated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document
    from numakube.kube.store import Change

SHAPE: Final = "2 sockets, 32 cores, smt 2, 256Gi, gpu 4"
KUBELET: Final = "policy=single-numa-node,scope=container"
NAME: Final = "numakube-scheduler"
Case: TypeAlias = tuple[int, int, float, float]
Start: TypeAlias = "Callable[[Path], AbstractContextManager[subprocess.Popen[bytes]]]"
CASES: Final[tuple[Case, ...]] = ((1000, 1000, 180.0, 1.8), (5000, 1000, 100.0, 2.5))
"""Nodes, pods, the pods per second that are wanted, and at most how many ms of CPU for one."""
STEADY_RATE: Final = 100.0
STEADY_PODS: Final = 1000
SLOWEST_SECONDS: Final = 3.0
MEMORY_MB: Final = 400
IDLE_SECONDS: Final = 10.0
TURNS: Final = 3
"""How often ours and a stock scheduler are measured in turn."""
_OF_BURST: Final = 5
"""Figures of a burst, which come first."""
IN_FLIGHT: Final = 32
GIVE_UP_SECONDS: Final = 180.0


def run() -> Iterator[dict[str, object]]:
    """Measure every case on the lab's API server, and on a real one if there is one."""
    for case in CASES:
        yield from measure(case)
    binaries = assets()
    if binaries is not None:
        yield from beside_stock(binaries)


def measure(case: Case) -> list[dict[str, object]]:
    """Return the figures of one size of cluster on the lab's API server."""
    with tempfile.TemporaryDirectory() as folder, server_process(SERVER) as (url, server):
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        return run_fast(_measure(kubeconfig, scheduler, (server,), case))


def beside_stock(binaries: Path) -> Iterator[dict[str, object]]:
    """Measure on a real server, in turn with a stock kube-scheduler, which knows no NUMA."""
    has_stock = (binaries / "kube-scheduler").exists()
    ratios = []
    for turn in range(TURNS if has_stock else 1):
        ours = _on_a_real_server(scheduler, "real server")
        yield from ours if turn == 0 else ours[:_OF_BURST]
        if has_stock:
            stock = _on_a_real_server(partial(kube_scheduler, binaries), "kube-scheduler")
            for figure in stock if turn == 0 else stock[:_OF_BURST]:
                # They are for comparison; the budgets are ours.
                yield {key: value for key, value in figure.items() if key != "budget"}
            ratios.append(_rate(ours) / _rate(stock))
    for case in CASES[1:]:
        yield from _on_a_real_server(scheduler, "real server", case)
    if ratios:
        yield {
            "metric": "pods bound per second, ours to kube-scheduler's, real server",
            "value": round(median(ratios), 3),
            "turns": [round(ratio, 3) for ratio in ratios],
        }


def _on_a_real_server(start: Start, on: str, case: Case = CASES[0]) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder, RealServer(Path(folder)) as server:
        kubeconfig = server.write_kubeconfig(Path(folder) / "kubeconfig")
        return run_fast(_measure(kubeconfig, start, server.pids, case, on=on))


def _rate(figures: list[dict[str, object]]) -> float:
    value = figures[0]["value"]
    assert isinstance(value, float)
    return value


@contextmanager
def api_server() -> Iterator[str]:
    """Run the lab's API server in a process of its own; give its address."""
    with server_process(SERVER) as (url, _):
        yield url


@contextmanager
def server_process(script: str) -> Iterator[tuple[str, int]]:
    """Run a *script* that serves; give the address that it prints, and its process id."""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:  # noqa: S603 - our own
        assert server.stdout is not None
        try:
            yield server.stdout.readline().decode().strip(), server.pid
        finally:
            server.terminate()


@contextmanager
def scheduler(kubeconfig: Path, address: str = "127.0.0.1:0") -> Iterator[subprocess.Popen[bytes]]:
    """Run the scheduler in a process of its own, which serves its figures at *address*."""
    program = Path(sys.executable).with_name("numakube")
    words = ["scheduler", "--no-leader-elect", "--log-level", "warning"]
    words += ["--kubeconfig", str(kubeconfig), "--bind-address", address]
    with subprocess.Popen([program, *words]) as process:  # noqa: S603 - our own
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def kube_scheduler(
    binaries: Path,
    kubeconfig: Path,
    *,
    program: str = "kube-scheduler",
    profile: Document | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a kube-scheduler for our pods, with no limit on its requests."""
    config = kubeconfig.with_name("kube-scheduler.yaml")
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "profiles": [profile or {"schedulerName": NAME}],
    }
    config.write_text(dump_yaml(document), encoding="utf-8")
    words = [str(binaries / program), f"--config={config}", "--secure-port=0"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - the user's
        try:
            yield process
        finally:
            process.terminate()


def kubeconfig_of(url: str) -> str:
    """Return a kubeconfig for a server that asks for nothing."""
    return dump_yaml(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bench",
            "clusters": [{"name": "bench", "cluster": {"server": url}}],
            "users": [{"name": "bench", "user": {}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        }
    )


class Observer:
    """Notes when pods are created and bound."""

    def __init__(self) -> None:
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.changed = asyncio.Event()

    def __call__(self, change: Change[Pod]) -> None:
        """Take a change of a pod."""
        pod = change.object
        if isinstance(change, Updated) and pod.spec.node_name:
            self.bound.setdefault(pod.metadata.name, time.perf_counter())
            self.changed.set()

    async def all_bound(self, names: set[str]) -> None:
        """Wait until all of *names* are bound."""
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while not names <= self.bound.keys():
                self.changed.clear()
                await self.changed.wait()

    def latency(self, names: set[str], quantile: float) -> float:
        """Return the seconds from creation to binding that *quantile* of the pods stay below."""
        times = sorted(self.bound[name] - self.created[name] for name in names)
        return times[min(int(len(times) * quantile), len(times) - 1)]


async def _measure(
    kubeconfig: Path, start: Start, server: tuple[int, ...], case: Case, on: str = ""
) -> list[dict[str, object]]:
    config = load_config(kubeconfig=str(kubeconfig), context=None, env={}, root=Path("/"))
    at = f"{case[0]} nodes, {on}" if on else f"{case[0]} nodes"
    async with connect(config, rate=0) as client:
        await create_fleet(client, plans_of(case[0], SHAPE, KUBELET))
        reflector, observer = Reflector(client, PODS), Observer()
        reflector.store.subscribe(observer)
        async with reflecting(reflector):
            with start(kubeconfig) as process:
                figures = await _of_burst(client, observer, (process.pid, server), case, at)
                return figures + await _of_rest(client, observer, process.pid, at)


async def _of_burst(
    client: Client, observer: Observer, pids: tuple[int, tuple[int, ...]], case: Case, at: str
) -> list[dict[str, object]]:
    """Return what becomes of pods that are created at once."""
    (_, pods, rate, cpu_ms), (scheduler, server) = case, pids
    await create_pods(client, observer, {"warm-up"})
    await observer.all_bound({"warm-up"})
    burst = {f"burst-{number}" for number in range(pods)}
    used, served, start = cpu_seconds(scheduler), sum(map(cpu_seconds, server)), time.perf_counter()
    await create_pods(client, observer, burst)
    await observer.all_bound(burst)
    seconds = time.perf_counter() - start
    await all_told(client, pods + 1)
    told = time.perf_counter() - start
    used, served = cpu_seconds(scheduler) - used, sum(map(cpu_seconds, server)) - served
    return [
        {"metric": f"pods bound per second, {at}", "value": round(pods / seconds, 1)},
        {
            "metric": f"wall time per bound pod, {at}",
            "value": round(1000 * seconds / pods, 2),
            "unit": "ms",
            "budget": round(1000 / rate, 2),
        },
        {**_each(f"scheduler CPU per pod, {at}", used, pods), "budget": cpu_ms},
        _each(f"API server CPU per pod, {at}", served, pods),
        {"metric": f"pods bound and told of per second, {at}", "value": round(pods / told, 1)},
    ]


def _each(metric: str, seconds: float, pods: int) -> dict[str, object]:
    return {"metric": metric, "value": round(1000 * seconds / pods, 2), "unit": "ms"}


async def all_told(client: Client, count: int) -> None:
    """Wait until there is an event for each pod."""
    first = list_request(CORE_EVENTS.collection_path(namespace="default"), [("limit", "1")])
    async with asyncio.timeout(GIVE_UP_SECONDS):
        while True:
            listed = json.loads((await client.request(first)).body)
            left = listed["metadata"].get("remainingItemCount", 0)
            if len(listed["items"]) + left >= count:
                return
            await asyncio.sleep(0.1)


async def _of_rest(
    client: Client, observer: Observer, pid: int, at: str
) -> list[dict[str, object]]:
    """Return how fast pods are bound that come one by one, and what it takes when none does."""
    steady = {f"steady-{number}" for number in range(STEADY_PODS)}
    await create_pods(client, observer, steady, pause=1 / STEADY_RATE)
    await observer.all_bound(steady)
    used = cpu_seconds(pid)
    await asyncio.sleep(IDLE_SECONDS)
    idle = (cpu_seconds(pid) - used) / IDLE_SECONDS
    return [
        {
            "metric": f"99 % bound within, {STEADY_RATE:.0f} pods/s, {at}",
            "value": round(observer.latency(steady, 0.99), 3),
            "unit": "s",
            "budget": SLOWEST_SECONDS,
        },
        {"metric": f"idle CPU, {at}", "value": round(100 * idle, 2), "unit": "%", "budget": 2},
        {
            "metric": f"memory, {at}",
            "value": round(memory_mb(pid)),
            "unit": "MB",
            "budget": MEMORY_MB,
        },
    ]


async def create_pods(
    client: Client,
    observer: Observer,
    names: Iterable[str],
    *,
    pause: float = 0.0,
    document: Callable[[str], Document] | None = None,
) -> None:
    """Create a pod of each name, several at once, or one in every *pause* seconds."""
    make = document or pod
    waiting = iter(sorted(names))
    if pause:
        async with asyncio.TaskGroup() as group:
            for name in waiting:
                group.create_task(_create_some(client, observer, iter((name,)), make))
                await asyncio.sleep(pause)
        return
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(_create_some(client, observer, waiting, make))


async def _create_some(
    client: Client, observer: Observer, names: Iterator[str], make: Callable[[str], Document]
) -> None:
    for name in names:
        observer.created[name] = time.perf_counter()
        await client.create(PODS, make(name), namespace="default")


def pod(name: str) -> Document:
    """Return a guaranteed pod that wants whole CPUs on one NUMA node."""
    resources = {"cpu": "4", "memory": "8Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "bench"}},
        "spec": {
            "schedulerName": NAME,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app:1",
                    "resources": {"requests": resources, "limits": resources},
                }
            ],
        },
    }


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
