"""A dashboard that is really served, for tests."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from numakube_pages.dashboard import PREFIX, Dashboard
from numakube_pages.live_updates import Live
from numakube_pages.page_access import Gate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import TypeAlias

    from numakube_pages.history_view import History
    from numakube_pages.page_source import Source

    Visitor: TypeAlias = TestClient[web.Request, web.Application]


@asynccontextmanager
async def served(
    source: Source,
    *,
    gate: Gate | None = None,
    live: Live | None = None,
    history: History | None = None,
) -> AsyncIterator[Visitor]:
    """Serve *source* on loopback and return somebody who visits it."""
    gate = gate or Gate(source.clock, host="127.0.0.1", path=PREFIX)
    dashboard = Dashboard(source, gate=gate, live=live, history=history)
    application = web.Application()
    application.add_routes(dashboard.routes(at_root=True))
    async with TestClient(TestServer(application)) as client:
        try:
            yield client
        finally:
            dashboard.close()


async def page(visitor: Visitor, path: str = "", *, status: int = 200) -> str:
    """Return the HTML of a page."""
    async with visitor.get(PREFIX + path) as response:
        text = await response.text()
        assert response.status == status, text
        assert response.content_type == "text/html"
        return text


def words(text: str) -> str:
    """Return what a reader sees of the main part of a page."""
    main = text.partition("<main")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main).replace("&nbsp;", " "))
