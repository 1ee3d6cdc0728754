"""A bad day in fast motion: everything that can go wrong does, at random, again and again.

The actions are chosen by a seeded generator, so a day can be had again; what they hit depends on
timing all the same.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from tests.apps.scheduler.invariants import Ledger
from tests.apps.scheduler.test_side_by_side import nobody_fits, random_pod

from kube_lab_server import FaultKind, FaultRule
from numakube.errors import NumakubeError
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODES
from numakube.kube.client import merge_patch
from numakube.testing import elapse
from numakube_lab.testing import LabCluster

MOST_PODS = 60
PAUSE_SECONDS = 0.15
NONSENSE = {
    "topologyPolicies": ["Whatever"],
    "zones": [
        {
            "name": "zone-of-chaos",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": "-3", "allocatable": "1e3", "available": "7"}
            ],
        }
    ],
}
FAULTS = (
    FaultRule(kind=FaultKind.FAIL, code=500, share=0.2, times=20),
    FaultRule(kind=FaultKind.FAIL, code=409, share=0.5, times=10, methods=("POST", "PATCH")),
    FaultRule(kind=FaultKind.FAIL, code=429, share=0.2, times=10),
    FaultRule(kind=FaultKind.FAIL, code=503, share=0.5, times=20, path="/binding"),
    FaultRule(kind=FaultKind.DROP, share=0.3, times=20),
    FaultRule(kind=FaultKind.DELAY, seconds=0.3, share=0.2, times=20),
)


@dataclass(slots=True)
class Turmoil:
    """What is done to a cluster.

    Attributes:
        truthful: whether reports stay true; otherwise they are deleted and falsified as well.
        deleted: uids of the pods whose deletion was on purpose.
    """

    world: LabCluster
    rng: Random
    ledger: Ledger
    truthful: bool = True
    deleted: set[str] = field(default_factory=set)
    _count: int = 0

    async def last(self, seconds: float) -> None:
        """Do things for so long."""
        actions: list[Callable[[], Awaitable[None]]] = [
            self.create,
            self.create,
            self.delete,
            self.drop_watches,
            self.expire_history,
            self.add_fault,
            self.away,
            self.freeze,
            self.restart_kubelet,
            self.cordon,
        ]
        if not self.truthful:
            actions += [self.delete_report, self.falsify_report]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(NumakubeError):
                await self.rng.choice(actions)()
            await elapse(self.rng.random() * PAUSE_SECONDS)

    async def calm(self) -> None:
        """Undo every fault, and wait until nobody waits who would fit."""
        world = self.world
        world.site.faults.clear()
        world.exporters.clear()
        for name in world.pool.kubelets:
            await world.client.patch(NODES, name, merge_patch({"spec": {"unschedulable": None}}))
        if not self.truthful:
            for name in list(world.pool.kubelets):
                await world.pool.restart(name)
        await nobody_fits(world)

    def _node(self) -> str:
        return self.rng.choice(sorted(self.world.pool.kubelets))

    async def create(self) -> None:
        """Create a few pods."""
        for _ in range(self.rng.randrange(1, 5)):
            if len(self.world.pods.store) < MOST_PODS:
                self._count += 1
                await self.world.create(random_pod(self.rng, f"p{self._count}"))

    async def delete(self) -> None:
        """Delete some."""
        pods = sorted(self.world.pods.store, key=lambda pod: pod.metadata.name)
        for pod in self.rng.sample(pods, min(3, len(pods))):
            self.deleted.add(pod.metadata.uid)
            await self.world.delete(pod.metadata.name)

    async def drop_watches(self) -> None:
        """Break off all watches."""
        await self.world.site.drop_watches()

    async def expire_history(self) -> None:
        """Make old versions unknown."""
        await self.world.site.expire_history()
        await self.world.site.drop_watches()

    async def add_fault(self) -> None:
        """Let requests fail for a while."""
        self.world.site.faults.add(self.rng.choice(FAULTS))

    async def away(self) -> None:
        """Let the server be away for a moment, as when it is restarted."""
        spell = FaultRule(kind=FaultKind.DROP, times=self.rng.randrange(1, 30))
        self.world.site.faults.add(spell)
        await self.world.site.drop_watches()

    async def freeze(self) -> None:
        """Hold an exporter up, or let one go."""
        exporters = self.world.exporters
        act = exporters.freeze if self.rng.random() < 0.5 else exporters.thaw
        act([self._node()])

    async def restart_kubelet(self) -> None:
        """Restart a kubelet."""
        await self.world.pool.restart(self._node())

    async def cordon(self) -> None:
        """Cordon a node, or uncordon one."""
        patch = merge_patch({"spec": {"unschedulable": self.rng.random() < 0.3}})
        await self.world.client.patch(NODES, self._node(), patch)

    async def delete_report(self) -> None:
        """Delete the report of a node."""
        await self.world.client.delete(NODE_RESOURCE_TOPOLOGIES, self._node())

    async def falsify_report(self) -> None:
        """Overwrite the report of a node with nonsense."""
        patch = merge_patch({**NONSENSE, "metadata": {"annotations": None}})
        await self.world.client.patch(NODE_RESOURCE_TOPOLOGIES, self._node(), patch)
