"""A lab of nodes: API server, client without sockets, a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest
from tests.lab.nodes.build import Lab

from kube_lab_server import ApiServer
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab without nodes yet."""
    clock = ManualClock()
    async with ApiServer(now=clock.now, rng=Random(7)) as server:
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        async with NodePool(client) as pool:
            yield Lab(server, client, clock, pool)
