"""NodeResourceTopologies are read in whatever version and scope a cluster serves (C20, C21)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace as replace_struct
from tests.kube.old_definitions import (
    current,
    install,
    report,
    upgrade,
    v1alpha1_in_namespaces,
    v1alpha1_of_the_cluster,
)
from tests.scheduling.numa.caches.reported_node import ReportedNode, of_surprises, pod
from tests.sites.bare import BareOpener

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import NodeResourceTopology
from numakube.apps.node_reports import read_topology, topology_reflector
from numakube.apps.served_topologies import served_topologies
from numakube.errors import Forbidden, NotFound
from numakube.kube.catalog import (
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGY_UPDATES,
)
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.reflector import Reflector, ReflectorTiming, reflecting
from numakube.kube.resource_types import ObjectKey
from numakube.kube.scripted_server import ScriptedServer, status_document
from numakube.kube.store import Removed
from numakube.testing import until
from numakube.topology.report_update import update_of
from numakube.topology.topology_view import NodeTopology, view_of
from numakube_lab.exporters import install_definition

QUICK = ReflectorTiming(backoff=0.05, longest_backoff=0.2, denial=0.3)
OLD = replace(NODE_RESOURCE_TOPOLOGIES, version="v1alpha1").raw
IN_NAMESPACES = replace(OLD, namespaced=True)


@pytest.fixture
async def client(bare_servers: BareOpener) -> AsyncIterator[Client]:
    """A server of which the test may change the definition."""
    async with bare_servers() as server:
        yield server.client
        await install(server.client, current())


async def known(reflector: Reflector[NodeResourceTopology], name: str) -> NodeResourceTopology:
    """Return the object of a node once it is mirrored."""
    key = ObjectKey("", name)
    found = await until(lambda: reflector.store.get(key))
    assert found is not None
    return found


async def write(client: Client, resource: Any, document: dict[str, Any]) -> None:
    """Create an object, as soon as the server takes it."""

    async def created() -> bool:
        try:
            await client.create(resource, document)
        except NotFound:
            return False
        return True

    await until(created)


def free_cpus(topology: NodeResourceTopology) -> int:
    """Return what a scheduler reads from the first zone, which must have a policy and a scope."""
    view = view_of(topology)
    assert isinstance(view, NodeTopology)
    assert (view.policy, view.scope) == ("single-numa-node", "pod")
    return view.zones[0].available["cpu"]


async def test_c21_v1alpha1_alone_is_read_until_the_definition_is_upgraded(client: Client) -> None:
    """Its topologyPolicies keep their meaning; from the upgrade on attributes are read as well."""
    await install(client, v1alpha1_of_the_cluster())
    await write(client, OLD, report("old", free="3"))
    reflector = topology_reflector(client, timing=QUICK)
    async with reflecting(reflector):
        assert free_cpus(await known(reflector, "old")) == 3000
        assert (await served_topologies(client)).version == "v1alpha1"
        await upgrade(client, current())
        attributes = [{"name": "topologyManagerPolicy", "value": "restricted"}]
        new = report(
            "new", free="3", attributes=attributes, apiVersion="topology.node.k8s.io/v1alpha2"
        )
        await write(client, NODE_RESOURCE_TOPOLOGIES.raw, new)
        await until(lambda: reflector.store.get(ObjectKey("", "new")))
        view = view_of(await known(reflector, "new"))
        assert isinstance(view, NodeTopology)
        assert view.policy == "restricted"
        assert free_cpus(await known(reflector, "old")) == 3000


async def test_c21_attributes_are_read_from_objects_that_have_not_changed(client: Client) -> None:
    """A version that is served again shows more of the same state of an object."""
    attributes = [{"name": "topologyManagerPolicy", "value": "restricted"}]
    new = report("new", free="3", attributes=attributes, apiVersion="topology.node.k8s.io/v1alpha2")
    await client.create(NODE_RESOURCE_TOPOLOGIES.raw, new)
    hidden = current()
    for version in hidden["spec"]["versions"]:
        version["served"] = version["name"] == "v1alpha1"
    await upgrade(client, hidden)
    reflector = topology_reflector(client, timing=QUICK)
    async with reflecting(reflector):
        assert (await known(reflector, "new")).attributes == ()
        await upgrade(client, current())
        await until(lambda: [one.attributes for one in reflector.store] != [()])


async def test_c20_objects_in_namespaces_are_those_of_their_nodes(client: Client) -> None:
    """Of two the last written counts; without ``available``, ``allocatable`` is what is left."""
    await install(client, v1alpha1_in_namespaces())
    await client.create(NAMESPACES, {"metadata": {"name": "tas"}})
    await write(client, IN_NAMESPACES, report("n", free="", namespace="default"))
    reflector = topology_reflector(client, timing=QUICK)
    async with reflecting(reflector):
        assert free_cpus(await known(reflector, "n")) == 7000
        await client.create(IN_NAMESPACES, report("n", free="2", namespace="tas"))
        await until(lambda: free_cpus(reflector.store.get(ObjectKey("", "n")) or _none()) == 2000)
        found = await read_topology(client, "n")
        assert found is not None
        assert (found.metadata.namespace, free_cpus(found)) == ("", 2000)
        await client.delete(IN_NAMESPACES, "n", namespace="tas")
        await until(lambda: free_cpus(reflector.store.get(ObjectKey("", "n")) or _none()) == 7000)
        await client.delete(IN_NAMESPACES, "n", namespace="default")
        await until(lambda: not len(reflector.store))
    await client.delete(NAMESPACES, "tas")


def _none() -> NodeResourceTopology:
    raise AssertionError("the object has gone")


async def test_c21_a_definition_that_goes_takes_its_objects_along_and_may_come_back(
    client: Client,
) -> None:
    """Also in another scope, which takes a new definition."""
    reflector = topology_reflector(client, timing=QUICK)
    gone: list[str] = []
    reflector.store.subscribe(
        lambda change: (
            gone.append(change.object.metadata.name) if isinstance(change, Removed) else None
        )
    )
    await client.create(OLD, report("n", free="3"))
    async with reflecting(reflector):
        await known(reflector, "n")
        await install(client, None)
        await until(lambda: reflector.denied)
        assert gone == ["n"]
        assert await read_topology(client, "n") is None
        with pytest.raises(NotFound, match=r"serves .* in none of v1alpha2, v1alpha1"):
            await served_topologies(client)
        await install(client, v1alpha1_in_namespaces())
        await write(client, IN_NAMESPACES, report("n", free="4", namespace="default"))
        assert free_cpus(await known(reflector, "n")) == 4000
        assert not reflector.denied


async def test_c21_a_server_that_denies_the_kind_for_a_moment_loses_us_nothing(
    client: Client,
) -> None:
    """A server that has just started does not know yet what it serves."""
    patient = replace(QUICK, denial=600.0)
    reflector = topology_reflector(client, timing=patient)
    await client.create(OLD, report("n", free="3"))
    async with reflecting(reflector):
        await known(reflector, "n")
        removed: list[object] = []
        hidden = current()
        for version in hidden["spec"]["versions"]:
            version["served"] = False
        reflector.store.subscribe(
            lambda change: removed.append(change) if isinstance(change, Removed) else None
        )
        await upgrade(client, hidden)
        await until(lambda: isinstance(reflector.last_error, NotFound))
        await upgrade(client, current())
        await until(lambda: reflector.last_error is None)
        assert not removed


async def test_c21_who_may_not_ask_what_is_served_reads_the_current_version() -> None:
    """Discovery is open to all by default; a cluster may close it."""
    async with ScriptedServer() as server, connect(server.config) as client:
        server.refuse(403, "Forbidden")
        assert await served_topologies(client) == NODE_RESOURCE_TOPOLOGIES


async def test_c21_a_refusal_that_lasts_is_believed_but_costs_no_objects() -> None:
    """Rights may be granted after us, or be taken away by mistake."""

    async def refused(_: web.Request) -> web.StreamResponse:
        return web.json_response(status_document(403, "Forbidden"), status=403)

    async with ScriptedServer(otherwise=refused) as server, connect(server.config) as client:
        reflector = topology_reflector(client, timing=QUICK)
        reflector.store.put(NodeResourceTopology(metadata=ObjectMeta(name="n")))
        task = asyncio.create_task(reflector.run())
        await until(lambda: reflector.denied)
        assert isinstance(reflector.last_error, Forbidden)
        assert ObjectKey("", "n") in reflector.store
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_report_is_read_with_its_update(client: Client) -> None:
    """As every reader sees it; one that is missing is nothing."""
    site = ReportedNode.make("worker-0")
    assert await read_topology(client, "worker-0") is None
    report = of_surprises(site.report())
    await install_definition(client)
    assert await read_topology(client, "worker-0") is None
    metadata = replace_struct(report.metadata, uid="", resource_version="")
    await client.create(NODE_RESOURCE_TOPOLOGIES, replace_struct(report, metadata=metadata))
    site.admit(pod("p0"))
    update = update_of(report, site.report(), time="2026-01-01T00:00:01.000000Z")
    assert update is not None
    found = await read_topology(client, "worker-0")
    assert found is not None
    assert found.zones == report.zones
    await client.create(NODE_RESOURCE_TOPOLOGY_UPDATES, update)
    found = await read_topology(client, "worker-0")
    assert found is not None
    assert found.zones == site.report().zones
