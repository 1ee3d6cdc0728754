"""What pods change goes to an object of its own, and the rest of the report stays."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.apps.exporter.objects import NODE
from tests.scheduling.numa.caches.reported_node import ReportedNode, pod

from numakube.api.nrt import NodeResourceTopology, attribute_value
from numakube.apps.exporter.api_objects import NodeObject
from numakube.apps.exporter.nrt_writer import WHOLE_SECONDS, ObjectPublisher, Operation
from numakube.apps.exporter.report import Report
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.errors import ApiError, ClusterUnreachable, Conflict, TooManyRequests
from numakube.kube.catalog import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGY_UPDATES,
)
from numakube.kube.client import Client, merge_patch
from numakube.topology import nrt_names
from numakube.topology.report_update import updated

CONFLICT = Conflict("it was changed", code=409, reason="Conflict")


class Site:
    """A node, its report on the server, and what readers make of it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.node = ReportedNode.make(NODE)
        self.publisher = self.started()

    def started(self) -> ObjectPublisher:
        """Return an exporter's publisher that has written nothing yet."""
        node = NodeObject(self.client, NODE)
        return ObjectPublisher(self.client, node, name=NODE, max_silence=300.0)

    async def publish(self, cause: ScanCause = ScanCause.REACTIVE) -> Operation:
        """Write what the node is like."""
        nrt = self.node.report()
        nothing: dict[str, Any] = {"fingerprints": {}, "method": "all", "pods": (), "problems": ()}
        report = Report(
            zones=nrt.zones,
            attributes=nrt.attributes,
            annotations=nrt.metadata.annotations,
            **nothing,
        )
        return (await self.publisher.publish(report, cause=cause, slept=None)).operation

    async def report(self) -> NodeResourceTopology:
        """Return the report as it was written."""
        return await self.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)

    async def says_the_truth(self) -> bool:
        """Tell whether readers have what the node is like."""
        (update,) = (await self.client.list(NODE_RESOURCE_TOPOLOGY_UPDATES)).items or (None,)
        found, now = updated(await self.report(), update), self.node.report()
        exact = nrt_names.EXACT_ANNOTATION
        return (found.zones, found.metadata.annotations[exact]) == (
            now.zones,
            now.metadata.annotations[exact],
        )


@pytest.fixture
def site(client: Client) -> Site:
    """A node whose exporter has started."""
    return Site(client)


async def test_the_first_report_is_whole_and_later_ones_are_updates(site: Site) -> None:
    """Which belong to it, so that they vanish with it."""
    await site.publish()
    whole = await site.report()
    assert await site.says_the_truth()
    for number in range(3):
        site.node.admit(pod(f"p{number}", cpus=1))
        assert await site.publish(ScanCause.PERIODIC) is Operation.UPDATE
        assert await site.says_the_truth()
    assert await site.report() == whole
    (update,) = (await site.client.list(NODE_RESOURCE_TOPOLOGY_UPDATES)).items
    assert update.metadata.is_owned_by(whole.metadata.uid)


async def test_more_than_pods_change_makes_a_whole_report(site: Site) -> None:
    """And updates are of that one from then on."""
    await site.publish()
    before = await site.report()
    await site.publisher.mark_stale("the kubelet is away")
    site.node.admit(pod("p0", cpus=1))
    await site.publish()
    after = await site.report()
    assert attribute_value(after.attributes, nrt_names.STALE) is None
    assert after.metadata.annotations != before.metadata.annotations
    site.node.remove("p0")
    await site.publish()
    assert await site.report() == after
    assert await site.says_the_truth()


async def test_an_exporter_that_starts_again_writes_the_whole_report(site: Site) -> None:
    """The update of its predecessor is not taken for an update of it."""
    await site.publish()
    site.node.admit(pod("p0", cpus=1))
    await site.publish()
    before = await site.report()
    site.node.remove("p0")
    site.publisher = site.started()
    await site.publish()
    assert await site.report() != before
    assert await site.says_the_truth()
    site.node.admit(pod("p1", cpus=2))
    await site.publish()
    assert await site.says_the_truth()


async def test_a_report_that_is_gone_is_written_again(site: Site) -> None:
    """Its update is deleted with it."""
    await site.publish()
    await site.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    await site.client.delete_collection(NODE_RESOURCE_TOPOLOGY_UPDATES)
    assert await site.publish(ScanCause.PERIODIC) is Operation.CREATE
    assert await site.says_the_truth()


