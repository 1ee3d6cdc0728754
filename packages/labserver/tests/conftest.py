"""A client of a fresh API server, and settings for all tests of this distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from hypothesis import settings
from packages.labserver.tests.client import Client

from kube_lab_server import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# How long an example takes says more about the load of the machine than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


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
