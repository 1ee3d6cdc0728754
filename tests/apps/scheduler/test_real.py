"""A kube-apiserver that is killed and started again under a scheduler at work."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.apps.scheduler.invariants import Ledger, assert_invariants
from tests.real.api_server import RealServer
from tests.real.marks import needs_assets
from tests.sites.real_site import RealSite, real_site

from numakube.errors import AlreadyExists, ApiError, ClusterUnreachable
from numakube.kube.catalog import PODS
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, lab_cluster

pytestmark = [needs_assets, pytest.mark.timeout(400)]

KILLS = 2
PODS_A_KILL = 12


async def test_a_killed_server_loses_nothing_and_nothing_is_bound_twice(
    shared_server: RealServer,
) -> None:
    """Pods are created all the while; in the end every one of them runs."""
    rng = Random(7)
    on = partial(real_site, shared_server)
    async with lab_cluster(3, shape="2 sockets, 8 cores, smt 2, 64Gi", on=on) as world:
        assert isinstance(world.site, RealSite)
        ledger = Ledger.of(world)
        running = await world.start()
        for turn in range(KILLS):
            pods = [pod_document(f"p{turn}-{n}", "2", "512Mi") for n in range(PODS_A_KILL)]
            creating = asyncio.create_task(create_in_the_end(world, pods))
            moment = turn * PODS_A_KILL + rng.randrange(PODS_A_KILL)
            await world.until(lambda: len(world.pods.store) >= moment)  # noqa: B023
            await world.site.restart()
            await creating
        total = KILLS * PODS_A_KILL
        await world.until(lambda: len(world.by_phase("Running")) == total)
        await assert_invariants(world, ledger)
        assert not running.task.done()


async def create_in_the_end(world: LabCluster, documents: list[dict[str, Any]]) -> None:
    """Create pods one after the other, however long the server is away."""
    for document in documents:
        await until(lambda: is_created(world, document))  # noqa: B023


async def is_created(world: LabCluster, document: dict[str, Any]) -> bool:
    """Try to create a pod; tell whether it is there."""
    try:
        await world.client.create(PODS.raw, document, namespace="default")
    except AlreadyExists:
        return True
    except (ApiError, ClusterUnreachable):
        return False
    return True
