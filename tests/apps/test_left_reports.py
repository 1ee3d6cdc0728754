"""What exporters leave on reports goes when they are removed for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kube_lab_server import ApiServer
from numakube.apps.left_reports import Cleared, clear_all_reports, clear_reports
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGY_UPDATES as UPDATES
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.topology import nrt_names
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess

SYSTEM = "kube-system"
EXACT = nrt_names.EXACT_ANNOTATION


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
async def client(clock: ManualClock) -> AsyncIterator[Client]:
    """A cluster without nodes that has the kinds of reports."""
    async with ApiServer(now=clock.now) as server:
        client = Client(InProcess(server), clock=clock, rate=0)
        await install_definition(client)
        yield client


async def report(client: Client, name: str, exporter: str = "") -> None:
    """Create a report with exact data, as *exporter* wrote it."""
    told = [{"name": nrt_names.EXPORTER, "value": exporter}] if exporter else []
    annotations = {EXACT: "{}", nrt_names.SURPRISES_ANNOTATION: "60", "example.com/team": "a"}
    metadata = {"name": name, "annotations": annotations}
    await client.create(NRTS.raw, {"metadata": metadata, "attributes": told, "zones": []})
    time = "2026-11-18T03:00:00.000000Z"
    update = {"report": time, "time": time, "available": [], "exact": "{}"}
    await client.create(UPDATES.raw, {"metadata": {"name": name}, **update})


async def exporter(client: Client, name: str) -> None:
    """Run an exporter."""
    spec = {"containers": [{"name": "exporter", "image": "numakube"}]}
    await client.create(PODS.raw, {"metadata": {"name": name}, "spec": spec}, namespace=SYSTEM)


async def exact(client: Client) -> set[str]:
    """Return the reports with exact data."""
    found = (await client.list(NRTS)).items
    return {one.metadata.name for one in found if EXACT in one.metadata.annotations}


async def ended(task: asyncio.Task[Cleared], clock: ManualClock) -> Cleared:
    """Let time pass until *task* has ended."""
    while not task.done():
        await clock.advance(1)
    return task.result()


async def test_only_what_exporters_left_that_are_gone_is_taken_off(client: Client) -> None:
    """Those of other namespaces, those without a pod and those that run keep theirs."""
    await exporter(client, "exporter-here")
    await report(client, "gone", f"{SYSTEM}/exporter-gone")
    await report(client, "here", f"{SYSTEM}/exporter-here")
    await report(client, "elsewhere", "default/exporter-gone")
    await report(client, "host")
    assert await clear_reports(client, SYSTEM, updates=True) == Cleared(("gone",), ("here",))
    assert await exact(client) == {"here", "elsewhere", "host"}
    left = await client.get(NRTS, "gone")
    assert left.metadata.annotations == {"example.com/team": "a"}
    assert left.attributes[0].name == nrt_names.EXPORTER
    updates = {update.metadata.name for update in (await client.list(UPDATES)).items}
    assert updates == {"here", "elsewhere", "host"}
    assert await clear_reports(client, SYSTEM) == Cleared((), ("here",))


async def test_exporters_that_are_ending_are_waited_for(client: Client, clock: ManualClock) -> None:
    """They would write it again."""
    await exporter(client, "exporter-ends")
    await report(client, "n1", f"{SYSTEM}/exporter-ends")
    task = asyncio.create_task(clear_all_reports(client, SYSTEM, seconds=5))
    await clock.advance(2)
    assert await exact(client) == {"n1"}
    await client.delete(PODS, "exporter-ends", namespace=SYSTEM, grace_seconds=0)
    assert await ended(task, clock) == Cleared(("n1",))
    assert not await exact(client)


async def test_exporters_that_stay_are_not_waited_for_for_ever(
    client: Client, clock: ManualClock
) -> None:
    """They keep their data."""
    await exporter(client, "exporter-stays")
    await report(client, "n1", f"{SYSTEM}/exporter-stays")
    task = asyncio.create_task(clear_all_reports(client, SYSTEM, seconds=5))
    assert await ended(task, clock) == Cleared((), ("n1",))


async def test_nothing_is_to_be_done_where_reports_are_not_known(clock: ManualClock) -> None:
    """Their definition went before."""
    async with ApiServer(now=clock.now) as server:
        assert await clear_reports(Client(InProcess(server), clock=clock), SYSTEM) == Cleared()
