"""Writing the object: only what changed, on top of what is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import pytest
from tests.apps.exporter.objects import NODE, report, topology
from tests.kube.old_definitions import install, v1alpha1_in_namespaces, v1alpha1_of_the_cluster

from kube_lab_server import ApiServer
from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.nrt import Attribute, NodeResourceTopology, attribute_value
from numakube.apps.exporter.api_objects import NodeObject
from numakube.apps.exporter.nrt_writer import ObjectPublisher, Operation, Writer, difference
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.errors import MissingDefinition
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES as NRTS
from numakube.kube.catalog import NODES
from numakube.kube.client import Client, merge_patch
from numakube.kube.connection.transport import Request, Response
from numakube.topology import nrt_names
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess


@pytest.fixture
def writer(client: Client) -> Writer:
    """A writer that has seen nothing yet."""
    return Writer(client, NODE)


async def current(client: Client) -> NodeResourceTopology:
    """Return the object on the server."""
    return await client.get(NRTS, NODE)


async def test_an_object_that_is_missing_is_created(writer: Writer, client: Client) -> None:
    """With everything in it."""
    wanted = topology(owner="u1")
    assert (await writer.write(wanted)).operation is Operation.CREATE
    found = await current(client)
    assert (found.zones, found.attributes) == (wanted.zones, wanted.attributes)
    assert found.metadata.annotations == wanted.metadata.annotations
    assert found.metadata.owner_references == wanted.metadata.owner_references


async def test_what_has_not_changed_is_not_written(writer: Writer, client: Client) -> None:
    """Not even if the cause is another; nor after a restart."""
    await writer.write(topology(cause="reactive"))
    version = (await current(client)).metadata.resource_version
    for again in (writer, Writer(client, NODE)):
        written = await again.write(topology(cause="periodic"))
        assert written.operation is Operation.NONE
    assert (await current(client)).metadata.resource_version == version


async def test_a_change_brings_its_cause_along(writer: Writer, client: Client) -> None:
    """So that the annotation tells about the last change."""
    await writer.write(topology(cause="reactive"))
    written = await writer.write(topology(free=4, cause="periodic"))
    assert written.operation is Operation.UPDATE
    found = await current(client)
    assert found.zones[0].resources[0].available == "4"
    assert found.metadata.annotations[nrt_names.RTE_UPDATE_ANNOTATION] == "periodic"


def test_only_what_differs_is_sent() -> None:
    """Zones are the biggest part, and often the same."""
    known, wanted = topology(), topology(policy="restricted")
    assert difference(known, known) == {}
    assert difference(known, wanted) == {"attributes": wanted.attributes}
    assert difference(known, topology(free=1)).keys() == {"zones"}
    assert difference(known, topology(cause="periodic")) == {}
    exact = topology(annotations={nrt_names.EXACT_ANNOTATION: "x"})
    assert difference(known, exact) == {
        "metadata": {"annotations": {nrt_names.EXACT_ANNOTATION: "x"}},
    }


def test_annotations_of_ours_go_when_they_are_not_wanted_any_more() -> None:
    """Old exact data would be wrong; others' annotations are none of our business."""
    known = topology(annotations={nrt_names.EXACT_ANNOTATION: "x", "example.com/team": "a"})
    assert difference(known, topology()) == {
        "metadata": {"annotations": {nrt_names.EXACT_ANNOTATION: None}},
    }


def test_the_deprecated_policies_of_another_producer_go() -> None:
    """They would contradict the attributes as soon as those change."""
    known = topology(topology_policies=("SingleNUMANodePodLevel",))
    assert difference(known, topology()) == {"topologyPolicies": None}


def test_the_owner_is_the_node_of_today() -> None:
    """A Node that registers again has another uid; other owners stay."""
    known = topology(owner="old")
    other = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="1")
    old = known.metadata.owner_references[0]
    metadata = type(known.metadata)(name=NODE, owner_references=(other, old))
    known = NodeResourceTopology(metadata=metadata, zones=known.zones, attributes=known.attributes)
    wanted = topology(owner="new")
    change = difference(known, wanted)
    assert change["metadata"]["ownerReferences"] == (other, *wanted.metadata.owner_references)
    assert difference(topology(owner="same"), topology()) == {}


async def test_others_changes_are_noticed_and_undone(writer: Writer, client: Client) -> None:
    """A write is based on what the server has, or it is refused and tried again."""
    await writer.write(topology(free=8))
    await client.patch(NRTS, NODE, merge_patch({"zones": [], "attributes": None}))
    assert (await writer.write(topology(free=4))).operation is Operation.UPDATE
    found = await current(client)
    assert (found.zones, found.attributes) == (topology(free=4).zones, topology().attributes)


async def test_others_annotations_and_labels_survive(writer: Writer, client: Client) -> None:
    """Also those that came behind our back."""
    await writer.write(topology())
    mine = {"labels": {"a": "b"}, "annotations": {"example.com/x": "y"}}
    await client.patch(NRTS, NODE, merge_patch({"metadata": mine}))
    await writer.write(topology(free=3))
    found = (await current(client)).metadata
    assert found.labels == {"a": "b"}
    assert found.annotations["example.com/x"] == "y"


async def test_a_deleted_object_comes_back(writer: Writer, client: Client) -> None:
    """With the next change."""
    await writer.write(topology())
    await client.delete(NRTS, NODE)
    assert (await writer.write(topology(free=2))).operation is Operation.CREATE
    assert (await current(client)).zones == topology(free=2).zones


