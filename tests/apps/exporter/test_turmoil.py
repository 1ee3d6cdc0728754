"""Among failing requests, broken watches and dying kubelets the truth comes out at last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.apps.exporter.test_process import NODE, Host, create, is_true

from kube_lab_server import FaultKind, FaultRule
from numakube.errors import NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import PODS
from numakube.kube.client import merge_patch
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import elapse, until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.nodes.lab_kubelet import KubeletState
from numakube_lab.testing import Opener, Site, SiteOptions

STEPS = 30


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of one node, which knows the objects and exports nothing."""
    plans = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 2"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False)) as site:
        await site.crew.pool.folder(NODE)
        yield site


class Turmoil:
    """Somebody who does this and that."""

    def __init__(self, site: Site, rng: Random) -> None:
        self._site = site
        self._rng = rng
        self._created = 0

    async def step(self) -> None:
        """Do one thing or another."""
        acts = [
            *(self.come, self.come, self.go),
            *(self.bounce_kubelet, self.fail, self.drop, self.expire, self.meddle, self.delete),
        ]
        await self._rng.choice(acts)()
        await elapse(self._rng.random() * 0.05)

    async def come(self) -> None:
        """Create a pod."""
        self._created += 1
        await create(self._site, f"p{self._created}", cpu=self._rng.choice(["1", "2", "500m"]))

    async def go(self) -> None:
        """Delete a pod."""
        pods = (await self._site.client.list(PODS, namespace="default")).items
        if pods:
            name = self._rng.choice(pods).metadata.name
            await self._site.client.delete(PODS, name, namespace="default", grace_seconds=0)

    async def bounce_kubelet(self) -> None:
        """Kill the kubelet, or start it."""
        if self._site.crew.pool.kubelet(NODE).state is KubeletState.STOPPED:
            await self._site.crew.pool.start(NODE)
        else:
            await self._site.crew.pool.kill(NODE)

    async def fail(self) -> None:
        """Let some requests fail."""
        code = self._rng.choice([409, 429, 500, 503])
        rule = FaultRule(kind=FaultKind.FAIL, code=code, share=0.5, times=self._rng.randrange(1, 5))
        self._site.faults.add(rule)

    async def drop(self) -> None:
        """Break connections off."""
        self._site.faults.add(FaultRule(kind=FaultKind.DROP, share=0.5, times=2))
        await self._site.drop_watches()

    async def expire(self) -> None:
        """Forget the past."""
        await self._site.expire_history()

    async def meddle(self) -> None:
        """Change the object behind the exporter's back."""
        with contextlib.suppress(NotFound):
            await self._site.client.patch(NRTS, NODE, merge_patch({"zones": []}))

    async def delete(self) -> None:
        """Delete the object."""
        with contextlib.suppress(NotFound):
            await self._site.client.delete(NRTS, NODE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(3))
async def test_in_the_end_the_object_is_true(site: Site, seed: int) -> None:
    """Though the exporter itself is killed and started again on the way."""
    rng = Random(seed)
    turmoil = Turmoil(site, rng)
    for _ in range(3):
        host = Host(site, "--sleep-interval", "1s", "--stale-after", "500ms")
        task = asyncio.create_task(host.run())
        for _ in range(STEPS // 3):
            await turmoil.step()
        # As the kernel ends a process: nothing is cleaned up, a request may be on its way.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    site.faults.clear()
    if site.crew.pool.kubelet(NODE).state is KubeletState.STOPPED:
        await site.crew.pool.start(NODE)
    async with Host(site, "--sleep-interval", "1s"):
        await until(lambda: is_true(site))
