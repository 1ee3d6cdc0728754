"""The dashboard inside a scheduler and an extender."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import aiohttp
import pytest
from packages.pages.tests.serving import words

from numakube.apps.debugging.annex_endpoints import ServingProgram
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Elsewhere, Health, Listen, Serving
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.scheduling.snapshot.zone_belief import KubeletRejection, Misprediction
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, Opener, lab_cluster, without_election
from numakube_pages.dashboard import PREFIX
from numakube_pages.endpoints import mounted

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """One node with a pod, and one that waits."""
    async with lab_cluster(1, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        await world.start()
        await world.create(pod_document("runs"), pod_document("waits", "40"))
        await world.runs("runs")
        await world.refuses("waits")
        yield world


def serving(world: LabCluster) -> Serving:
    """Return a server of the scheduler's dashboard."""
    (running,) = world.running
    process = running.process
    program = ServingProgram(client=running.client, decides=process.deciding())
    access = Access(running.client, host="127.0.0.1")
    routes = mounted(program).routes(access)
    return Serving(Listen(), health=Health(), registry=process.registry, routes=routes)


async def shown(session: aiohttp.ClientSession, path: str, *texts: str) -> str:
    """Return the words of a page as soon as it has all *texts*."""

    async def page() -> str:
        async with session.get(PREFIX + path) as response:
            text = await response.text()
            assert response.status == 200, text
            return words(text)

    return await until(page, lambda seen: all(text in seen for text in texts))


async def test_a_schedulers_dashboard_shows_what_it_decided(world: LabCluster) -> None:
    """The queue, the timeline, what it believes, the explanation, mispredictions."""
    async with serving(world) as server, aiohttp.ClientSession(server.url) as session:
        pending = await shown(session, "pending")
        assert re.search(r"waits numakube-scheduler (unschedulable|backoff|active)", pending)
        assert "No gang waits." in pending
        labels = {NAME_LABEL: "team", MIN_LABEL: "2"}
        await world.create(pod_document("lonely", "1", metadata={"labels": labels}))
        await shown(session, "pending", "Gangs that wait", "there are 1 of 2")
        await shown(session, "pods/default/lonely", "Gang team")
        way = (
            "queued for attempt 1",
            "chose node-0",
            "reserved",
            "bound",
            "admitted by the kubelet",
        )
        await shown(session, "pods/default/runs", *way)
        waits = await shown(session, "pods/default/waits", "none of 1 nodes fits")
        assert "It fits on none of 1 nodes" in waits or "What would help" in waits
        await shown(session, "caches", "exact")
        await shown(session, "mispredictions", "None so far.")
        recording = world.running[0].process.scheduler.recording
        wrong = Misprediction(
            node="node-0",
            pod="default/runs",
            uid="u",
            predicted={(0,): {"cpu": 2000}},
            reported=KubeletRejection("TopologyAffinityError"),
        )
        recording.mispredictions.append((recording.since, wrong))
        await shown(session, "mispredictions", "zone 0: cpu 2 refusal (TopologyAffinityError)")
        await shown(session, "", "expected zone 0: cpu 2, got refusal")


async def test_it_is_served_where_the_scheduler_listens(world: LabCluster) -> None:
    """Which ends although a stream is open."""
    client = world.connect()
    process, stop = SchedulerProcess(without_election(), client), asyncio.Event()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    told = Elsewhere(move=False, announce=lambda _, url: address.set_result(url))
    task = asyncio.create_task(process.run(stop, Listen(elsewhere=told)))
    async with aiohttp.ClientSession(await address) as session:
        await shown(session, "", "Nodes ready 1")
        async with session.get(f"{PREFIX}events") as stream:
            assert stream.status == 200
            stop.set()
            assert await task == 0
    await client.aclose()
