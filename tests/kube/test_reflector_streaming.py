"""A reflector that gets its first objects from the watch itself, where the server can do that."""

import asyncio
from random import Random

import pytest
from aiohttp import web
from tests.kube.collection import PODS, Collection, Mirror, equal, event, names_in

from numakube.errors import ClusterUnreachable
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.connect import connect
from numakube.kube.reflector import Reflector, reflecting, wait_synced
from numakube.kube.scripted_server import ScriptedServer, status_document
from numakube.testing import until


async def test_streaming_needs_no_list(client: Client, pods: Collection) -> None:
    """The initial objects come as events; the same watch goes on."""
    pods.put("a")
    pods.put("b")
    reflector = Reflector(client, PODS, streaming=True)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        assert names_in(reflector) == ["a", "b"]
        pods.put("c")
        await equal(pods, reflector, mirror)
        pods.cut()
        await equal(pods, reflector, mirror)
        pods.end()
        pods.delete("a")
        pods.forget()
        await equal(pods, reflector, mirror)

    assert pods.lists == []
    assert [each.get("sendInitialEvents") for each in pods.watches].count("true") == 2


@pytest.mark.parametrize("streaming", [True, False])
async def test_who_has_reached_the_server_ends_the_pauses_of_the_others(
    client: Client, pods: Collection, streaming: bool
) -> None:
    """It would be odd to know one kind as it is, and another as it was."""
    pods.put("a")
    other = asyncio.create_task(client.recovery.pause(ManualClock(), 30.0))
    async with reflecting(Reflector(client, PODS, streaming=streaming)):
        await until(other.done)


async def test_streaming_falls_back_where_it_is_forbidden(
    server: ScriptedServer, client: Client, pods: Collection
) -> None:
    """A server with the feature off refuses."""
    server.refuse(422, "Invalid", message="sendInitialEvents is forbidden for watch")
    pods.put("a")
    reflector = Reflector(client, PODS, streaming=True)
    async with reflecting(reflector):
        assert names_in(reflector) == ["a"]

    assert len(pods.lists) == 1


async def test_streaming_falls_back_where_it_fails_and_is_tried_again_later(
    server: ScriptedServer, client: Client, pods: Collection
) -> None:
    """As with an etcd that cannot tell how far it is."""

    async def failing(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("ERROR", status_document(500, "InternalError")))
        return response

    server.script(failing)
    pods.put("a")
    reflector = Reflector(client, PODS, streaming=True)
    async with reflecting(reflector):
        assert names_in(reflector) == ["a"]
        await pods.watched()
        pods.end()
        pods.put("b")
        pods.forget()
        await until(lambda: sum("sendInitialEvents" in each for each in pods.watches) == 2)

    assert len(pods.lists) == 1


async def test_streaming_falls_back_where_it_is_ignored(client: Client, pods: Collection) -> None:
    """An old server does not know the parameter, and its bookmarks tell so."""
    pods.knows_streaming = False
    pods.put("a")
    reflector = Reflector(client, PODS, streaming=True)
    task = asyncio.create_task(reflector.run())
    await pods.watched()
    pods.bookmark()
    await wait_synced(reflector)
    assert names_in(reflector) == ["a"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(pods.lists) == 1


async def test_streaming_falls_back_after_a_while(server: ScriptedServer) -> None:
    """If initial events do not end."""
    clock = ManualClock()
    pods = Collection(server)
    pods.knows_streaming = False
    async with connect(server.config, clock=clock, rng=Random(1)) as client:
        reflector = Reflector(client, PODS, streaming=True)
        task = asyncio.create_task(reflector.run())
        await pods.watched()
        await clock.timeouts()
        await clock.advance(60)
        await clock.sleepers()
        await clock.advance(1)
        await wait_synced(reflector)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert len(pods.lists) == 1


async def test_streaming_starts_again_if_cut_before_its_end(
    server: ScriptedServer, client: Client, pods: Collection
) -> None:
    """Half of the initial events are no state."""
    pods.put("a")

    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("ADDED", {"metadata": {"name": "ghost", "namespace": "ns"}}))
        return response

    server.script(half)
    reflector = Reflector(client, PODS, streaming=True)
    async with reflecting(reflector):
        assert names_in(reflector) == ["a"]
        assert reflector.last_error is None or isinstance(reflector.last_error, ClusterUnreachable)
