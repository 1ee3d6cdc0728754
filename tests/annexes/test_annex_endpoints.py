"""What an annex serves where a program serves: it is found, guarded and ended."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.annexes.installing import installed
from tests.sites.bare import BareServer, bare_lab

from numakube import annex_index
from numakube.annexes import Added, Annex, Group
from numakube.apps.debugging.annex_endpoints import AnnexEndpoints, ServingProgram
from numakube.apps.host.endpoint_access import Access
from numakube_lab.replay.run_case import TOKENS

POINTS = f"[{Group.ENDPOINTS}]\nname = named:make\ntools = named:make_for_tools\n"
NAMED = """
from contextlib import asynccontextmanager

from aiohttp import web

from numakube.apps.debugging.annex_endpoints import Endpoints

ended = []


class Named(Endpoints):
    def __init__(self, program, path):
        self.program, self.path = program, path

    def routes(self, access):
        return [web.get(self.path, access.guarded(self.answer))]

    async def answer(self, request):
        return web.Response(text=self.program.title)

    @asynccontextmanager
    async def served(self):
        yield
        ended.append(self.path)


def make(program):
    return Named(program, "/name")


def make_for_tools(program):
    named = Named(program, "/tools/name")
    named.called_by_tools = True
    return named
"""


async def answers(
    server: BareServer, routes: list[web.RouteDef], *paths: str, token: str = ""
) -> list[tuple[int, str]]:
    """Return status and text of each of *paths*."""
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with aiohttp.ClientSession(f"http://{host}:{port}", headers=headers) as session:
            return [await _answer(session, path) for path in paths]
    finally:
        await runner.cleanup()


async def _answer(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as response:
        return response.status, await response.text()


async def test_routes_are_served_to_those_who_may(tmp_path: Path) -> None:
    with installed(tmp_path, POINTS, named=NAMED):
        async with bare_lab() as server:
            added = AnnexEndpoints(ServingProgram(client=server.client, title="here"))
            routes = added.routes(Access(server.client, host="0.0.0.0"))
            paths = ("/name", "/tools/name")
            strangers = await answers(server, routes, *paths)
            alice = await answers(server, routes, *paths, token=TOKENS["alice"])
            admin = await answers(server, routes, *paths, token=TOKENS["admin"])
            assert [status for status, _ in strangers] == [401, 401]
            assert [status for status, _ in alice] == [403, 403]
            assert admin == [(200, "here"), (200, "here")]


async def test_tools_get_what_is_for_them(tmp_path: Path) -> None:
    with installed(tmp_path, POINTS, named=NAMED):
        async with bare_lab() as server:
            added = AnnexEndpoints(ServingProgram(client=server.client))
            access = Access(server.client, host="127.0.0.1")
            paths = [route.path for route in added.routes_for_tools(access)]
            assert paths == ["/tools/name"]


async def test_each_lives_as_long_as_it_is_served(tmp_path: Path) -> None:
    with installed(tmp_path, POINTS, named=NAMED):
        async with bare_lab() as server:
            added = AnnexEndpoints(ServingProgram(client=server.client))
            import named  # type: ignore[import-not-found]

            async with added.served():
                assert named.ended == []
            assert sorted(named.ended) == ["/name", "/tools/name"]


async def test_a_path_whose_annex_is_not_here_says_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = Added(name="rooms", summary="Pages about rooms.", path="/rooms/")
    annex = Annex(name="rooms", summary="Rooms and halls.", extra="halls", endpoints=(pages,))
    monkeypatch.setattr(annex_index, "ANNEXES", (annex,))
    async with bare_lab() as server:
        added = AnnexEndpoints(ServingProgram(client=server.client))
        routes = added.routes(Access(server.client, host="127.0.0.1"))
        for status, text in await answers(server, routes, "/rooms/", "/rooms"):
            assert status == 501
            assert "pip install 'numakube[halls]'" in text
