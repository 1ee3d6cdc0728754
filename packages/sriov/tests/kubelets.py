"""A kubelet to register with, over real sockets: the lab's, of one node with two NUMA nodes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packages.sriov.tests.build import Bed
from prometheus_client import CollectorRegistry
from tests.lab.nodes.build import Lab

from numakube.kube.clock import SystemClock
from numakube.node.pci.host_scan import SurveyOptions
from numakube.testing import until
from numakube_lab.nodes.node_pool import NodePool
from numakube_sriov.metrics import SriovMetrics
from numakube_sriov.pool_plugin import KubeletDevices, Places
from numakube_sriov.pool_registration import KubeletFolders, Way
from numakube_sriov.sriov_loop import Agent, AgentOptions

NIC = "intel.com/nic"


@dataclass
class Plugin:
    """A plugin that runs beside the kubelet of a node."""

    bed: Bed
    folders: KubeletFolders
    config_file: Path
    rescan: float = 0.05
    use_cdi: bool = False
    pods: KubeletDevices | None = None
    survey: SurveyOptions = field(default_factory=SurveyOptions)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    agent: Agent | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def configure(self, *pools: dict[str, Any]) -> None:
        """Write the configuration."""
        self.config_file.write_text(json.dumps({"resourceList": pools}))

    async def start(self) -> Agent:
        """Start it."""
        self.stop = asyncio.Event()
        self.registry = CollectorRegistry()
        root = self.bed.root
        options = AgentOptions(
            config_file=self.config_file,
            prefix="intel.com",
            places=Places(
                host=self.bed.host,
                device_info=root / "devinfo",
                choices=self.folders.device_plugins / "numakube",
                cdi=root / "cdi" if self.use_cdi else None,
                pods=self.pods,
            ),
            folders=self.folders,
            survey=self.survey,
            rescan=self.rescan,
        )
        metrics = SriovMetrics(self.registry)
        self.agent = Agent(options, clock=SystemClock(), metrics=metrics)
        self.task = asyncio.create_task(self.agent.run(self.stop))
        return self.agent

    async def end(self) -> None:
        """Let it end."""
        self.stop.set()
        if self.task is not None:
            await self.task
            self.task = None

    async def is_followed(self) -> bool:
        """Tell whether the kubelet follows all pools, of which there is one at least."""
        agent = self.agent
        return agent is not None and bool(agent.endpoints) and not agent.registration_trouble()

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.registry.get_sample_value(name, labels)


def folders_of(pool: NodePool, way: Way, node: str = "n1") -> KubeletFolders:
    """Return where a node's kubelet takes plugins."""
    sockets = pool.sockets(node)
    assert sockets is not None
    return KubeletFolders(
        device_plugins=sockets.registration.parent, registry=sockets.registry, way=way
    )


@contextlib.asynccontextmanager
async def short_folder() -> AsyncIterator[Path]:
    """Give a folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="sv-") as name:
        yield Path(name)


async def offers(
    lab: Lab, capacity: int, allocatable: int, resource: str = NIC, *, node: str = "n1"
) -> None:
    """Wait until the node offers so many devices."""

    async def offered() -> tuple[str | None, str | None]:
        status = (await lab.node_document(node))["status"]
        return status["capacity"].get(resource), status["allocatable"].get(resource)

    await until(offered, lambda seen: seen == (str(capacity), str(allocatable)))


async def runs(lab: Lab, name: str) -> None:
    """Wait until a pod runs."""
    await until(lambda: lab.phase(name), lambda phase: phase == "Running")


def held(lab: Lab, name: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return the devices of a pod and where they are."""
    (found,) = (
        resource for resource in lab.pool.kubelet("n1").pod_resources() if resource.name == name
    )
    return [
        (id_, device.numa_nodes) for device in found.containers[0].devices for id_ in device.ids
    ]
