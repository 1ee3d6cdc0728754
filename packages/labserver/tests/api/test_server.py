"""The API server over real sockets."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from packages.labserver.tests.client import Client

from kube_lab_server import ApiServer
from kube_lab_server.server.api_server import EventExpiry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a fresh server."""
    async with ApiServer() as server, aiohttp.ClientSession(server.url) as session:
        yield session


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data,
    }


async def test_a_created_object_can_be_read_back(client: aiohttp.ClientSession) -> None:
    """A POST answers with the stored object, and a GET with the same."""
    async with client.post(CONFIG_MAPS, json=config_map("a", k="1")) as response:
        assert response.status == 201
        created = await response.json()
    async with client.get(f"{CONFIG_MAPS}/a") as response:
        assert await response.json() == created
    assert created["metadata"]["resourceVersion"].isdigit()


async def test_a_stale_put_is_refused(client: aiohttp.ClientSession) -> None:
    """Of two writers with the same version, the second gets a conflict."""
    async with client.post(CONFIG_MAPS, json=config_map("a", k="1")) as response:
        created = await response.json()
    created["data"]["k"] = "2"
    async with client.put(f"{CONFIG_MAPS}/a", json=created) as response:
        assert response.status == 200
    created["data"]["k"] = "3"
    async with client.put(f"{CONFIG_MAPS}/a", json=created) as response:
        assert response.status == 409
        assert (await response.json())["reason"] == "Conflict"


async def test_a_watched_table_shows_ages_of_the_moment() -> None:
    """Not those of the moment in which the watch began."""
    time = datetime(2026, 3, 1, tzinfo=UTC)
    as_table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with (
        ApiServer(now=lambda: time) as server,
        aiohttp.ClientSession(server.url) as session,
        session.get(CONFIG_MAPS, params={"watch": "true"}, headers=as_table) as watch,
    ):
        time += timedelta(minutes=5)
        async with session.post(CONFIG_MAPS, json=config_map("a")) as response:
            assert response.status == 201
        event = json.loads(await watch.content.readline())
    assert event["object"]["rows"][0]["cells"] == ["a", 0, "0s"]


async def test_a_watch_tells_of_every_change(client: aiohttp.ClientSession) -> None:
    """Creation, change and deletion arrive in order."""
    async with client.get(CONFIG_MAPS, params={"watch": "true"}) as watch:
        async with client.post(CONFIG_MAPS, json=config_map("a", k="1")):
            pass
        async with client.put(f"{CONFIG_MAPS}/a", json=config_map("a", k="2")):
            pass
        async with client.delete(f"{CONFIG_MAPS}/a"):
            pass
        events = [json.loads(await watch.content.readline()) for _ in range(3)]
    kinds = [event["type"] for event in events]
    assert kinds == ["ADDED", "MODIFIED", "DELETED"]


async def test_an_event_expires_an_hour_after_it_was_last_written() -> None:
    """Every write of it starts the hour again; other objects stay."""
    clock, events = [datetime(2026, 1, 1, tzinfo=UTC)], "/api/v1/namespaces/default/events"
    async with (
        ApiServer(now=lambda: clock[0]) as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        api = Client(session)
        await api.create(CONFIG_MAPS, config_map("a"))
        for name in ("old", "renewed"):
            about = {"kind": "Pod", "namespace": "default", "name": "p"}
            await api.create(events, {"metadata": {"name": name}, "involvedObject": about})
        clock[0] += timedelta(minutes=50)
        kind = "application/merge-patch+json"
        await api.send("PATCH", f"{events}/renewed", {"count": 2}, kind=kind)
        clock[0] += timedelta(minutes=20)
        await api.get("/version")

        assert [item["metadata"]["name"] for item in (await api.get(events))["items"]] == [
            "renewed"
        ]
        assert (await api.get(f"{CONFIG_MAPS}/a"))["metadata"]["name"] == "a"


async def test_the_oldest_of_too_many_events_expire() -> None:
    """A lab keeps them in memory."""
    events, about = "/api/v1/namespaces/default/events", {"namespace": "default", "name": "p"}
    async with ApiServer() as server, aiohttp.ClientSession(server.url) as session:
        server.state.after_request.append(EventExpiry(server.state, most=2).remove_expired)
        api = Client(session)
        for name in ("a", "b", "c"):
            await api.create(events, {"metadata": {"name": name}, "involvedObject": about})

        assert [item["metadata"]["name"] for item in (await api.get(events))["items"]] == ["b", "c"]
