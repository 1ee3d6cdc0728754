"""A4, D15: a node's report is its NodeResourceTopology, or else its Numatopology of Volcano."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, of_surprises, pod
from tests.topology.producers import document, golden

from kube_lab_server import ApiServer
from numakube.api.codec import convert, to_tree
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import NodeResourceTopology
from numakube.api.nrt_update import NodeResourceTopologyUpdate
from numakube.api.volcano_numatopology import GROUP, KIND, PLURAL, VERSION, Numatopology
from numakube.apps.anonymising import anonymise
from numakube.apps.cluster_file import collected_of
from numakube.apps.gathering import EVERYTHING, ZONES, gather
from numakube.apps.node_reports import NUMATOPOLOGIES, NodeReports, node_reports, read_topology
from numakube.errors import MalformedObject, NotFound
from numakube.insight.collected import Collected
from numakube.insight.facts import facts_of
from numakube.kube.catalog import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGY_UPDATES,
)
from numakube.kube.client import Client
from numakube.kube.decode import Malformed
from numakube.kube.resource_types import ObjectKey
from numakube.kube.store import Change, Store
from numakube.scheduling.numa.caches.predict import Predict
from numakube.topology.report_update import update_of, updated
from numakube.topology.topology_view import NodeTopology, Producer, view_of
from numakube_lab.dumps.cluster_dump import dump_of
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.testing import Opener, lab_cluster

KEY = ObjectKey("", "worker-0")


def stores() -> tuple[
    Store[NodeResourceTopology], Store[Numatopology], Store[NodeResourceTopology]
]:
    """The stores of both kinds, and of the reports."""
    topologies: Store[NodeResourceTopology] = Store()
    numatopologies: Store[Numatopology] = Store()
    return topologies, numatopologies, node_reports(topologies, Store(), numatopologies)


def topology() -> NodeResourceTopology:
    """What RTE says of the node."""
    rte = golden("rte")
    return msgspec.structs.replace(rte, metadata=ObjectMeta(name="worker-0", uid="nrt"))


def numatopology() -> Numatopology:
    """What Volcano says of it."""
    found = convert(Numatopology, document("volcano"))
    return msgspec.structs.replace(found, metadata=ObjectMeta(name="worker-0", uid="numa"))


def producer_in(reports: Store[NodeResourceTopology]) -> Producer | None:
    """Return who wrote the report of the node."""
    report = reports.get(KEY)
    view = None if report is None else view_of(report)
    return view.producer if isinstance(view, NodeTopology) else None


def test_a_numatopology_stands_in_for_a_missing_topology() -> None:
    """And gives way as soon as there is one."""
    topologies, numatopologies, reports = stores()
    numatopologies.put(numatopology())
    assert producer_in(reports) is Producer.VOLCANO
    topologies.put(topology())
    assert reports.get(KEY) == topology()
    numatopologies.remove(KEY)
    assert reports.get(KEY) == topology()
    topologies.remove(KEY)
    assert producer_in(reports) is None


def test_a_numatopology_counts_again_when_the_topology_is_gone() -> None:
    """Changes of it that came meanwhile are not lost."""
    topologies, numatopologies, reports = stores()
    topologies.put(topology())
    numatopologies.put(numatopology())
    assert reports.get(KEY) == topology()
    topologies.remove(KEY)
    assert producer_in(reports) is Producer.VOLCANO


def report(at: str, version: str, *pods: str) -> NodeResourceTopology:
    """Return a report that was written at some time, and says that it will be silent."""
    site = ReportedNode.make(KEY.name)
    for name in pods:
        site.admit(pod(name, cpus=1))
    found = of_surprises(site.report(), at=at)
    metadata = msgspec.structs.replace(found.metadata, resource_version=version)
    return msgspec.structs.replace(found, metadata=metadata)


def update(
    of: NodeResourceTopology, version: str, now: NodeResourceTopology
) -> NodeResourceTopologyUpdate:
    """Return what makes a report say what another one says."""
    found = update_of(of, now, time="2026-11-17T12:00:00.000000Z")
    assert found is not None
    metadata = msgspec.structs.replace(found.metadata, resource_version=version, uid="update")
    return msgspec.structs.replace(found, metadata=metadata)


FIRST = report("2026-11-17T10:00:00.000000Z", "10")
SECOND = report("2026-11-17T11:00:00.000000Z", "30", "p0", "p1")
UPDATES = (
    update(FIRST, "20", report("", "", "p0")),
    update(SECOND, "40", report("", "", "p0", "p1", "p2")),
)


@pytest.mark.parametrize("order", sorted(set(permutations("RRUU"))), ids="".join)
def test_reports_and_updates_never_take_readers_back(order: tuple[str, ...]) -> None:
    """They come by watches of their own: in whatever order, the number of pods only grows."""
    topologies: Store[NodeResourceTopology] = Store()
    updates: Store[NodeResourceTopologyUpdate] = Store()
    reports = node_reports(topologies, updates, Store())
    counts: list[int] = []

    def count(change: Change[NodeResourceTopology]) -> None:
        view = view_of(change.object)
        assert isinstance(view, NodeTopology)
        assert view.report is not None
        counts.append(len(view.report.pods))

    reports.subscribe(count)
    waiting: dict[str, list[Any]] = {"R": [FIRST, SECOND], "U": list(UPDATES)}
    for kind in order:
        one = waiting[kind].pop(0)
        topologies.put(one) if isinstance(one, NodeResourceTopology) else updates.put(one)
    assert counts == sorted(counts)
    assert counts[-1] == 3
    updates.remove(KEY)
    assert counts[-1] == 3


def test_an_update_of_the_next_report_does_not_take_back_the_last_one() -> None:
    """Though somebody changes the report before the next one is there."""
    topologies: Store[NodeResourceTopology] = Store()
    updates: Store[NodeResourceTopologyUpdate] = Store()
    reports = node_reports(topologies, updates, Store())
    topologies.put(FIRST)
    updates.put(UPDATES[0])
    before = reports.get(KEY)
    assert before is not None
    updates.put(UPDATES[1])
    metadata = msgspec.structs.replace(FIRST.metadata, labels={"a": "b"}, resource_version="25")
    topologies.put(msgspec.structs.replace(FIRST, metadata=metadata))
    after = reports.get(KEY)
    assert after is not None
    assert (after.zones, after.metadata.labels) == (before.zones, {"a": "b"})


def test_tools_read_updates_and_nameless_bundles_have_them_in_the_reports() -> None:
    """So that what is left is the same, and no digest of a name is left behind."""
    names = {"noderesourcetopologies": FIRST, "noderesourcetopologyupdates": UPDATES[0]}
    node = {"items": [{"metadata": {"name": KEY.name}}]}
    files = {f"{name}.json": msgspec.json.encode({"items": [one]}) for name, one in names.items()}
    collected = Collected("", {"nodes.json": msgspec.json.encode(node), **files})
    view = facts_of(collected).view(KEY.name)
    assert isinstance(view, NodeTopology)
    assert view.report is not None
    assert len(view.report.pods) == 1
    nameless = anonymise(collected)
    assert "noderesourcetopologyupdates.json" not in nameless.files
    (name,) = facts_of(nameless).topologies
    again = facts_of(nameless).view(name)
    assert isinstance(again, NodeTopology)
    assert [zone.available for zone in again.zones] == [zone.available for zone in view.zones]


def test_tools_do_not_trust_reports_whose_updates_they_may_not_read() -> None:
    """They may be an hour old."""
    items = msgspec.json.encode({"items": [FIRST]})
    refusal = [{"what": "noderesourcetopologyupdates", "why": "403 Forbidden"}]
    files = {"noderesourcetopologies.json": items, "errors.json": msgspec.json.encode(refusal)}
    view = facts_of(Collected("", files)).view(KEY.name)
    assert isinstance(view, NodeTopology)
    assert view.stale_reason == "its updates: 403 Forbidden"


def test_labs_and_simulations_read_the_updates_of_a_dump() -> None:
    """As kubectl prints them."""
    documents = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": KEY.name}},
        *map(msgspec.to_builtins, (FIRST, UPDATES[0])),
    ]
    zones = dump_of(documents, "dump").topologies[KEY.name].zones
    assert zones == updated(FIRST, UPDATES[0]).zones != FIRST.zones
    assert facts_of(collected_of(documents, "dump")).topologies[KEY.name].zones == zones


def definition() -> dict[str, Any]:
    """A definition that takes any Numatopology."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "plural": PLURAL,
                "singular": "numatopology",
                "kind": KIND,
                "listKind": f"{KIND}List",
            },
            "versions": [{"name": VERSION, **version}],
        },
    }


