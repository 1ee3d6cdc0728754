"""What a data file keeps across restarts, and across deaths."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from kube_lab_server import ApiServer
from numakube.errors import ApiError, ConfigError
from numakube.kube.catalog import NAMESPACES, PODS
from numakube.kube.client import Client
from numakube_lab.inprocess_transport import InProcess

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def create(session: aiohttp.ClientSession, name: str) -> dict[str, Any]:
    """Create a ConfigMap."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    async with session.post(CONFIG_MAPS, json=body) as response:
        assert response.status == 201, await response.text()
        created: dict[str, Any] = await response.json()
        return created


async def names(session: aiohttp.ClientSession) -> set[str]:
    """List the names of ConfigMaps."""
    async with session.get(CONFIG_MAPS) as response:
        return {item["metadata"]["name"] for item in (await response.json())["items"]}


async def test_objects_and_versions_survive_a_restart(tmp_path: Path) -> None:
    """The same objects are there, and versions go on from where they were."""
    data = tmp_path / "lab.db"
    async with ApiServer(data=data) as server, aiohttp.ClientSession(server.url) as session:
        first = await create(session, "a")
        gone = await create(session, "b")
        async with session.delete(f"{CONFIG_MAPS}/b") as response:
            assert response.status == 200
    async with ApiServer(data=data) as server, aiohttp.ClientSession(server.url) as session:
        async with session.get(f"{CONFIG_MAPS}/a") as response:
            assert await response.json() == first
        second = await create(session, "c")
        assert await names(session) == {"a", "c"}

    versions = [int(o["metadata"]["resourceVersion"]) for o in (first, gone, second)]
    assert versions == sorted(versions)


async def test_with_a_full_disk_reading_goes_on_and_nothing_more_is_changed(tmp_path: Path) -> None:
    """A write that was refused is not begun, so that nobody takes it for done later."""
    data = tmp_path / "lab.db"
    async with ApiServer(data=data) as server, aiohttp.ClientSession(server.url) as session:
        await create(session, "a")
    with closing(sqlite3.connect(data)) as database:
        refuse = "when new.name = 'big' begin select raise(fail, 'disk is full'); end"
        database.execute(f"create trigger full before insert on object {refuse}")
    async with ApiServer(data=data) as server, aiohttp.ClientSession(server.url) as session:
        for name in ("big", "b"):
            body = {"metadata": {"name": name}}
            async with session.post(CONFIG_MAPS, json=body) as response:
                assert response.status == 500
                assert "lab.db: disk is full" in (await response.json())["message"]
        assert await names(session) - {"big"} == {"a"}
        async with session.get(CONFIG_MAPS, params={"watch": "1", "timeoutSeconds": "1"}) as watch:
            assert b'"a"' in await watch.content.readline()
        async with Client(InProcess(server)) as client:
            assert len((await client.list(PODS)).items) == 0
            with pytest.raises(ApiError, match="disk is full"):
                await client.create(NAMESPACES, {"metadata": {"name": "c"}})


async def test_a_watch_from_before_a_restart_is_expired(tmp_path: Path) -> None:
    """History is not kept: a client must list again."""
    data = tmp_path / "lab.db"
    async with ApiServer(data=data) as server, aiohttp.ClientSession(server.url) as session:
        created = await create(session, "a")
    version = created["metadata"]["resourceVersion"]
    async with ApiServer(data=data) as server, aiohttp.ClientSession(server.url) as session:
        query = {"watch": "true", "resourceVersion": version}
        async with session.get(CONFIG_MAPS, params=query) as watch:
            event = await watch.content.readline()
    assert b'"code":410' in event


async def test_custom_resources_are_served_again_after_a_restart(tmp_path: Path) -> None:
    """Definitions are taken up when the server starts."""
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    data = tmp_path / "lab.db"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with (
        ApiServer(data=data) as server,
        aiohttp.ClientSession(server.url) as session,
        session.post(path, json=definition) as response,
    ):
        assert response.status == 201
    async with (
        ApiServer(data=data) as server,
        aiohttp.ClientSession(server.url) as session,
        session.get("/apis/example.com/v1/widgets") as response,
    ):
        assert (await response.json())["kind"] == "WidgetList"


async def test_two_servers_cannot_share_a_file(tmp_path: Path) -> None:
    """The second gets an error with the file's name."""
    data = tmp_path / "lab.db"
    async with ApiServer(data=data):
        with pytest.raises(ConfigError, match=r"lab\.db"):
            async with ApiServer(data=data):
                pass


async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """Everything that a client got a 201 for is there after SIGKILL."""
    data = tmp_path / "lab.db"
    program = (
        "import asyncio, sys, pathlib\n"
        "from kube_lab_server import ApiServer\n"
        "async def main():\n"
        "    async with ApiServer(data=pathlib.Path(sys.argv[1])) as server:\n"
        "        print(server.url, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(data), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    acknowledged: set[str] = set()
    enough = asyncio.Event()

    async def keep_creating(session: aiohttp.ClientSession, writer: int) -> None:
        for number in range(1000):
            name = f"w{writer}-{number}"
            await create(session, name)
            acknowledged.add(name)
            if len(acknowledged) >= 40:
                enough.set()

    async with aiohttp.ClientSession(url) as session:
        writers = [asyncio.create_task(keep_creating(session, writer)) for writer in range(4)]
        await enough.wait()
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.gather(*writers, return_exceptions=True)
    await process.wait()
    async with ApiServer(data=data) as server, aiohttp.ClientSession(server.url) as session:
        assert acknowledged <= await names(session)
