"""Pods bound by schedulers that share the nodes: one, two and four shards.

All processes, the API server included, share the cores of this machine. So besides the pods per
second that were reached there is the CPU time that the busiest shard used for each pod: with a core
for each shard, and a server that keeps up, a group cannot be faster than that. The figure to look
at is that bound, relative to one scheduler.

Budget: 2.5 times one scheduler's bound with four shards.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks._fleet import create_fleet, plans_of
from benchmarks.lab_api import cpu_seconds
from benchmarks.scheduler_throughput import (
    KUBELET,
    SHAPE,
    Observer,
    create_pods,
    kubeconfig_of,
    memory_mb,
    server_process,
)
from kube_lab_server import ApiServer
from numakube.apps.host.process_life import quiet_collector, run_fast
from numakube.apps.scheduler.shards import GROUP_LABEL, MEMBERS
from numakube.kube.catalog import LEASES, PODS
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.reflector import Reflector, reflecting
from numakube.scheduling.assembly import default_configuration
from numakube_lab.inprocess_transport import InProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES: Final = 30_000
PODS_EACH: Final = 2000
WARM_UP_PODS: Final = 200
GROUPS: Final = (1, 4)
WANTED: Final = 2.5
IDLE_SHARE: Final = 0.05
"""Of a core: a process that uses less than this has nothing to do."""


def run(nodes: int = NODES) -> Iterator[dict[str, object]]:
    """Measure groups of each size, one after the other, on the same *nodes*."""
    server = f"from benchmarks.shards import serve; serve({nodes})"
    with tempfile.TemporaryDirectory() as folder, server_process(server) as (url, _):
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of(url), encoding="utf-8")
        alone = 0.0
        for shards in GROUPS:
            rate, busiest, memory_mb = asyncio.run(_measure(kubeconfig, shards))
            alone = alone or busiest
            at = f"{shards} shard{'s' if shards > 1 else ''}, {nodes} nodes"
            yield {"metric": f"pods bound per second, {at}", "value": round(rate, 1)}
            yield {
                "metric": f"CPU of the busiest shard per pod of all, {at}",
                "value": round(1000 * busiest, 2),
                "unit": "ms",
            }
            yield {
                "metric": f"memory of the largest shard, {at}",
                "value": round(memory_mb),
                "unit": "MB",
            }
        yield {
            "metric": f"one scheduler's CPU per pod to that of the busiest of {shards} shards",
            "value": round(alone / busiest, 2),
            "wanted": WANTED,
        }


def serve(nodes: int) -> None:
    """Run the lab's API server with so many *nodes*; print its address when it has them."""
    with quiet_collector():
        run_fast(_serve(nodes))


async def _serve(nodes: int) -> None:
    async with ApiServer() as server:
        # From inside: over HTTP it would take several times as long.
        client = Client(InProcess(server), rate=0)
        await create_fleet(client, plans_of(nodes, SHAPE, KUBELET))
        print(server.url, flush=True)
        await asyncio.Event().wait()


async def _measure(kubeconfig: Path, shards: int) -> tuple[float, float, float]:
    """Return pods bound per second, CPU seconds of the busiest shard per pod, and memory in MB."""
    config = load_config(kubeconfig=str(kubeconfig), context=None, env={}, root=Path("/"))
    async with connect(config, rate=0) as client:
        reflector, observer = Reflector(client, PODS), Observer()
        reflector.store.subscribe(observer)
        with ExitStack() as stack:
            names = [str(number) for number in range(shards)]
            # Enough that each shard is asked, and has taken in its nodes by then.
            warm_up = {f"warm-up-{shards}-{number}" for number in range(WARM_UP_PODS)}
            pids = [stack.enter_context(shard(kubeconfig, name)).pid for name in names]
            async with reflecting(reflector):
                await _agreed(client, names)
                await create_pods(client, observer, warm_up)
                await observer.all_bound(warm_up)
                await _idle(pids)
                rate, busiest = await _burst(client, observer, pids)
                return rate, busiest, max(map(memory_mb, pids))


async def _burst(client: Client, observer: Observer, pids: list[int]) -> tuple[float, float]:
    pods = {f"burst-{len(pids)}-{number}" for number in range(PODS_EACH)}
    before, start = [cpu_seconds(pid) for pid in pids], time.perf_counter()
    await create_pods(client, observer, pods)
    await observer.all_bound(pods)
    seconds = time.perf_counter() - start
    used = [cpu_seconds(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
    return PODS_EACH / seconds, max(used) / PODS_EACH


async def _idle(pids: list[int]) -> None:
    """Wait until processes that have just started have nothing to catch up with any more."""
    before = float("-inf")
    while (used := sum(map(cpu_seconds, pids))) - before > IDLE_SHARE * len(pids):
        before = used
        await asyncio.sleep(1.0)


async def _agreed(client: Client, names: list[str]) -> None:
    """Wait until every shard has announced the whole group."""
    while True:
        leases = (await client.list(LEASES, labels=GROUP_LABEL)).items
        announced = [lease.metadata.annotations.get(MEMBERS) for lease in leases]
        if announced == [",".join(names)] * len(names):
            return
        await asyncio.sleep(0.2)


@contextmanager
def shard(kubeconfig: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one scheduler of the group."""
    program = Path(sys.executable).with_name("numakube")
    words = ["scheduler", "--shard", name, "--log-level", "warning"]
    words += ["--kubeconfig", str(kubeconfig), "--bind-address", "127.0.0.1:0"]
    words += ["--config", str(_patient_configuration(kubeconfig.parent))]
    with subprocess.Popen([program, *words]) as process:  # noqa: S603 - our own
        try:
            yield process
        finally:
            process.terminate()


def _patient_configuration(folder: Path) -> Path:
    """Write a configuration with leases that do not run out on a busy machine."""
    config = default_configuration()
    election = msgspec.structs.replace(
        config.leader_election, lease_duration="120s", renew_deadline="100s", retry_period="1s"
    )
    path = folder / "scheduler.yaml"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(config, leader_election=election)))
    return path