async def test_a_deleted_object_comes_back_without_a_change_once_it_is_looked_for(
    writer: Writer, client: Client
) -> None:
    """Which a periodic look does."""
    await writer.write(topology())
    await client.delete(NRTS, NODE)
    assert (await writer.write(topology())).operation is Operation.NONE
    writer.forget()
    assert (await writer.write(topology())).operation is Operation.CREATE


async def test_a_late_write_of_a_dead_exporter_changes_nothing(client: Client) -> None:
    """It is based on an older state than the write of its successor."""
    dead, alive = Writer(client, NODE), Writer(client, NODE)
    await dead.write(topology(free=8))
    await alive.write(topology(free=2))
    stale_version = {"metadata": {"resourceVersion": "1"}}
    with pytest.raises(Exception, match="object has been modified"):
        await client.patch(NRTS, NODE, merge_patch({"zones": [], **stale_version}))
    assert (await current(client)).zones == topology(free=2).zones


async def test_without_the_definition_it_says_so_and_recovers(bare: Client) -> None:
    """Somebody may install it later."""
    writer = Writer(bare, NODE)
    with pytest.raises(MissingDefinition, match="CustomResourceDefinition"):
        await writer.write(topology())
    await install_definition(bare)
    assert (await writer.write(topology())).operation is Operation.CREATE


@pytest.mark.parametrize(
    ("definition", "where"),
    [
        (v1alpha1_of_the_cluster, "in v1alpha1"),
        (v1alpha1_in_namespaces, "in namespaces in v1alpha1"),
    ],
)
async def test_c21_a_definition_that_is_too_old_is_told_with_what_to_do(
    bare: Client, definition: Callable[[], dict[str, Any]], where: str
) -> None:
    """Attributes of nodes have no place in it, so nothing is written rather than a part."""
    await install(bare, definition())
    with pytest.raises(MissingDefinition, match=rf"{where} only, .*`numakube deploy api`"):
        await Writer(bare, NODE).write(topology())


async def test_marking_stale_keeps_everything_else(writer: Writer, client: Client) -> None:
    """And the next real write takes the mark away."""
    await writer.write(topology())
    assert (await writer.mark_stale("kubelet away")).operation is Operation.UPDATE
    found = await current(client)
    assert attribute_value(found.attributes, nrt_names.STALE) == "kubelet away"
    assert attribute_value(found.attributes, nrt_names.TOPOLOGY_POLICY) == "single-numa-node"
    assert found.zones == topology().zones
    assert (await writer.mark_stale("kubelet away")).operation is Operation.NONE
    await writer.write(topology())
    assert attribute_value((await current(client)).attributes, nrt_names.STALE) is None


async def test_an_object_of_before_a_restart_is_marked_too(client: Client) -> None:
    """By an exporter that has never seen the kubelet; one that is missing stays so."""
    assert (await Writer(client, NODE).mark_stale("away")).operation is Operation.NONE
    await Writer(client, NODE).write(topology())
    await Writer(client, NODE).mark_stale("away")
    assert attribute_value((await current(client)).attributes, nrt_names.STALE) == "away"


async def test_an_object_of_another_producer_is_taken_over(client: Client) -> None:
    """Its attributes, zones and deprecated policies go; the object stays."""
    theirs = topology(topology_policies=("None",), policy="none")
    theirs = NodeResourceTopology(
        metadata=theirs.metadata,
        attributes=(Attribute(name="cpu_atom", value="0-3"),),
        zones=theirs.zones,
        topology_policies=("None",),
    )
    created = await client.create(NRTS, theirs)
    await Writer(client, NODE).write(topology())
    found = await current(client)
    assert found.metadata.uid == created.metadata.uid
    assert (found.attributes, found.topology_policies) == (topology().attributes, ())


async def test_the_object_is_read_again_after_so_many_writes(client: Client) -> None:
    """What others deleted in between is noticed then."""
    writer = Writer(client, NODE, resync=2)
    for free in (8, 7, 6):
        await writer.write(topology(free=free))
    await client.delete(NRTS, NODE)
    assert (await writer.write(topology(free=6))).operation is Operation.CREATE


async def test_a_new_object_belongs_to_the_node_of_today(client: Client) -> None:
    """The old object vanished with the Node that has registered again since."""
    publisher = ObjectPublisher(client, NodeObject(client, NODE), name=NODE)
    document = {"metadata": {"name": NODE}}
    for free in (8, 7):
        node = await client.create(NODES.raw, document)
        written = await publisher.publish(report(free=free), cause=ScanCause.REACTIVE, slept=None)
        assert written.operation is Operation.CREATE
        (owner,) = (await current(client)).metadata.owner_references
        assert owner.uid == node["metadata"]["uid"]
        await client.delete(NODES, NODE)
        await client.delete(NRTS, NODE)


async def test_what_was_written_need_not_be_read_again() -> None:
    """A write is one request, but for the first one, and after so many if that is wanted."""

    class Counting(InProcess):
        methods: ClassVar[list[str]] = []

        async def send(self, request: Request) -> Response:
            self.methods.append(request.method)
            return await super().send(request)

    async with ApiServer() as server:
        await install_definition(Client(InProcess(server), rate=0))
        for resync, expected in ((0, 1), (2, 2)):
            writer = Writer(Client(Counting(server), rate=0), f"n{resync}", resync=resync)
            for free in (8, 7, 6):
                metadata = ObjectMeta(name=f"n{resync}")
                await writer.write(msgspec.structs.replace(topology(free=free), metadata=metadata))
            Counting.methods.clear()
            await writer.write(msgspec.structs.replace(topology(free=5), metadata=metadata))
            assert Counting.methods == ["GET", "PATCH"][-expected:]
