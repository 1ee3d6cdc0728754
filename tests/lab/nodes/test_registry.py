"""Lab kubelets find plugins in their registry, as real ones do."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random

import pytest
from tests.lab.nodes.build import Lab

from kube_lab_server import ApiServer
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kubelet.machine import Device
from numakube.node.device_plugin.plugin_messages import Allocation, PluginOptions
from numakube.node.device_plugin.plugin_protocol import PluginServer
from numakube.node.device_plugin.plugin_registration import PluginInfo, RegistryRegistrant
from numakube.testing import until
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_folder import FolderWatch
from numakube_lab.nodes.node_pool import NodePool

GPU = "vendor.example/gpu"


class Gpu:
    """A plugin of two devices."""

    options = PluginOptions()

    async def watch(self) -> AsyncIterator[Sequence[Device]]:
        """Yield the devices, and no change of them."""
        yield Device("g0", (0,)), Device("g1", (1,))
        await asyncio.Event().wait()

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Agree."""
        return Allocation(envs={"GPUS": ",".join(ids)})

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Have none."""
        raise NotImplementedError

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Do nothing."""


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab of one node with sockets."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory(prefix="reg-") as root:
        async with ApiServer(now=clock.now, rng=Random(7)) as server:
            client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
            async with NodePool(client, root=Path(root)) as pool:
                lab = Lab(server, client, clock, pool)
                await lab.node()
                yield lab


def registry(lab: Lab) -> Path:
    """Return the folder where the kubelet looks."""
    sockets = lab.pool.sockets("n1")
    assert sockets is not None
    return sockets.registry


@contextlib.asynccontextmanager
async def serving(socket: Path, info: PluginInfo, told: list[str]) -> AsyncIterator[PluginServer]:
    """Serve a plugin that keeps what the kubelet tells it."""
    registrant = RegistryRegistrant(info, told.append)
    server = PluginServer(Gpu(), resource=GPU, socket=socket, registrant=registrant)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def offers(lab: Lab, capacity: str | None, allocatable: str | None) -> None:
    """Wait until the node offers so many GPUs."""

    async def offered() -> tuple[str | None, str | None]:
        status = (await lab.node_document())["status"]
        return status["capacity"].get(GPU), status["allocatable"].get(GPU)

    await until(offered, lambda found: found == (capacity, allocatable))


async def test_a_socket_that_appears_is_a_plugin_and_leaves_with_it(lab: Lab) -> None:
    """Its devices are unhealthy at once when it goes."""
    told: list[str] = []
    async with serving(registry(lab) / "gpu.sock", PluginInfo(name=GPU), told):
        await offers(lab, "2", "2")
        await until(lambda: told == [""])
    await offers(lab, "2", "0")


async def test_a_restarted_kubelet_takes_up_what_it_finds(lab: Lab) -> None:
    """The folder is not cleaned; the plugin has nothing to do."""
    told: list[str] = []
    async with serving(registry(lab) / "gpu.sock", PluginInfo(name=GPU), told) as server:
        await offers(lab, "2", "2")
        await lab.pool.restart("n1")
        await offers(lab, "2", "2")
        await until(lambda: told == ["", ""])
        await until(lambda: server.watchers == 1)


@pytest.mark.parametrize(
    ("info", "refusal"),
    [
        (
            PluginInfo(name=GPU, type="Odd"),
            "RegisterPlugin error -- no handler registered for plugin type: Odd at socket",
        ),
        (
            PluginInfo(name=GPU, versions=("v1alpha1", "v2")),
            "RegisterPlugin error -- plugin validation failed with err: manager version, v1beta1, "
            "is not among plugin supported versions [v1alpha1 v2]",
        ),
        (
            PluginInfo(name="gpu"),
            "RegisterPlugin error -- plugin validation failed with err: invalid name of device "
            'plugin socket: the ResourceName "gpu" is invalid',
        ),
    ],
)
async def test_what_a_kubelet_refuses_is_told_the_plugin(
    lab: Lab, info: PluginInfo, refusal: str
) -> None:
    """In its words; and it tries again later."""
    told: list[str] = []
    async with serving(registry(lab) / "gpu.sock", info, told):
        await until(lambda: bool(told))
        assert told[0].startswith(refusal)
        await lab.clock.sleepers(1)
        count = len(told)

        async def is_told_again() -> bool:
            await lab.clock.advance(1.0)
            return len(told) > count

        await until(is_told_again)


async def test_hidden_names_and_plain_files_are_not_plugins(lab: Lab) -> None:
    """A kubelet ignores names that begin with a dot."""
    told: list[str] = []
    seen: list[str] = []
    (registry(lab) / "file").touch()
    async with (
        serving(registry(lab) / ".gpu.sock", PluginInfo(name=GPU), told),
        serving(registry(lab) / "z.sock", PluginInfo(name="vendor.example/z"), seen),
    ):
        await until(lambda: seen == [""])
        assert told == []


@pytest.mark.parametrize("inotify", [True, False])
async def test_folders_are_watched_with_and_without_inotify(tmp_path: Path, inotify: bool) -> None:
    """By looking every second where the kernel does not tell."""
    changes: list[int] = []
    watch = FolderWatch(inotify=inotify)
    watch.add(tmp_path, lambda: changes.append(1))
    (tmp_path / "x").touch()

    await until(lambda: bool(changes))

    watch.remove(tmp_path)
    await watch.aclose()
