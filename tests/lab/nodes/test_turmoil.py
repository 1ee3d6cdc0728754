"""Anything may happen at any time; afterwards nothing is lost and nothing is doubled."""

from __future__ import annotations

from random import Random

import pytest
from tests.lab.nodes.build import Lab

from numakube.errors import NotFound
from numakube.kube.catalog import PODS
from numakube_lab.nodes.lab_kubelet import KubeletState

NODES = ("n1", "n2")
STEPS = 60


class Turmoil:
    """Somebody who does this and that to a lab."""

    def __init__(self, lab: Lab, rng: Random) -> None:
        self._lab = lab
        self._rng = rng
        self._created = 0

    async def step(self) -> None:
        """Do one thing or another."""
        acts = [self.create, self.create, self.delete, self.kill, self.start, self.pause, self.wait]
        await self._rng.choice(acts)()

    async def create(self) -> None:
        """Create a pod of some kind."""
        self._created += 1
        script = {"run-seconds": str(self._rng.choice([5, 40]))} if self._rng.random() < 0.4 else {}
        script["termination-seconds"] = str(self._rng.choice([0, 0, 3]))
        await self._lab.create(
            f"p{self._created}",
            node=self._rng.choice(NODES),
            cpu=self._rng.choice(["1", "2", "4", "500m", "7"]),
            restart=self._rng.choice(["Always", "Never", "OnFailure"]),
            annotations=script,
        )

    async def delete(self) -> None:
        """Delete a pod, sometimes by force."""
        pods = (await self._lab.client.list(PODS)).items
        if not pods:
            return
        grace = self._rng.choice([None, None, 0, 2])
        pod = self._rng.choice(pods)
        try:
            await self._lab.client.delete(
                PODS, pod.metadata.name, namespace="default", grace_seconds=grace
            )
        except NotFound:
            return

    async def kill(self) -> None:
        """Kill a kubelet."""
        await self._lab.pool.kill(self._rng.choice(NODES))

    async def start(self) -> None:
        """Start a kubelet."""
        name = self._rng.choice(NODES)
        self._lab.pool.resume(name)
        await self._lab.pool.start(name)

    async def pause(self) -> None:
        """Pause a kubelet, or let it lag."""
        name = self._rng.choice(NODES)
        self._lab.pool.lag(name, self._rng.choice([0.0, 0.0, 2.0]))
        if self._rng.random() < 0.5:
            self._lab.pool.pause(name)

    async def wait(self) -> None:
        """Let time pass."""
        await self._lab.clock.advance(self._rng.choice([0, 1, 7]))

    async def calm_down(self) -> None:
        """Bring every node back and let everything settle."""
        for name in NODES:
            self._lab.pool.resume(name)
            await self._lab.pool.start(name)
            self._lab.pool.lag(name, 0.0)
        for _ in range(30):
            await self._lab.clock.advance(2)
            await self._lab.settle()


@pytest.mark.parametrize("seed", range(6))
async def test_kubelets_and_api_agree_in_the_end(lab: Lab, seed: int) -> None:
    """Every pod has been decided about; CPUs belong to exactly those that run."""
    turmoil = Turmoil(lab, Random(seed))
    for name in NODES:
        await lab.node(name)
    for _ in range(STEPS):
        await turmoil.step()
    await turmoil.calm_down()
    pods = (await lab.client.list(PODS)).items
    assert {pod.status.phase for pod in pods if pod.status} <= {"Running", "Succeeded", "Failed"}
    assert not [pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp]
    for name in NODES:
        running = {
            pod.metadata.uid
            for pod in pods
            if pod.spec.node_name == name and pod.status and pod.status.phase == "Running"
        }
        assert lab.pool.kubelet(name).state is KubeletState.RUNNING
        model = lab.model(name)
        assert set(model.pods) == running
        cpus = [cpu for pod in lab.pool.kubelet(name).pod_resources() for cpu in _cpus(pod)]
        assert len(cpus) == len(set(cpus))
        assert len(model.shared_cpus) == 16 - len(cpus)


def _cpus(pod: object) -> tuple[int, ...]:
    containers = getattr(pod, "containers", ())
    return tuple(cpu for container in containers for cpu in container.cpu_ids)
