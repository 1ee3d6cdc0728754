"""PodResources over a real unix socket."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from numakube.errors import KubeletUnavailable
from numakube.node.podresources_client import (
    AllocatableResources,
    ContainerResources,
    Devices,
    Memory,
    PodResources,
    PodResourcesClient,
)
from numakube.node.podresources_server import BURST, PodResourcesServer

POD = PodResources(
    name="web",
    namespace="default",
    containers=(
        ContainerResources(
            name="main",
            cpu_ids=(2, 3),
            memory=(Memory("memory", 1 << 30, (0, 1)),),
            devices=(Devices("vendor.example/gpu", ("g0",), (1,)), Devices("x/y", ("d",))),
        ),
        ContainerResources(name="shared"),
    ),
)
EMPTY = AllocatableResources(
    cpu_ids=(1, 2, 3),
    memory=(Memory("memory", 8 << 30, (0,)),),
    devices=(Devices("vendor.example/gpu", ("g0",), (1,)),),
)


class Source:
    """A node with one pod."""

    def __init__(self) -> None:
        self.pods = [POD]
        self.allocatable = EMPTY

    def pod_resources(self) -> list[PodResources]:
        """Return the pods."""
        return self.pods

    def allocatable_resources(self) -> AllocatableResources:
        """Return what the node has."""
        return self.allocatable


class Clock:
    """A clock that stands still unless told otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def socket() -> Iterator[Path]:
    """A socket path short enough for the kernel."""
    with tempfile.TemporaryDirectory(prefix="pr-") as folder:
        yield Path(folder) / "pod-resources" / "kubelet.sock"


@pytest.fixture
def clock() -> Clock:
    """The server's clock."""
    return Clock()


@pytest.fixture
def source() -> Source:
    """What the server tells."""
    return Source()


@pytest.fixture
async def client(socket: Path, clock: Clock, source: Source) -> AsyncIterator[PodResourcesClient]:
    """A client of a running server."""
    server = PodResourcesServer(source, socket, clock=clock)
    await server.start()
    yield PodResourcesClient(socket)
    await server.stop()


async def test_what_is_served_is_read_back(client: PodResourcesClient) -> None:
    """CPUs, memory groups and devices with and without NUMA node."""
    assert await client.list_pods() == (POD,)
    assert await client.get_pod("default", "web") == POD
    assert await client.allocatable() == EMPTY


async def test_pods_that_have_changed_are_read_again(
    client: PodResourcesClient, source: Source
) -> None:
    """Others are the same objects as before; order, and who has gone, are those of the answer."""
    other = replace(POD, name="other")
    source.pods = [POD, other]
    first = await client.list_pods()
    assert first == (POD, other)
    grown = replace(POD, cpu_ids=(7,))
    source.pods = [other, grown]
    second = await client.list_pods()
    assert second == (other, grown)
    assert second[0] is first[1]
    source.pods = [POD, POD]
    assert await client.list_pods() == (POD, POD)
    source.pods = []
    assert await client.list_pods() == ()


async def test_a_change_of_what_is_allocatable_is_seen(
    client: PodResourcesClient, source: Source
) -> None:
    """An answer like the one before is not read again; any other is."""
    first = await client.allocatable()
    assert await client.allocatable() is first
    source.allocatable = AllocatableResources(cpu_ids=(1, 2))
    assert await client.allocatable() == source.allocatable


async def test_a_pod_that_is_not_there_is_refused_in_the_kubelets_words(
    client: PodResourcesClient,
) -> None:
    """The name and the namespace are in the message."""
    with pytest.raises(KubeletUnavailable, match="pod gone in namespace default not found"):
        await client.get_pod("default", "gone")


async def test_a_client_that_asks_too_often_waits(client: PodResourcesClient, clock: Clock) -> None:
    """The bucket refills while the client pauses."""
    for _ in range(BURST):
        await client.list_pods()
    waiting = asyncio.create_task(client.list_pods())
    done, _ = await asyncio.wait({waiting}, timeout=0.02)
    assert not done
    clock.now += 1
    assert await waiting == (POD,)


async def test_a_kubelet_that_is_away_is_an_error_that_names_the_socket(socket: Path) -> None:
    """And the same client works once it is there."""
    client = PodResourcesClient(socket)
    with pytest.raises(KubeletUnavailable, match=f"{socket}: UNAVAILABLE"):
        await client.list_pods()
    server = PodResourcesServer(Source(), socket, clock=Clock())
    await server.start()
    try:
        assert await client.list_pods() == (POD,)
    finally:
        await server.stop()
