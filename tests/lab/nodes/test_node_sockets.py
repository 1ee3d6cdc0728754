"""Nodes with folders and sockets: device plugins, PodResources, checkpoint files."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.lab.nodes.build import Lab

from kube_lab_server import ApiServer
from numakube.api.checkpoints.cpu_manager_state import read_cpu_manager_state
from numakube.api.kubelet_config import MemoryReservation, read_kubelet_config
from numakube.errors import ConfigError
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kubelet.machine import Device
from numakube.node.device_plugin.plugin_messages import Allocation, PluginOptions
from numakube.node.device_plugin.plugin_protocol import DevicePluginError, PluginServer
from numakube.node.podresources_client import PodResourcesClient
from numakube.node.sysfs_machine import read_machine
from numakube.testing import until
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool

GPU = "vendor.example/gpu"
DEVICES = (Device("g0", (0,)), Device("g1", (0,)), Device("g2", (1,)), Device("g3", (1,)))


class Gpu:
    """A plugin of four devices."""

    def __init__(self, options: PluginOptions | None = None) -> None:
        self.options = options or PluginOptions()
        self.lists: asyncio.Queue[tuple[Device, ...] | None] = asyncio.Queue()
        self.lists.put_nowait(DEVICES)
        self.allocated: list[tuple[str, ...]] = []
        self.started: list[tuple[str, ...]] = []
        self.refusal = ""
        self.pre_start_refusal = ""

    async def watch(self) -> AsyncIterator[Sequence[Device]]:
        """Yield what the test says."""
        while (devices := await self.lists.get()) is not None:
            yield devices

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Agree, or not."""
        if self.refusal:
            raise DevicePluginError(self.refusal)
        self.allocated.append(tuple(ids))
        return Allocation(envs={"GPUS": ",".join(ids)})

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Prefer the last ones."""
        if self.refusal:
            raise DevicePluginError(self.refusal)
        return [*must_include, *sorted(set(available) - set(must_include), reverse=True)][:size]

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Agree, or not."""
        if self.pre_start_refusal:
            raise DevicePluginError(self.pre_start_refusal)
        self.started.append(tuple(ids))


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab whose nodes have folders and sockets."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory(prefix="lab-") as root:
        async with ApiServer(now=clock.now, rng=Random(7)) as server:
            client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
            async with NodePool(client, root=Path(root)) as pool:
                yield Lab(server, client, clock, pool)


@pytest.fixture
async def serve(lab: Lab) -> AsyncIterator[Callable[[Gpu], Awaitable[PluginServer]]]:
    """What starts a plugin and registers it with node n1."""
    servers: list[PluginServer] = []

    async def start(gpu: Gpu) -> PluginServer:
        sockets = lab.pool.sockets("n1")
        assert sockets is not None
        socket = sockets.registration.parent / f"gpu{len(servers)}.sock"
        server = PluginServer(gpu, resource=GPU, socket=socket)
        servers.append(server)
        await server.start()
        await server.announce(sockets.registration)
        return server

    yield start
    for server in servers:
        await server.stop()


Serve = Callable[[Gpu], Awaitable[PluginServer]]


async def offers(lab: Lab, capacity: str | None, allocatable: str | None) -> None:
    """Wait until the node offers so many GPUs."""

    async def offered() -> tuple[str | None, str | None]:
        status = (await lab.node_document())["status"]
        return status["capacity"].get(GPU), status["allocatable"].get(GPU)

    await until(offered, lambda found: found == (capacity, allocatable))


async def waits(lab: Lab, name: str, reason: str) -> str:
    """Wait until a pod's container is shown as waiting for *reason*; return the message."""

    async def shown() -> Any:
        found = (await lab.get(name)).status.container_statuses
        return found[0].state.waiting if found else None

    waiting = await until(shown, lambda waiting: waiting.reason == reason)
    return str(waiting.message)


async def test_a_plugin_that_registers_late_makes_its_resource_appear(
    lab: Lab, serve: Serve
) -> None:
    """The node offers its devices, and a pod gets one in its NUMA node."""
    await lab.node()
    await offers(lab, None, None)
    gpu = Gpu()
    await serve(gpu)
    await offers(lab, "4", "4")
    await lab.create("a", cpu="2", limits={GPU: "2"})
    await lab.reaches("a", "Running")
    (held,) = lab.pool.kubelet("n1").pod_resources()
    devices = held.containers[0].devices
    assert [device.ids for device in devices] == [(one,) for one in gpu.allocated[0]]
    assert {device.numa_nodes for device in devices} == {(0,)}
    assert set(held.containers[0].cpu_ids) <= {0, 1, 2, 3, 8, 9, 10, 11}