@pytest.mark.timeout(120)
async def test_numatopologies_are_read_where_the_server_has_them(sites: Opener) -> None:
    """By the scheduler, which does not wait for the kind, and by the tools, without names too."""
    async with lab_cluster(1, shape="2 sockets, 2 numa each, 4 cores, 8Gi", on=sites) as world:
        world.exporters.freeze(["node-0"])
        running = await world.start()
        mirror = running.process.mirror
        await world.client.delete(NODE_RESOURCE_TOPOLOGIES, "node-0")
        await world.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        one = convert(Numatopology, {**document("volcano"), "metadata": {"name": "node-0"}})

        async def created() -> bool:
            try:
                await world.client.create(NUMATOPOLOGIES, one)
            except NotFound:
                return False
            return True

        await world.until(created)

        def believed() -> Producer | None:
            node = mirror.cluster.node("node-0")
            topology = node.numa.topology if node is not None and node.numa is not None else None
            return topology.producer if topology is not None else None

        await world.until(lambda: believed() is Producer.VOLCANO)
        view = facts_of(await gather(world.client, what=ZONES)).view("node-0")
        assert isinstance(view, NodeTopology)
        assert [zone.available["cpu"] for zone in view.zones] == [3000, 2000, 4000, 4000]
        nameless = facts_of(anonymise(await gather(world.client, what=EVERYTHING)))
        (node,) = nameless.topologies
        assert node != "node-0"
        again = nameless.view(node)
        assert isinstance(again, NodeTopology)
        assert (again.producer, again.zones) == (Producer.VOLCANO, view.zones)


