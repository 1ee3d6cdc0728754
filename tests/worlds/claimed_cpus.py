"""Drivers on the nodes of a lab that give CPUs to claims, and what they have given.

Ledger, choice, slices and control groups are the real ones, as tasks of this process. The kubelets
of the lab call a driver without sockets. One that is killed leaves its files to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from numakube.apps.host.process_life import Surroundings, new_registry
from numakube.errors import AlreadyExists, NumakubeError
from numakube.kube.catalog import DEVICE_CLASSES
from numakube.kube.client import Client
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.confinement import ClaimConfinement
from numakube_dra_driver.device_classes import class_documents
from numakube_dra_driver.devices import CPU_CAPACITY, DRIVER
from numakube_dra_driver.identity import OWN
from numakube_dra_driver.ledger import Ledger, PreparedClaim
from numakube_dra_driver.metrics import DraMetrics
from numakube_dra_driver.named_driver import Folders, NamedDriver, Shared
from numakube_dra_driver.offer import Offer, OfferOptions, make_offer
from numakube_dra_driver.settings import DraSettings
from numakube_lab.nodes.dra_plugins import CalledDriver, DraDrivers
from numakube_lab.nodes.node_pool import NodePool

CLASS: Final = "numa-cpus"
_PUBLISH_SECONDS: Final = 30.0


class CalledDirectly(DraDrivers):
    """The drivers of a node, called without sockets.

    Attributes:
        running: the one of ours, while it runs.
    """

    def __init__(self, client: Client, node: str) -> None:
        super().__init__(client, node)
        self.running: NamedDriver | None = None

    def newest(self, driver: str) -> CalledDriver | None:
        """Return ours if it is asked for."""
        return self.running if driver == DRIVER else None


def claim_of(cpus: str) -> dict[str, Any]:
    """Return a claim of so many CPUs of one NUMA node."""
    capacity = {"requests": {CPU_CAPACITY: cpus}}
    exactly = {"deviceClassName": CLASS, "capacity": capacity}
    return {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}


@dataclass(slots=True)
class RunningDriver:
    """A driver at work, and what ends it."""

    ledger: Ledger
    offer: Offer
    confinement: ClaimConfinement
    driver: NamedDriver
    news: asyncio.Event
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @classmethod
    async def start(cls, name: str, pool: NodePool, client: Client) -> RunningDriver:
        """Start one on a node that is there."""
        folder, plan = await pool.folder(name), pool.kubelet(name).plan
        cgroups = pool.kubelet(name).cgroups
        assert cgroups is not None
        assert cgroups.tree is not None  # They are made when they are asked for.
        offer = make_offer(
            plan.machine,
            plan.config,
            OfferOptions(sysfs=folder / "sys", kubelet_config=folder / "config.yaml"),
        )
        settings = DraSettings(
            node_name=name,
            nri="off",
            cgroup_root=str(folder / "sys/fs/cgroup"),
            sysfs=str(folder / "sys"),
            kubelet_dir=str(folder),
            state_dir=str(folder / "dra"),
        )
        around = Surroundings(env={}, clock=client.clock, serve=False)
        ledger, registry = Ledger(folder / "dra", client.clock), new_registry("dra-driver")
        confinement = ClaimConfinement(
            client, ledger, settings, around, node=name, registry=registry
        )
        news = asyncio.Event()
        shared = Shared(
            client=client,
            ledger=ledger,
            confinement=confinement,
            metrics=DraMetrics(registry),
            folders=Folders(
                cdi=folder / "cdi",
                network_info=folder / "network-info",
                plugin=lambda one: folder / one,
                registry=folder / "registry",
            ),
            node=name,
            pod_uid="",
            offer=lambda: offer,
            news=news.set,
        )
        running = cls(ledger, offer, confinement, NamedDriver(shared, OWN), news)
        await running.driver.preparer.restore()
        work = (*running.driver.jobs(), *confinement.jobs(running.stop), running._publish(client))
        running.tasks = [asyncio.create_task(one) for one in work]
        return running

    @property
    def has_failed(self) -> bool:
        """Whether something has ended that goes on for as long as the driver lives."""
        ended = (task for task in self.tasks if task.done())
        return any(task.cancelled() or task.exception() is not None for task in ended)

    async def _publish(self, client: Client) -> None:
        """Keep the slices as they should be: at every news, and from time to time."""
        while True:
            self.news.clear()
            with contextlib.suppress(NumakubeError):
                await self.driver.publish()
            with contextlib.suppress(TimeoutError):
                async with client.clock.timeout(_PUBLISH_SECONDS):
                    await self.news.wait()

    async def kill(self) -> None:
        """End it without a chance to put anything back."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.confinement.close()


class ClaimDrivers:
    """The drivers of a lab: one on every node, from `start` on."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._starts = False
        self._called: dict[str, CalledDirectly] = {}
        self.running: dict[str, RunningDriver] = {}

    def of(self, name: str) -> DraDrivers:
        """Return what the kubelet of a node calls."""
        if name not in self._called:
            self._called[name] = CalledDirectly(self._connect(), name)
        return self._called[name]

    async def start(self, pool: NodePool) -> None:
        """Start one on every node, and on those that join."""
        client, self._starts = self._connect(), True
        for document in class_documents():
            with contextlib.suppress(AlreadyExists):
                await client.create(DEVICE_CLASSES.raw, document)
        for name in sorted(pool.kubelets):
            await self.node_joined(name, pool)

    async def node_joined(self, name: str, pool: NodePool) -> None:
        """Start the one of a new node."""
        if self._starts and name not in self.running:
            self.running[name] = one = await RunningDriver.start(name, pool, self._connect())
            self._called[name].running = one.driver

    async def restart(self, name: str, pool: NodePool) -> None:
        """Kill the one of a node, and start another one."""
        if name in self.running:
            await self.node_leaves(name)
            await self.node_joined(name, pool)

    async def node_leaves(self, name: str) -> None:
        """End that of a node."""
        if (running := self.running.pop(name, None)) is not None:
            self._called[name].running = None
            await running.kill()

    async def kill(self) -> None:
        """End all of them."""
        self._starts = False
        for name in list(self.running):
            await self.node_leaves(name)

    def given(self, name: str) -> Iterator[tuple[PreparedClaim, CpuSet]]:
        """Yield the claims that are prepared on a node, and the CPUs of each."""
        if name in self.running:
            for claim in self.running[name].ledger.claims.values():
                yield claim, CpuSet(claim.mask)
