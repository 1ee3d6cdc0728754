"""Fixtures of the plugin's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from packages.sriov.tests.build import Bed, pool
from packages.sriov.tests.kubelets import Plugin, folders_of, short_folder
from tests.lab.nodes.build import Lab

from kube_lab_server import ApiServer
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool
from numakube_sriov.pool_registration import Way


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    """Return an empty host."""
    return Bed(tmp_path)


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab of one node with sockets."""
    clock = ManualClock()
    async with short_folder() as root, ApiServer(now=clock.now, rng=Random(7)) as server:
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        async with NodePool(client, root=root) as nodes:
            lab = Lab(server, client, clock, nodes)
            await lab.node()
            yield lab


@pytest.fixture
async def plugin(lab: Lab, bed: Bed) -> AsyncIterator[Plugin]:
    """A plugin that has two virtual functions on each of two NUMA nodes, not started yet."""
    bed.two_sockets(2)
    found = Plugin(bed, folders_of(lab.pool, Way.REGISTER), bed.root / "config.json")
    found.configure(pool())
    yield found
    await found.end()
