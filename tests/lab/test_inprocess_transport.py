"""The client inside the lab's process, without sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from kube_lab_server import ApiServer
from numakube.api.codec import Wire
from numakube.api.meta import ObjectMeta
from numakube.errors import AlreadyExists, BadRequest, Conflict, NotFound
from numakube.kube.client import Client
from numakube.kube.connection.transport import Request
from numakube.kube.reflector import Reflector, reflecting
from numakube.kube.resource_types import ObjectKey, Resource
from numakube.kube.watch import ObjectEvent, open_watch
from numakube.testing import turns
from numakube_lab.inprocess_transport import InProcess


class ConfigMap(Wire, frozen=True):
    """Configuration."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)


CONFIG_MAPS = Resource(
    version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, object_type=ConfigMap
)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A fresh server."""
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(server: ApiServer) -> Client:
    """A client of it in the same process."""
    return Client(InProcess(server), rate=0)


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name}, "data": data}


async def test_objects_are_created_read_listed_changed_and_deleted(client: Client) -> None:
    """Every verb of the client works."""
    created = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace="default")
    assert await client.get(CONFIG_MAPS, "a", namespace="default") == created
    raw = await client.get(CONFIG_MAPS.raw, "a", namespace="default")
    raw["data"] = {"k": "2"}
    assert (await client.update(CONFIG_MAPS.raw, raw))["data"] == {"k": "2"}
    assert [one.data for one in (await client.list(CONFIG_MAPS)).items] == [{"k": "2"}]
    await client.delete(CONFIG_MAPS, "a", namespace="default")
    assert not (await client.list(CONFIG_MAPS)).items


async def test_refusals_are_the_errors_that_http_would_bring(client: Client) -> None:
    """The client cannot tell this transport from another."""
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace="default")
    raw = await client.create(CONFIG_MAPS.raw, config_map("a"), namespace="default")
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"), namespace="default")
    await client.update(CONFIG_MAPS.raw, {**raw, "data": {"k": "1"}})
    with pytest.raises(Conflict):
        await client.update(CONFIG_MAPS.raw, {**raw, "data": {"k": "2"}})


async def test_a_refused_watch_raises(client: Client) -> None:
    """A refusal in place of a stream is an error too."""
    with pytest.raises(BadRequest):
        await open_watch(client, CONFIG_MAPS, labels="=?=").__aenter__()


async def test_a_watch_sees_changes_made_over_sockets(server: ApiServer, client: Client) -> None:
    """Both ways lead to the same server."""
    async with (
        open_watch(client, CONFIG_MAPS, namespace="default") as watch,
        aiohttp.ClientSession(server.url) as session,
        session.post("/api/v1/namespaces/default/configmaps", json=config_map("a", k="1")),
        contextlib.aclosing(watch.batches()) as batches,
    ):
        (event,) = await anext(batches)
    assert isinstance(event, ObjectEvent)
    assert (event.type, event.object.data) == ("ADDED", {"k": "1"})


async def test_a_closed_watch_leaves_nothing_behind(server: ApiServer, client: Client) -> None:
    """The server stops collecting events for a reader that went away."""
    async with open_watch(client, CONFIG_MAPS, since="") as watch:
        await client.create(CONFIG_MAPS, config_map("a"), namespace="default")
        async with contextlib.aclosing(watch.batches()) as batches:
            await anext(batches)
            assert len(server.state.feeds._feeds) == 1
    assert not server.state.feeds._feeds


async def test_a_reflector_mirrors_without_sockets(client: Client) -> None:
    """Reflectors run over this transport, and end when told to."""
    reflector = Reflector(client, CONFIG_MAPS)
    async with reflecting(reflector):
        seen = asyncio.Event()
        reflector.store.subscribe(lambda _: seen.set(), replay=False)
        await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace="default")
        await seen.wait()
        found = reflector.store.get(ObjectKey("default", "a"))
    assert found is not None
    assert found.data == {"k": "1"}


async def test_a_busy_client_lets_others_work(client: Client) -> None:
    """Every request gives way once, although handling it never waits."""
    had = 0

    async def other() -> None:
        nonlocal had
        while True:
            had += 1
            await turns()

    task = asyncio.create_task(other())
    for _ in range(50):
        await client.list(CONFIG_MAPS)
    task.cancel()
    assert had >= 50


async def test_percent_encoded_names_are_read_as_written(client: Client) -> None:
    """Paths are decoded as a server does with those that come over HTTP."""
    with pytest.raises(NotFound) as refused:
        await client.get(CONFIG_MAPS, "a b", namespace="default")
    assert '"a b"' in str(refused.value)


async def test_the_type_of_an_answer_comes_as_a_header(server: ApiServer) -> None:
    """What a server says besides the body is not lost."""
    request = Request(method="GET", path="/api/v1/configmaps")
    answer = await InProcess(server).send(request)
    assert answer.headers["content-type"] == "application/json"
    assert msgspec.json.decode(answer.body)["kind"] == "ConfigMapList"
