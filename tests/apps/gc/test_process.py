"""Objects of nodes that have vanished go, all others stay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.kube.old_definitions import install, report, v1alpha1_in_namespaces

from kube_lab_server import ApiServer
from numakube.apps.gc.process import PROGRAM, GcProcess
from numakube.apps.gc.settings import GcSettings
from numakube.apps.host.process_life import Surroundings
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import NODES
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.connection.transport import Request, Response
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess


class Flaky(InProcess):
    """A server that fails deletions for a while."""

    failing = False

    async def send(self, request: Request) -> Response:
        """Fail, or pass on."""
        if self.failing and request.method == "DELETE":
            return Response(500, {}, b"{}")
        return await super().send(request)


class Cluster:
    """A cluster with nodes and reports."""

    def __init__(self, client: Client, clock: ManualClock, transport: Flaky) -> None:
        self.client = client
        self.clock = clock
        self.transport = transport
        self.said: list[str] = []
        self.around = Surroundings(env={}, serve=False, echo=self.said.append)

    async def node(self, name: str) -> None:
        """Add a node."""
        await self.client.create(NODES, {"metadata": {"name": name}})

    async def report(self, name: str) -> str:
        """Add a report; return its uid."""
        made = await self.client.create(NRTS, {"metadata": {"name": name}, "zones": []})
        return made.metadata.uid

    async def reports(self) -> list[str]:
        """Return the names of all reports."""
        return sorted(nrt.metadata.name for nrt in (await self.client.list(NRTS)).items)

    def process(self, *args: str) -> GcProcess:
        """Return a collector with these arguments."""
        settings = PROGRAM.read(PROGRAM.parse(args), self.around)
        return GcProcess(settings, self.around, self.client)

    @contextlib.asynccontextmanager
    async def collecting(self, *args: str) -> AsyncIterator[GcProcess]:
        """Run a collector while the context lasts."""
        stop, process = asyncio.Event(), self.process(*args)
        task = asyncio.create_task(process.run(stop))
        await self.clock.timeouts()
        yield process
        stop.set()
        assert await task == 0


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster on a clock that stands still."""
    clock = ManualClock()
    async with ApiServer(now=clock.now) as server:
        transport = Flaky(server)
        client = Client(transport, clock=clock, rate=0)
        await install_definition(client)
        yield Cluster(client, clock, transport)


async def test_reports_of_missing_nodes_go_after_the_grace_period(cluster: Cluster) -> None:
    """And those of present nodes stay."""
    await cluster.node("a")
    for name in ("a", "b"):
        await cluster.report(name)
    async with cluster.collecting("--grace-period", "1m"):
        await cluster.clock.advance(59)
        assert await cluster.reports() == ["a", "b"]
        await cluster.clock.advance(2)
        assert await cluster.reports() == ["a"]
    assert cluster.said == ["noderesourcetopology/b removed"]


async def test_c20_reports_in_namespaces_go_as_well(cluster: Cluster) -> None:
    """The one of a present node stays, in whichever namespace it is."""
    await install(cluster.client, v1alpha1_in_namespaces())
    await cluster.node("a")
    kind = replace(NRTS, version="v1alpha1", namespaced=True).raw
    for name in ("a", "b"):
        await cluster.client.create(kind, report(name, free="1", namespace="default"))
    process = cluster.process("--grace-period", "0s", "--oneshot")
    assert await process.run(asyncio.Event()) == 0
    assert [item["metadata"]["name"] for item in (await cluster.client.list(kind)).items] == ["a"]
    assert cluster.said == ["noderesourcetopology/default/b removed"]


async def test_a_deleted_node_is_noticed_without_waiting_for_the_interval(
    cluster: Cluster,
) -> None:
    """Its grace period begins at once."""
    await cluster.node("a")
    await cluster.report("a")
    async with cluster.collecting("--gc-interval", "1h", "--grace-period", "10s"):
        await cluster.clock.advance(100)
        await cluster.client.delete(NODES, "a")
        await cluster.clock.advance(0)  # the news has to arrive before time goes on
        await cluster.clock.advance(9)
        assert await cluster.reports() == ["a"]
        await cluster.clock.advance(2)
        assert await cluster.reports() == []


async def test_a_node_that_registers_anew_keeps_its_report(cluster: Cluster) -> None:
    """If it does within the grace period."""
    await cluster.node("a")
    await cluster.report("a")
    async with cluster.collecting("--grace-period", "10s", "--gc-interval", "20s"):
        await cluster.client.delete(NODES, "a")
        await cluster.clock.advance(5)
        await cluster.node("a")
        await cluster.clock.advance(100)
        assert await cluster.reports() == ["a"]


async def test_a_report_that_comes_later_is_found_at_the_interval(cluster: Cluster) -> None:
    """Reports are not watched, there is no hurry."""
    async with cluster.collecting("--grace-period", "0s", "--gc-interval", "1h"):
        await cluster.report("late")
        await cluster.clock.advance(3599)
        assert await cluster.reports() == ["late"]
        await cluster.clock.advance(2)
        assert await cluster.reports() == []


async def test_a_new_report_of_the_same_name_gets_a_grace_period_of_its_own(
    cluster: Cluster,
) -> None:
    """It is not the one that was condemned."""
    await cluster.report("a")
    async with cluster.collecting("--grace-period", "10s", "--gc-interval", "1s"):
        await cluster.clock.advance(9)
        await cluster.client.delete(NRTS, "a")
        new = await cluster.report("a")
        await cluster.clock.advance(5)
        assert (await cluster.client.get(NRTS, "a")).metadata.uid == new
        await cluster.clock.advance(10)
        assert await cluster.reports() == []


async def test_a_dry_run_says_what_would_go_once(cluster: Cluster) -> None:
    """And removes nothing."""
    await cluster.report("a")
    async with cluster.collecting("--dry-run", "--grace-period", "0s", "--gc-interval", "10s"):
        await cluster.clock.advance(100)
    assert cluster.said == ["noderesourcetopology/a would be removed"]
    assert await cluster.reports() == ["a"]


@pytest.mark.parametrize("size", ["0", "2"])
async def test_one_shot_ends_when_everything_is_done(cluster: Cluster, size: str) -> None:
    """After the grace period, however many pages there are."""
    for number in range(5):
        await cluster.report(f"r{number}")
    process = cluster.process("--oneshot", "--grace-period", "10s", "--list-size", size)
    task = asyncio.create_task(process.run(asyncio.Event()))
    await cluster.clock.timeouts()
    await cluster.clock.advance(11)
    assert await task == 0
    assert await cluster.reports() == []


async def test_one_shot_without_orphans_ends_at_once(cluster: Cluster) -> None:
    """There is nothing to wait for."""
    await cluster.node("a")
    await cluster.report("a")
    assert await cluster.process("--oneshot").run(asyncio.Event()) == 0


async def test_what_could_not_be_removed_is_tried_again(cluster: Cluster) -> None:
    """Soon, not after the interval."""
    await cluster.report("a")
    cluster.transport.failing = True
    async with cluster.collecting("--grace-period", "0s"):
        await cluster.clock.advance(5)
        assert await cluster.reports() == ["a"]
        cluster.transport.failing = False
        await cluster.clock.advance(30)
        assert await cluster.reports() == []


async def test_a_cluster_without_such_objects_is_fine() -> None:
    """They may be defined later."""
    clock = ManualClock()
    async with ApiServer(now=clock.now) as server:
        client = Client(InProcess(server), clock=clock, rate=0)
        settings = GcSettings(oneshot=True)
        assert await GcProcess(settings, Surroundings(env={}), client).run(asyncio.Event()) == 0
