"""A real kubelet in a mount namespace: every configuration, many pods, many restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio
from tests.vm import namespace
from tests.vm.campaign import Campaign
from tests.vm.cluster import Cluster
from tests.vm.conftest import Settings, real_cluster
from tests.vm.kubelets import Choice, every_choice
from tests.vm.plan import check_plan

from numakube.testing import elapse

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(3600),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not namespace.can_be_had(), reason=namespace.NEEDS),
]

MOST_CPU = 0.005
MOST_BYTES = 60_000_000
REST_SECONDS = 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(short_folder: Path, settings: Settings) -> AsyncIterator[Cluster]:
    """A cluster whose node has four NUMA nodes."""
    async with real_cluster("namespace", "four", short_folder, settings) as one:
        yield one


async def test_no_pod_is_misread(running: Cluster, settings: Settings) -> None:
    """Scheduler, model and report agree with the kubelet at all times."""
    campaign = Campaign(running, Random(settings.seed))
    choices = list(every_choice())
    await check_plan(campaign, choices, pods=settings.pods, restarts=settings.restarts)


async def test_an_exporter_at_rest_uses_next_to_nothing(running: Cluster) -> None:
    """Nothing happens on the node for a minute."""
    await running.configure(Choice())
    before, _ = await running.node.usage("exporter")
    await elapse(REST_SECONDS)
    after, size = await running.node.usage("exporter")
    share = (after - before) / REST_SECONDS
    print(f"exporter at rest: {share:.2%} of a core, {size / 1e6:.0f} MB")
    assert share <= MOST_CPU
    assert size <= MOST_BYTES
