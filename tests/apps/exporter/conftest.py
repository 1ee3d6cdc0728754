"""An API server without sockets, with and without the definition of the objects."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kube_lab_server import ApiServer
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess


@pytest.fixture
async def bare() -> AsyncIterator[Client]:
    """A cluster that does not know NodeResourceTopology objects."""
    async with ApiServer() as server:
        yield Client(InProcess(server), rate=0)


@pytest.fixture
async def client(bare: Client) -> Client:
    """A cluster that does."""
    await install_definition(bare)
    return bare


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()