async def test_unhealthy_devices_are_not_offered(lab: Lab, serve: Serve) -> None:
    """A new list replaces the old one."""
    await lab.node()
    gpu = Gpu()
    await serve(gpu)
    await offers(lab, "4", "4")
    gpu.lists.put_nowait((*DEVICES[:3], Device("g3", (1,), healthy=False)))
    await offers(lab, "4", "3")


async def test_a_plugin_that_goes_away_is_remembered_for_five_minutes(
    lab: Lab, serve: Serve
) -> None:
    """First nothing is allocatable, then the resource is gone."""
    await lab.node()
    gpu = Gpu()
    await serve(gpu)
    await offers(lab, "4", "4")
    gpu.lists.put_nowait(None)
    await offers(lab, "4", "0")
    await lab.clock.advance(301)
    await offers(lab, None, None)


async def test_a_refused_allocation_rejects_the_pod(lab: Lab, serve: Serve) -> None:
    """The plugin's words are in the pod's status."""
    await lab.node()
    gpu = Gpu()
    gpu.refusal = "out of order"
    await serve(gpu)
    await offers(lab, "4", "4")
    await lab.create("a", limits={GPU: "1"})
    await lab.reaches("a", "Failed")
    status = (await lab.get("a")).status
    assert (status.reason, status.message) == (
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = out of order, "
        "which is unexpected",
    )
    assert lab.model().devices.allocated_count(GPU) == 0


async def test_a_plugins_preference_is_honoured(lab: Lab, serve: Serve) -> None:
    """Within the aligned devices the plugin chooses."""
    await lab.node()
    gpu = Gpu(PluginOptions(preferred_allocation=True))
    await serve(gpu)
    await offers(lab, "4", "4")
    await lab.create("a", cpu="2", limits={GPU: "1"})
    await lab.reaches("a", "Running")
    assert gpu.allocated == [("g1",)]
    gpu.refusal = "no idea"
    await lab.create("b", cpu="6", limits={GPU: "1"})
    await lab.reaches("b", "Failed")
    assert "device plugin GetPreferredAllocation rpc failed with err: rpc error" in (
        (await lab.get("b")).status.message
    )


async def test_devices_are_made_ready_before_containers_start(lab: Lab, serve: Serve) -> None:
    """PreStartContainer is called once."""
    await lab.node()
    gpu = Gpu(PluginOptions(pre_start_required=True))
    await serve(gpu)
    await offers(lab, "4", "4")
    await lab.create("a", limits={GPU: "1"})
    await lab.reaches("a", "Running")
    assert gpu.started == gpu.allocated
    assert len(gpu.started) == 1


async def test_a_container_waits_for_devices_that_are_not_ready(lab: Lab, serve: Serve) -> None:
    """The reason is shown, and the kubelet tries again."""
    await lab.node()
    gpu = Gpu(PluginOptions(pre_start_required=True))
    gpu.pre_start_refusal = "still cold"
    await serve(gpu)
    await offers(lab, "4", "4")
    await lab.create("a", limits={GPU: "1"})
    assert await waits(lab, "a", "CreateContainerConfigError") == (
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = "
        "still cold"
    )
    gpu.pre_start_refusal = ""

    async def runs_later() -> bool:
        await lab.clock.advance(11)
        return await lab.phase("a") == "Running"

    await until(runs_later)


async def test_registrations_are_checked(lab: Lab) -> None:
    """A resource name that Kubernetes keeps for itself is refused."""
    await lab.node()
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    server = PluginServer(
        Gpu(), resource="kubernetes.io/gpu", socket=sockets.registration.parent / "x.sock"
    )
    with pytest.raises(DevicePluginError, match=r'the ResourceName "kubernetes.io/gpu" is invalid'):
        await server.announce(sockets.registration)