def malformed(version: str = "900") -> Malformed:
    """An update whose content is of other types than it should be."""
    error = MalformedObject("NodeResourceTopologyUpdate n1", "expected a string", path="report")
    return Malformed(ObjectKey("", "n1"), error, version)


class Parts:
    """The parts of one node's report, and a cache that hears of it."""

    def __init__(self, *, knows_updates: bool = True) -> None:
        self.knows_updates = knows_updates
        self.topologies: Store[NodeResourceTopology] = Store()
        self.updates: Store[NodeResourceTopologyUpdate] = Store()
        self.reports = NodeReports(
            self.topologies, self.updates, Store(), knows_updates=lambda: self.knows_updates
        )
        self.cache = Predict()
        self.reports.store.subscribe(self._hear)

    def _hear(self, change: Change[NodeResourceTopology]) -> None:
        self.cache.set_report(change.object)

    @property
    def blocked(self) -> str:
        """Why the cache does not use the node."""
        belief = self.cache.belief("n1")
        assert belief is not None
        return belief.blocked


def test_a_report_whose_update_cannot_be_read_is_not_trusted_until_there_is_another() -> None:
    """Its last state may be long gone; the object is named."""
    parts, site = Parts(), ReportedNode.make()
    report = of_surprises(site.report())
    parts.topologies.put(report)
    assert not parts.blocked
    parts.reports.note_malformed(malformed())
    assert "NodeResourceTopologyUpdate n1: report: expected a string" in parts.blocked
    update = update_of(report, of_surprises(site.report()), time="2026-11-17T10:05:00.000001Z")
    assert update is not None
    metadata = msgspec.structs.replace(update.metadata, resource_version="901")
    parts.updates.put(msgspec.structs.replace(update, metadata=metadata))
    assert not parts.blocked


def test_an_update_that_cannot_be_read_says_nothing_of_the_next_report() -> None:
    """Nor of one whose exporter writes no updates."""
    parts, site = Parts(), ReportedNode.make()
    parts.reports.note_malformed(malformed(version="1"))
    parts.topologies.put(of_surprises(site.report()))
    assert parts.blocked
    parts.topologies.put(of_surprises(site.report()))
    assert not parts.blocked
    plain = Parts()
    plain.topologies.put(site.report())
    plain.reports.note_malformed(malformed())
    assert not plain.blocked


def test_a_report_is_not_trusted_while_its_updates_are_not_known() -> None:
    """A server that has just started may not know yet that it serves them."""
    parts, site = Parts(knows_updates=False), ReportedNode.make()
    parts.topologies.put(of_surprises(site.report()))
    assert parts.blocked.endswith("its updates have not been read yet")
    parts.knows_updates = True
    parts.reports.show_all()
    assert not parts.blocked
    plain = Parts(knows_updates=False)
    plain.topologies.put(site.report())
    assert not plain.blocked


async def test_a_node_is_read_again_although_its_update_cannot_be_read() -> None:
    """Only that report is not trusted, and the object is named."""
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        await install_definition(client)
        report = of_surprises(ReportedNode.make().report())
        metadata = {"name": "n1", "annotations": dict(report.metadata.annotations)}
        await client.create(NODE_RESOURCE_TOPOLOGIES, {**to_tree(report), "metadata": metadata})
        odd = {"report": ["x"], "time": "2026-11-17T10:05:00Z", "available": [], "exact": "{}"}
        await client.create(NODE_RESOURCE_TOPOLOGY_UPDATES.raw, {"metadata": {"name": "n1"}, **odd})
        found = await read_topology(client, "n1")
    assert found is not None
    view = view_of(found)
    assert isinstance(view, NodeTopology)
    assert "NodeResourceTopologyUpdate n1: report: expected a string" in (view.stale_reason or "")
