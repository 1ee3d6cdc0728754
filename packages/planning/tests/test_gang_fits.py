"""Whether a gang would fit is answered as the scheduler then acts."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.apps.scheduler.gang_trials import RACK, GangTrial, gang_trial
from tests.apps.scheduler.served import served

from numakube.kube.catalog import PODS
from numakube.scheduling.plugins.pod_gangs import (
    MIN_LABEL,
    NAME_LABEL,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
)
from numakube.testing import pod_document

RUNS = int(os.environ.get("FIT_RUNS", "2"))
"""Clusters; each answers several questions."""
QUESTIONS = 6


@dataclass
class Asking:
    """Gangs that come to a cluster, some of them in several parts."""

    trial: GangTrial
    rng: Random
    gangs: list[dict[str, Any]] = field(default_factory=list)
    pods: int = 0

    async def next_gang(self) -> None:
        """Ask about the pods of a gang, let them come, and compare."""
        await self._free_some()
        pods = self._members()
        answer = await self._ask({"pods": pods, "gang": True})
        foreseen = {
            placement["pod"].split("/")[1]: placement["node"] for placement in answer["placements"]
        }
        await self._create(pods)
        names = {pod["metadata"]["name"]: _cpu(pod) for pod in pods}
        nodes = {pod.metadata.name: pod.spec.node_name for pod in self.trial.pods}
        seen = Counter((cpu, nodes[name]) for name, cpu in names.items() if nodes[name])
        assert seen == Counter((names[name], node) for name, node in foreseen.items())

    def _members(self) -> list[dict[str, Any]]:
        """Return pods of a new gang, or more of one that exists; they are not alike."""
        rng = self.rng
        if not self.gangs or rng.random() < 0.6:
            wish = rng.choice((None, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY))
            labels = {NAME_LABEL: f"g{len(self.gangs)}", MIN_LABEL: str(rng.randint(1, 5))}
            metadata = {"labels": labels, "annotations": {wish: RACK} if wish else {}}
            self.gangs.append(metadata)
        metadata = rng.choice(self.gangs[-2:])
        return [self._pod(metadata) for _ in range(rng.randint(1, 5))]

    def _pod(self, metadata: dict[str, Any]) -> dict[str, Any]:
        self.pods += 1
        return pod_document(f"p{self.pods}", self.rng.choice("1234"), metadata=dict(metadata))

    async def _free_some(self) -> None:
        """Let some pods go, and everything come to rest."""
        running = [pod for pod in self.trial.pods if pod.spec.node_name]
        for pod in self.rng.sample(running, min(len(running), self.rng.randint(0, 4))):
            await self.trial.delete(pod, gently=False)
        for _ in range(4):
            await self.trial.kubelets_act()
            await self.trial.pass_time(1)

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        async with (
            served(self.trial) as url,
            aiohttp.ClientSession(url) as session,
            session.post("/v1/fit", json=question) as response,
        ):
            assert response.status == 200, await response.text()
            answer: dict[str, Any] = await response.json()
            return answer

    async def _create(self, pods: list[dict[str, Any]]) -> None:
        """Let pods come at once, in any order."""
        await self.trial.kill()
        for document in self.rng.sample(pods, len(pods)):
            await self.trial.client.create(PODS.raw, document, namespace="default")
        await self.trial.start()
        await self.trial.settle()


def _cpu(document: dict[str, Any]) -> str:
    return str(document["spec"]["containers"][0]["resources"]["limits"]["cpu"])


async def ask_and_see(number: int) -> None:
    """Ask about gangs on one cluster."""
    rng = Random(number)
    async with gang_trial(4, rng) as trial:
        asking = Asking(trial, rng)
        for _ in range(QUESTIONS):
            await asking.next_gang()


@seed(24)
@settings(max_examples=RUNS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(number=st.integers(0, 1 << 32))
def test_what_fits_is_what_the_scheduler_places(number: int) -> None:
    """Members of any size, beside others that run or wait; the same nodes, or none."""
    asyncio.run(ask_and_see(number))
