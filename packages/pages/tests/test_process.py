"""``numakube dashboard`` as a process: a live cluster, or a bundle."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import pytest
from packages.pages.tests.world import kubelet, node_object, pod_object, report_of

from kube_lab_server import ApiServer
from numakube.api.yaml_text import dump_yaml
from numakube.apps.bundle import pack
from numakube.apps.host.process_life import Surroundings
from numakube.errors import ConfigError
from numakube.insight.collected import NODES, PODS, TOPOLOGIES, Collected, list_file
from numakube.kube import catalog
from numakube.kube.client import Client
from numakube.testing import until
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess
from numakube_pages.process import PROGRAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def running(*args: str) -> AsyncIterator[str]:
    """Run the process while the context lasts; return the address that it announces."""
    stop = asyncio.Event()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    around = Surroundings(env={}, echo=lambda text: address.set_result(text.split()[-1]))
    process = asyncio.create_task(PROGRAM.perform(("--port", "0", *args), around, stop))
    both: set[asyncio.Future[Any]] = {process, address}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if process.done():
        await process
    yield address.result()
    stop.set()
    assert await process == 0


async def text_until(session: aiohttp.ClientSession, url: str, words: str) -> str:
    """Return the page once it has *words*."""

    async def page() -> str:
        async with session.get(url) as response:
            return await response.text()

    return await until(page, lambda text: words in text)


def kubeconfig_in(folder: Path, server: str) -> str:
    """Write a kubeconfig for *server* and return its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(dump_yaml(document), encoding="utf-8")
    return str(path)


async def test_a_live_cluster_is_followed(tmp_path: Path) -> None:
    """Health says when all is listed; an open stream does not keep the process from ending."""
    async with ApiServer() as server, aiohttp.ClientSession() as session:
        client = Client(InProcess(server), rate=0)
        await install_definition(client)
        await client.create(catalog.NODES, {"metadata": {"name": "first"}})
        async with running("--kubeconfig", kubeconfig_in(tmp_path, server.url)) as url:
            root = url.removesuffix("/dashboard/")
            await text_until(session, f"{root}/readyz?verbose", "[+]caches ok")
            assert "first" in await text_until(session, url, "first")
            await client.create(catalog.NODES, {"metadata": {"name": "second"}})
            await text_until(session, f"{url}nodes", "second")
            async with session.get(f"{root}/metrics") as response:
                assert 'component="dashboard"' in await response.text()
            stream = await session.get(f"{url}events")
            assert stream.status == 200
        stream.close()


def bundle_in(folder: Path) -> str:
    """Write a bundle and return its path."""
    model = kubelet()
    pod = pod_object("held", cpu="4", node="node-0")
    model.admit(pod)
    objects: dict[str, list[Any]] = {
        NODES: [node_object("node-0")],
        PODS: [pod],
        TOPOLOGIES: [report_of("node-0", model)],
    }
    files = {
        list_file(kind): msgspec.json.encode({"kind": "List", "items": items})
        for kind, items in objects.items()
    }
    path = folder / "bundle.tgz"
    path.write_bytes(pack(Collected("2026-11-15T12:00:00Z", files)))
    return str(path)


async def test_a_bundle_is_shown_like_a_cluster(tmp_path: Path) -> None:
    """With the time that it was taken."""
    async with running("--from", bundle_in(tmp_path)) as url, aiohttp.ClientSession() as session:
        text = await text_until(session, f"{url}nodes/node-0", "held")
        assert "recorded 2026-11-15T12:00:00Z" in text


async def test_a_bundle_is_for_this_machine_only(tmp_path: Path) -> None:
    """There is no API server that knows tokens."""
    words = ("--from", bundle_in(tmp_path), "--bind-address", "0.0.0.0:0", "--insecure-serving")
    with pytest.raises(ConfigError, match="this machine only"):
        await PROGRAM.perform(words, Surroundings(env={}), asyncio.Event())


async def test_a_bundle_that_is_none_is_told_by_name(tmp_path: Path) -> None:
    """So is a file that does not exist."""
    with pytest.raises(ConfigError, match="No such file"):
        async with running("--from", str(tmp_path / "missing")):
            pass
