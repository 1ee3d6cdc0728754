"""Among failing requests, broken watches and dying kubelets the truth comes out at last."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from tests.apps.exporter.test_process import NODE, Host, create, is_true, until

from numakube.errors import NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import PODS
from numakube.kube.patches import merge_patch
from numakube.kubelet.machines.synthetic import from_shape
from numakube.lab.cluster import Lab, LabOptions, uniform_plans
from numakube.lab.exporters.definition import install_definition
from numakube.lab.faults import FaultKind, FaultRule
from numakube.lab.nodes.kubelet import KubeletState
from numakube.lab.rundir import RunDir

STEPS = 30


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab of one node, which knows the objects and exports nothing."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        plans = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 2"), "", "1.35")
        async with Lab(LabOptions(name="t", plans=plans), folder) as lab:
            await install_definition(lab.client)
            yield lab


class Turmoil:
    """Somebody who does this and that."""

    def __init__(self, lab: Lab, rng: Random) -> None:
        self._lab = lab
        self._rng = rng
        self._created = 0

    async def step(self) -> None:
        """Do one thing or another."""
        acts = [
            *(self.come, self.come, self.go),
            *(self.bounce_kubelet, self.fail, self.drop, self.expire, self.meddle, self.delete),
        ]
        await self._rng.choice(acts)()
        await asyncio.sleep(self._rng.random() * 0.05)

    async def come(self) -> None:
        """Create a pod."""
        self._created += 1
        await create(self._lab, f"p{self._created}", cpu=self._rng.choice(["1", "2", "500m"]))

    async def go(self) -> None:
        """Delete a pod."""
        pods = (await self._lab.client.list(PODS, namespace="default")).items
        if pods:
            name = self._rng.choice(pods).metadata.name
            await self._lab.client.delete(PODS, name, namespace="default", grace_seconds=0)

    async def bounce_kubelet(self) -> None:
        """Kill the kubelet, or start it."""
        if self._lab.pool.kubelet(NODE).state is KubeletState.STOPPED:
            await self._lab.pool.start(NODE)
        else:
            await self._lab.pool.kill(NODE)

    async def fail(self) -> None:
        """Let some requests fail."""
        code = self._rng.choice([409, 429, 500, 503])
        rule = FaultRule(kind=FaultKind.FAIL, code=code, share=0.5, times=self._rng.randrange(1, 5))
        self._lab.faults.add(rule)

    async def drop(self) -> None:
        """Break connections off."""
        self._lab.faults.add(FaultRule(kind=FaultKind.DROP, share=0.5, times=2))
        await self._lab.drop_watches()

    async def expire(self) -> None:
        """Forget the past."""
        await self._lab.expire_history()

    async def meddle(self) -> None:
        """Change the object behind the exporter's back."""
        with contextlib.suppress(NotFound):
            await self._lab.client.patch(NRTS, NODE, merge_patch({"zones": []}))

    async def delete(self) -> None:
        """Delete the object."""
        with contextlib.suppress(NotFound):
            await self._lab.client.delete(NRTS, NODE)


@pytest.mark.parametrize("seed", range(3))
async def test_in_the_end_the_object_is_true(lab: Lab, seed: int) -> None:
    """Though the exporter itself is killed and started again on the way."""
    rng = Random(seed)
    turmoil = Turmoil(lab, rng)
    for _ in range(3):
        host = Host(lab, "--sleep-interval", "1s", "--stale-after", "500ms")
        task = asyncio.create_task(host.run())
        for _ in range(STEPS // 3):
            await turmoil.step()
        # As the kernel ends a process: nothing is cleaned up, a request may be on its way.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    lab.faults.clear()
    if lab.pool.kubelet(NODE).state is KubeletState.STOPPED:
        await lab.pool.start(NODE)
    async with Host(lab, "--sleep-interval", "1s"):
        await until(lambda: is_true(lab), 30)
