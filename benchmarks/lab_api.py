"""Pods created over HTTP while three clients watch, against an API server in a process of its own.

The budget is 300 pods a second. On a busy machine the CPU time tells more than the wall clock.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS: Final = 1500
WATCHERS: Final = 3
IN_FLIGHT: Final = 16
BUDGET_MS: Final = 1000 / 300
PATH: Final = "/api/v1/namespaces/default/pods"

SERVER: Final = """
import asyncio
from numakube.apps.host.process_life import run_fast
from kube_lab_server import ApiServer
async def main():
    async with ApiServer() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()
run_fast(main())
"""


def run() -> Iterator[dict[str, object]]:
    """Create pods; tell what one costs."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:  # noqa: S603 - our own
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        idle = cpu_seconds(server.pid)
        seconds = asyncio.run(create_pods(url))
        used = cpu_seconds(server.pid) - idle
        server.terminate()
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield {
        "metric": "wall time per pod, three watchers",
        "value": round(1000 * seconds / PODS, 2),
        "unit": "ms",
        "budget": round(BUDGET_MS, 2),
    }
    yield {
        "metric": "server CPU per pod, three watchers",
        "value": round(1000 * used / PODS, 2),
        "unit": "ms",
        "budget": round(BUDGET_MS, 2),
    }
    yield {"metric": f"server memory with {PODS} pods", "value": round(peak_mb), "unit": "MB"}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123 - not a file
        fields = stat.read().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / 100


async def create_pods(url: str) -> float:
    """Create pods and wait until every watcher saw them all; return the seconds it took."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:
        watching = [asyncio.create_task(watch(session)) for _ in range(WATCHERS)]
        await asyncio.sleep(0.2)
        start = time.perf_counter()
        numbers = iter(range(PODS))
        await asyncio.gather(*(create(session, numbers) for _ in range(IN_FLIGHT)))
        await asyncio.gather(*watching)
        return time.perf_counter() - start


async def watch(session: aiohttp.ClientSession) -> None:
    """Read events until every pod was seen."""
    async with session.get(PATH, params={"watch": "true"}) as response:
        for _ in range(PODS):
            await response.content.readline()


async def create(session: aiohttp.ClientSession, numbers: Iterator[int]) -> None:
    """Create one pod after the other."""
    for number in numbers:
        headers = {"Content-Type": "application/json"}
        async with session.post(PATH, data=json.dumps(pod(number)), headers=headers) as response:
            assert response.status == 201, await response.text()


def pod(number: int) -> dict[str, Any]:
    """Return a guaranteed pod."""
    resources = {"cpu": "2", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "labels": {"app": "bench"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app:1",
                    "resources": {"requests": resources, "limits": resources},
                    "ports": [{"containerPort": 80}],
                }
            ]
        },
    }
