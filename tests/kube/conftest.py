"""Fixtures of the client's tests: a scripted server and a client for it."""

from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.kube.collection import Collection

from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock
from numakube.kube.connect import connect
from numakube.kube.scripted_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A scripted server that listens."""
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
def clock() -> JumpingClock:
    """A clock on which sleeping takes no time."""
    return JumpingClock()


@pytest.fixture
async def client(server: ScriptedServer, clock: JumpingClock) -> AsyncIterator[Client]:
    """A client of the scripted server."""
    async with connect(server.config, clock=clock, rng=Random(1)) as client:
        yield client


@pytest.fixture
def pods(server: ScriptedServer) -> Collection:
    """The pods of the scripted server."""
    return Collection(server)
