"""The device plugin protocol over real unix sockets, both ends."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from numakube.kubelet.machine import Device
from numakube.node.device_plugin.plugin_messages import (
    Allocation,
    PluginOptions,
    PluginRegistration,
)
from numakube.node.device_plugin.plugin_protocol import (
    DevicePluginError,
    PluginClient,
    PluginServer,
    RegistrationServer,
)
from numakube.node.host_files import DeviceFile, HostMount

DEVICES = (Device("a", (0,)), Device("b", (0, 1)), Device("c", healthy=False))
ALLOCATION = Allocation(
    envs={"GPU": "a"},
    mounts=(HostMount("/lib", "/host/lib", read_only=True),),
    devices=(DeviceFile("/dev/gpu", "/dev/gpu0", "rwm"),),
    annotations={"vendor.example/gpu": "a"},
    cdi_devices=("vendor.example/gpu=a",),
)


class Gpu:
    """A plugin that tells what it was asked."""

    def __init__(self) -> None:
        self.options = PluginOptions(pre_start_required=True, preferred_allocation=True)
        self.lists: asyncio.Queue[tuple[Device, ...] | None] = asyncio.Queue()
        self.started: list[tuple[str, ...]] = []

    async def watch(self) -> AsyncIterator[Sequence[Device]]:
        """Yield what the test says."""
        while (devices := await self.lists.get()) is not None:
            yield devices

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Refuse device c."""
        if "c" in ids:
            raise DevicePluginError("c is broken")
        return ALLOCATION

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Prefer the last ones."""
        return [*must_include, *sorted(set(available) - set(must_include), reverse=True)][:size]

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Keep the record."""
        self.started.append(tuple(ids))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dp-") as name:
        yield Path(name)


@pytest.fixture
async def plugin(folder: Path) -> AsyncIterator[Gpu]:
    """A plugin that serves."""
    gpu = Gpu()
    server = PluginServer(gpu, resource="vendor.example/gpu", socket=folder / "gpu.sock")
    await server.start()
    yield gpu
    await server.stop()


@pytest.fixture
async def client(plugin: Gpu, folder: Path) -> AsyncIterator[PluginClient]:
    """A client of it."""
    del plugin
    client = PluginClient(folder / "gpu.sock")
    await client.dial()
    yield client
    await client.aclose()


async def test_options_and_answers_are_read_as_they_were_given(
    plugin: Gpu, client: PluginClient
) -> None:
    """Every call goes through unchanged."""
    assert await client.options() == plugin.options
    assert await client.allocate(("a",)) == ALLOCATION
    assert await client.preferred(("a", "b", "c"), ("a",), 2) == ("a", "c")
    await client.pre_start(("a", "b"))
    assert plugin.started == [("a", "b")]


async def test_devices_come_as_often_as_they_change(plugin: Gpu, client: PluginClient) -> None:
    """NUMA nodes and health are kept; the stream ends when the plugin ends it."""
    async with contextlib.aclosing(client.watch()) as lists:
        plugin.lists.put_nowait(DEVICES)
        assert await anext(lists) == DEVICES
        plugin.lists.put_nowait(DEVICES[:1])
        assert await anext(lists) == DEVICES[:1]
        plugin.lists.put_nowait(None)
        with pytest.raises(StopAsyncIteration):
            await anext(lists)


async def test_a_refusal_has_the_words_of_gos_grpc(client: PluginClient) -> None:
    """They end up in the status of a pod."""
    with pytest.raises(DevicePluginError) as refused:
        await client.allocate(("c",))
    assert str(refused.value) == "rpc error: code = Unknown desc = c is broken"


async def test_a_plugin_that_does_not_serve_cannot_be_dialled(folder: Path) -> None:
    """The kubelet's words again."""
    client = PluginClient(folder / "nobody.sock")
    with pytest.raises(DevicePluginError, match="failed to dial device plugin: context deadline"):
        await client.dial(within=0.01)
    await client.aclose()


async def test_a_plugin_announces_itself_to_the_kubelet(folder: Path) -> None:
    """Resource, socket and options arrive; a refusal comes back."""
    seen: list[PluginRegistration] = []

    async def register(registration: PluginRegistration) -> None:
        seen.append(registration)
        if len(seen) > 1:
            raise DevicePluginError("once is enough")

    kubelet = RegistrationServer(register, folder / "kubelet.sock")
    await kubelet.start()
    server = PluginServer(Gpu(), resource="vendor.example/gpu", socket=folder / "gpu.sock")
    await server.announce(folder / "kubelet.sock")
    assert seen == [PluginRegistration("vendor.example/gpu", "gpu.sock", options=Gpu().options)]
    with pytest.raises(DevicePluginError, match="desc = once is enough"):
        await server.announce(folder / "kubelet.sock")
    await kubelet.stop()
    assert not (folder / "kubelet.sock").exists()
