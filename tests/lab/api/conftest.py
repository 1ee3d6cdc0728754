"""A client of a fresh API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.lab.api.client import Client

from numakube_lab.api.server.api_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A fresh server that lets everybody do everything."""
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Client]:
    """A client of the server."""
    async with aiohttp.ClientSession(server.url) as session:
        yield Client(session)
