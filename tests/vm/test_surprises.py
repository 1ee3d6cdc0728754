"""A real kubelet whose exporter reports only surprises: readers know as much, from fewer writes."""

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
from tests.vm.kubelets import every_choice
from tests.vm.plan import check_plan

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(3600),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not namespace.can_be_had(), reason=namespace.NEEDS),
]
MOST_WRITES = 0.1
"""Reports for each pod that the kubelet has admitted."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(short_folder: Path, settings: Settings) -> AsyncIterator[Cluster]:
    """A cluster whose node has four NUMA nodes; its exporter has no heartbeat during the tests."""
    silent = ["--max-silence=10h"]
    async with real_cluster("namespace", "four", short_folder, settings, exporter=silent) as one:
        yield one


async def test_what_was_foreseen_is_not_written(running: Cluster, settings: Settings) -> None:
    """Last report and predictions together are the kubelet's books, from few reports."""
    campaign = Campaign(running, Random(settings.seed))
    await check_plan(campaign, list(every_choice()), pods=settings.pods)
    written, admitted = campaign.counts["versions"], campaign.counts["pods admitted"]
    print(f"{written} reports for {admitted} pods")
    # Device plugins may be a moment late when a kubelet starts with another configuration.
    assert written <= MOST_WRITES * admitted + campaign.counts["configurations"]


async def test_nothing_is_misread_after_restarts(running: Cluster, settings: Settings) -> None:
    """Of the kubelet, its device plugins, the exporter and the API server."""
    campaign = Campaign(running, Random(settings.seed + 1))
    choices = list(every_choice())
    await check_plan(campaign, choices, pods=settings.pods, restarts=settings.restarts)