async def test_what_somebody_wrote_meanwhile_is_replaced(site: Site) -> None:
    """A late write of an exporter that was killed, a person's, or what a backup had."""
    await site.publish()
    site.node.admit(pod("p0", cpus=1))
    await site.publish()
    before = await site.report()
    patch = merge_patch({"available": ["7", "7"]})
    await site.client.patch(NODE_RESOURCE_TOPOLOGY_UPDATES, NODE, patch)
    site.node.admit(pod("p1", cpus=1))
    assert await site.publish() is Operation.UPDATE
    assert await site.report() != before
    assert await site.says_the_truth()


async def test_a_report_that_a_backup_brought_back_is_replaced_though_nothing_changed(
    site: Site,
) -> None:
    """What we wrote last is not what the server has."""
    await site.publish()
    before = await site.report()
    await site.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, merge_patch({"zones": []}))
    patch = merge_patch({"available": ["7", "7"]})
    await site.client.patch(NODE_RESOURCE_TOPOLOGY_UPDATES, NODE, patch)
    assert await site.publish() is Operation.UPDATE
    assert (await site.report()).zones == before.zones
    assert await site.says_the_truth()


async def test_two_exporters_do_not_hide_what_either_says(site: Site) -> None:
    """One of them may be on its way out."""
    first, second = site.publisher, site.started()
    for number, site.publisher in enumerate((first, first, second, second, first, second)):
        site.node.admit(pod(f"p{number}", cpus=0.5))
        await site.publish()
        assert await site.says_the_truth()


@pytest.mark.parametrize("error", [ClusterUnreachable("lost", sent=True), CONFLICT])
async def test_updates_are_of_the_report_that_the_server_has(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Even if the answer to the last whole one was lost, or it was sent twice."""
    await site.publish()
    patch = Client.patch

    async def stored_without_answer(self: Client, *args: Any, **options: Any) -> Any:
        await patch(self, *args, **options)
        monkeypatch.setattr(Client, "patch", patch)
        raise error

    site.publisher.forget()
    monkeypatch.setattr(Client, "patch", stored_without_answer)
    with contextlib.suppress(ClusterUnreachable):
        await site.publish()
    for number in range(2):
        site.node.admit(pod(f"p{number}", cpus=1))
        await site.publish()
        assert await site.says_the_truth()
    (update,) = (await site.client.list(NODE_RESOURCE_TOPOLOGY_UPDATES)).items
    assert update.metadata.is_owned_by((await site.report()).metadata.uid)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("code", "attempts"), [(403, 1), (405, 1), (422, 1), (500, 2), (429, 0)])
async def test_a_server_that_refuses_updates_gets_whole_reports(
    site: Site, monkeypatch: pytest.MonkeyPatch, code: int, attempts: int, *, first: bool
) -> None:
    """At once, or after a failure; one that has too much to do is asked for no more than that."""
    await site.publish()
    if first:
        site.publisher = site.started()

    async def refuse(self: Client, *args: Any, **options: Any) -> Any:
        raise (TooManyRequests if code == 429 else ApiError)("no", code=code, reason="")

    monkeypatch.setattr(Client, "update", refuse)
    site.node.admit(pod("p0", cpus=1))
    for attempt in range(1, 4):
        with contextlib.suppress(ApiError):
            await site.publish()
        assert await site.says_the_truth() is (first or 0 < attempts <= attempt)


async def test_the_whole_report_is_written_once_an_hour(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For others who read it."""
    await site.publish()
    before = await site.report()
    clock = site.client.clock
    late = clock.monotonic() + WHOLE_SECONDS
    monkeypatch.setattr(type(clock), "monotonic", lambda _: late)
    await site.publish(ScanCause.PERIODIC)
    assert await site.report() != before
    assert await site.says_the_truth()


async def test_without_the_kind_the_whole_report_is_written(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster may have the definition of reports alone; it is not asked each time."""
    name = "noderesourcetopologyupdates.topology.numakube.dev"
    await site.client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    await site.publish()
    create, created = Client.create, list[str]()

    async def note(self: Client, resource: Any, *args: Any, **options: Any) -> Any:
        created.append(resource.plural)
        return await create(self, resource, *args, **options)

    monkeypatch.setattr(Client, "create", note)
    for number in range(2):
        before = await site.report()
        site.node.admit(pod(f"p{number}", cpus=1))
        assert await site.publish() is Operation.UPDATE
        after = await site.report()
        assert after != before
        assert after.zones == site.node.report().zones
    assert created == []


async def test_another_configuration_makes_a_whole_report(site: Site) -> None:
    """An update has no place for it."""
    await site.publish()
    before = await site.report()
    site.node.admit(pod("p0", cpus=1))
    await site.publish()
    assert await site.report() == before
    site.node = ReportedNode.make(NODE, policy="restricted")
    assert await site.publish() is Operation.UPDATE
    after = await site.report()
    assert attribute_value(after.attributes, nrt_names.TOPOLOGY_POLICY) == "restricted"
    assert await site.says_the_truth()
