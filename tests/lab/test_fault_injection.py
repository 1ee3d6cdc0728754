"""Faults as a client meets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import aiohttp
import pytest

from kube_lab_server import ApiServer, FaultKind, FaultRule, Faults

NODES = "/api/v1/nodes"


@pytest.fixture
def faults() -> Faults:
    """The faults of the server."""
    return Faults(Random(1))


@pytest.fixture
async def session(faults: Faults) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with a server that has faults."""
    async with ApiServer(faults=faults) as server, aiohttp.ClientSession(server.url) as session:
        yield session


async def test_a_failure_is_a_status_with_its_reason(
    session: aiohttp.ClientSession, faults: Faults
) -> None:
    """Clients see what a real server would send; afterwards all is well again."""
    faults.add(FaultRule(kind=FaultKind.FAIL, path="/nodes", code=503, times=1))
    async with session.get(NODES) as response:
        body = await response.json()
        assert (response.status, body["reason"]) == (503, "ServiceUnavailable")
        assert "injected" in body["message"]
    async with session.get(NODES) as response:
        assert response.status == 200


async def test_a_dropped_request_gets_no_answer(
    session: aiohttp.ClientSession, faults: Faults
) -> None:
    """The connection is broken off."""
    faults.add(FaultRule(kind=FaultKind.DROP, methods=("POST",)))
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.post("/api/v1/namespaces", json={})
    async with session.get(NODES) as response:
        assert response.status == 200
