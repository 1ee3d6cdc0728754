"""The API server over real sockets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from numakube_lab.api.server.api_server import ApiServer

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
