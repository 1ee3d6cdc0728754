"""Ten thousand pods that fit nowhere while others come and go: nothing grows or slows down.

Lab and scheduler are processes of their own. The churn lasts two minutes by default;
`NUMAKUBE_SOAK_SECONDS=600` makes it ten, and `--log-cli-level=info` shows the figures.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from random import Random
from statistics import median, quantiles

import aiohttp
import pytest

from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import Client, merge_patch
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.scheduling.scheduling_queue import MAX_UNSCHEDULABLE_SECONDS
from numakube.testing import pod_document, until
from numakube_lab.run_folder import RunDir

PROGRAM = Path(sys.executable).with_name("numakube")
SECONDS = float(os.environ.get("NUMAKUBE_SOAK_SECONDS", "120"))
CROWD = 10_000
NODE_COUNT = 200
LIVE = 40
RECORDER_MB = 32
"""What the flight recorder may still fill."""
HISTORY_MB = 4 * 32
"""What the histories of pods, nodes, reports and events may still fill."""
GROWTH = 1.1
SLOWEST_SECONDS = 2.0
"""Generous: pods wait for a tenth of that on an idle machine."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Running:
    """A lab and a scheduler at work.

    Attributes:
        metrics: where the scheduler serves its figures.
        waits: how long each pod that fits has waited for a node.
    """

    lab: int
    scheduler: int
    client: Client
    metrics: str
    rng: Random = field(default_factory=lambda: Random(1))
    waits: list[float] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    count: int = 0

    def memory(self) -> tuple[float, float]:
        """Return what scheduler and lab take, in megabytes."""
        return megabytes(self.scheduler), megabytes(self.lab)

    async def refusals(self) -> float:
        """Return how often the scheduler has refused a pod."""
        async with aiohttp.ClientSession() as session, session.get(self.metrics) as answer:
            lines = (await answer.text()).splitlines()
        wanted = [line for line in lines if line.startswith("scheduler_schedule_attempts_total{")]
        return sum(float(line.split()[-1]) for line in wanted if '"unschedulable"' in line)

    async def crowd(self) -> None:
        """Create the pods that fit nowhere, as an indexed Job does, and wait for their refusals."""
        for start in range(0, CROWD, 100):
            await asyncio.gather(*(self._create_huge(start + n) for n in range(100)))
        await until(self.refusals, lambda count: count >= CROWD, within=1200)

    async def _create_huge(self, number: int) -> None:
        labels = {"batch.kubernetes.io/job-completion-index": str(number)}
        name, cpus = f"huge{number}", "40" if number % 2 else "20"
        pod = pod_document(name, cpus, metadata={"name": name, "labels": labels})
        await self.client.create(PODS.raw, pod, namespace="default")

    async def churn(self, seconds: float) -> None:
        """Let pods come and go, and nodes change, for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self._come()
            if len(self.live) > LIVE:
                name = self.live.pop(self.rng.randrange(len(self.live)))
                await self.client.delete(PODS, name, namespace="default", grace_seconds=0)
            if self.count % 10 == 0:
                change = merge_patch({"metadata": {"labels": {"churn": f"v{self.count}"}}})
                await self.client.patch(NODES, f"node-{self.rng.randrange(NODE_COUNT)}", change)

    async def _come(self) -> None:
        self.count += 1
        name, cpus = f"small{self.count}", self.rng.choice("1248")
        begun = time.monotonic()
        await self.client.create(PODS.raw, pod_document(name, cpus), namespace="default")
        await until(partial(self._is_bound, name))
        self.waits.append(time.monotonic() - begun)
        self.live.append(name)

    async def _is_bound(self, name: str) -> bool:
        return bool((await self.client.get(PODS, name, namespace="default")).spec.node_name)


def megabytes(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return kilobytes / 1024


@asynccontextmanager
async def started(
    folder: Path, *words: str, ready: Callable[[], Awaitable[bool]]
) -> AsyncIterator[int]:
    """Run a command until the end of the context, which begins when it is *ready*."""
    env = {"XDG_RUNTIME_DIR": str(folder), "PATH": ""}
    process = await asyncio.create_subprocess_exec(PROGRAM, *words, env=env, stdout=DEVNULL)
    try:
        await until(ready, within=600)
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    """A lab and a scheduler, as users start them."""
    with tempfile.TemporaryDirectory(prefix="x-") as path, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        folder, address = RunDir.of("lab", {"XDG_RUNTIME_DIR": path}), taken.getsockname()
        taken.close()
        url = f"http://{address[0]}:{address[1]}"

        async def is_up() -> bool:
            return folder.info() is not None

        async def is_ready() -> bool:
            try:
                async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as got:
                    return got.status == HTTPStatus.OK
            except aiohttp.ClientError:
                return False

        lab = ("lab", "up", "--nodes", str(NODE_COUNT), "--kubelet", "policy=single-numa-node")
        scheduler = ["scheduler", "--no-leader-elect", "--log-level", "error"]
        scheduler += ["--kubeconfig", str(folder.kubeconfig), "--bind-address", url[7:]]
        async with (
            started(Path(path), *lab, ready=is_up) as lab_pid,
            started(Path(path), *scheduler, ready=is_ready) as scheduler_pid,
            connect(load_config(kubeconfig=folder.kubeconfig, env={}), rate=0) as client,
        ):
            yield Running(lab_pid, scheduler_pid, client, f"{url}/metrics")


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_ten_thousand_waiting_pods_and_churn_cost_neither_memory_nor_time() -> None:
    """A change wakes only those it may help, and leaves nothing behind."""
    async with running() as world:
        await world.churn(SECONDS / 8)
        undisturbed = median(world.waits)
        await world.crowd()
        await world.churn(SECONDS / 4)
        world.waits.clear()
        before, refused, count = world.memory(), await world.refusals(), world.count
        await world.churn(SECONDS)
        after, tried = world.memory(), await world.refusals() - refused
        slowest = quantiles(world.waits, n=100)[-1]
        figures = (
            f"{world.count - count} pods came, {tried:.0f} attempts in vain; waits: median "
            f"{undisturbed:.2f} s before the crowd, then {median(world.waits):.2f} s, 99 % within "
            f"{slowest:.2f} s; MB of scheduler and lab: {before} to {after}"
        )
        _log.info(figures)
        assert after[0] < before[0] * GROWTH + RECORDER_MB, figures
        assert after[1] < before[1] * GROWTH + HISTORY_MB, figures
        # Whatever happens, everybody is tried once in five minutes.
        assert tried < CROWD * (1.1 + SECONDS // MAX_UNSCHEDULABLE_SECONDS), figures
        assert slowest < max(SLOWEST_SECONDS, 10 * undisturbed), figures