async def test_pod_resources_over_the_socket_equal_the_model(lab: Lab, serve: Serve) -> None:
    """What a monitoring agent reads is what the kubelet knows."""
    reserved = (MemoryReservation(numa_node=0, limits={"memory": "512Mi"}),)
    await lab.node(
        memory_manager_policy="Static",
        system_reserved={"memory": "412Mi"},
        reserved_memory=reserved,
    )
    await serve(Gpu())
    await offers(lab, "4", "4")
    for number in range(3):
        await lab.create(f"p{number}", cpu="2", limits={GPU: "1"})
        await lab.reaches(f"p{number}", "Running")
    kubelet, sockets = lab.pool.kubelet("n1"), lab.pool.sockets("n1")
    assert sockets is not None
    client = PodResourcesClient(sockets.pod_resources)
    assert set(await client.list_pods()) == set(kubelet.pod_resources())
    assert await client.allocatable() == kubelet.allocatable_resources()
    pod = await client.get_pod("default", "p1")
    assert len(pod.containers[0].cpu_ids) == 2
    assert pod.containers[0].memory[0].size_bytes == 1 << 30


async def test_a_restarted_kubelet_takes_its_state_from_its_files(lab: Lab, serve: Serve) -> None:
    """CPUs and devices are the same, although the plugin has yet to come back."""
    await lab.node()
    await serve(Gpu())
    await offers(lab, "4", "4")
    await lab.create("a", cpu="4", limits={GPU: "1"})
    await lab.reaches("a", "Running")
    before = tuple(lab.pool.kubelet("n1").pod_resources())
    await lab.pool.restart("n1")
    await offers(lab, "0", "0")
    assert tuple(lab.pool.kubelet("n1").pod_resources()) == before
    assert await lab.phase("a") == "Running"
    await serve(Gpu())
    await offers(lab, "4", "4")
    await lab.create("b", cpu="2", limits={GPU: "3"})
    await lab.reaches("b", "Failed")


async def test_a_node_that_nobody_looks_into_has_no_files(lab: Lab) -> None:
    """A thousand of them would have millions; its kubelet keeps its state all the same."""
    await lab.node()
    await lab.create("a", cpu="4")
    await lab.runs("a")
    held = lab.cpus("a")
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    await lab.pool.restart("n1")
    assert lab.cpus("a") == held
    assert not [path for path in sockets.registration.parents[1].rglob("*") if path.is_file()]


async def test_a_node_that_is_removed_takes_its_folder_along(lab: Lab) -> None:
    """As a machine does; the next one of that name has its own."""
    await lab.node()
    folder = await lab.pool.folder("n1")
    await lab.pool.remove("n1")
    assert not folder.exists()
    await lab.node()
    assert (await lab.pool.folder("n1") / "config.yaml").exists()


async def test_the_folder_looks_like_a_nodes_disk(lab: Lab) -> None:
    """Configuration, sysfs and checkpoints are where tools look for them."""
    await lab.node()
    await lab.create("a", cpu="4")
    pod = await lab.runs("a")
    folder = await lab.pool.folder("n1")
    state = read_cpu_manager_state((folder / "cpu_manager_state").read_bytes(), policy="static")
    assert tuple(state.entries[pod.metadata.uid]["main"]) == lab.cpus("a")
    config = read_kubelet_config((folder / "config.yaml").read_bytes())
    assert config.topology_manager_policy == "single-numa-node"
    machine = read_machine(folder / "sys")
    assert (machine.cpu_count, len(machine.nodes)) == (16, 2)
    assert (folder / "device-plugins/kubelet_internal_checkpoint").exists()
    await lab.client.delete(PODS, "a", namespace="default")
    await lab.reaches("a", "")
    state = read_cpu_manager_state((folder / "cpu_manager_state").read_bytes(), policy="static")
    assert not state.entries


async def test_a_folder_that_is_too_deep_is_refused(lab: Lab, tmp_path: Path) -> None:
    """The kernel has a limit for the paths of sockets."""
    root = tmp_path / ("x" * 90)
    async with NodePool(lab.client, root=root) as pool:
        deep = Lab(lab.server, lab.client, lab.clock, pool)
        with pytest.raises(ConfigError, match="too long for a unix socket"):
            await deep.node("n2")


async def test_sockets_need_a_folder(lab: Lab) -> None:
    """Asked for sockets without one, the pool says so."""
    async with NodePool(lab.client, sockets=True) as pool:
        bare = Lab(lab.server, lab.client, lab.clock, pool)
        with pytest.raises(ConfigError, match="only if a root folder is given"):
            await bare.node("n2")
