"""Reading a cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp import web

from numakube.apps.bundle import pack, unpack
from numakube.apps.gathering import SCHEDULING, ZONES, gather
from numakube.apps.gathering.gather import list_raw
from numakube.errors import ClusterUnreachable, Forbidden, MalformedObject
from numakube.insight.collected import Collected
from numakube.insight.facts import facts_of, model_of
from numakube.kube.catalog import PODS
from numakube.kube.clock import RetryPolicy
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.kube.scripted_server import ScriptedServer, status_document
from numakube.kubelet.kubelet_model import KubeletNode
from numakube_lab.testing import lab_cluster

pytestmark = pytest.mark.timeout(240)


def forbidding(*plurals: str) -> Any:
    """Return a server that has nothing, and refuses to say so of some kinds."""

    async def answer(request: web.Request) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        if plural in plurals:
            status = status_document(403, "Forbidden", message=f"{plural} is forbidden")
            return web.json_response(status, status=403)
        if plural == "noderesourcetopologies":
            return web.json_response(status_document(404, "NotFound"), status=404)
        return web.json_response({"metadata": {}, "items": []})

    return answer


async def test_a_lab_is_read_with_everything_tools_need() -> None:
    """Live facts and those from a bundle are the same, the kubelet model included."""
    async with lab_cluster(1, "2 sockets, 2 cores, 4Gi") as cluster:
        collected = await gather(cluster.client)
    facts, offline = facts_of(collected), facts_of(unpack(pack(collected)))
    assert set(facts.nodes) == set(facts.topologies) == set(facts.kubelet_configs) == {"node-0"}
    assert facts.version.major == "1"
    assert isinstance(model_of(facts, "node-0"), KubeletNode)
    assert (offline.nodes, offline.topologies) == (facts.nodes, facts.topologies)
    assert offline.kubelet_configs == facts.kubelet_configs
    assert offline.taken_at == facts.taken_at == collected.taken_at


async def test_what_may_not_be_read_is_noted_with_the_reason() -> None:
    """Nobody needs all rights for a first answer."""
    async with (
        ScriptedServer(otherwise=forbidding("leases", "persistentvolumes")) as server,
        connect(server.config) as client,
    ):
        facts = facts_of(await gather(client, what={"leases", *SCHEDULING}))
    reasons = {fact.what: fact.why for fact in facts.unreadable}
    assert reasons == {
        "leases": "not allowed (403): list leases.coordination.k8s.io",
        "noderesourcetopologies": "the server does not have it",
        "persistentvolumes": "not allowed (403): list persistentvolumes",
    }


async def test_without_pods_there_is_no_answer() -> None:
    """An answer that forgets them would be wrong, so there is none."""
    async with (
        ScriptedServer(otherwise=forbidding("pods")) as server,
        connect(server.config) as client,
    ):
        with pytest.raises(Forbidden, match="pods is forbidden"):
            await gather(client, what=ZONES)


async def test_only_what_is_wanted_is_read() -> None:
    """A cluster of 5,000 nodes should not be read twice for one table."""
    async with (
        ScriptedServer(otherwise=forbidding()) as server,
        connect(server.config) as client,
    ):
        await gather(client, what=ZONES)
    asked = {received.path.rpartition("/")[2] for received in server.received}
    # This server serves no version of NodeResourceTopology.
    served = {"v1alpha2", "v1alpha1"}
    claims = {"resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules"}
    kinds = {"nodes", "pods", "noderesourcetopologyupdates", "numatopologies"}
    assert asked == {"version", *kinds, *served, *claims}


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    """The command line makes exit code 3 of it."""
    dead = ClusterConfig(server="http://127.0.0.1:1")
    async with connect(dead, retry=RetryPolicy(attempts=1)) as client:
        with pytest.raises(ClusterUnreachable):
            await gather(client, what=ZONES)


async def test_lists_come_in_pages_and_as_the_server_wrote_them() -> None:
    """Fields that we do not know are kept."""
    async with ScriptedServer() as server, connect(server.config) as client:
        first = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"x": 1.50}]}
        server.reply(first)
        server.reply({"metadata": {"resourceVersion": "7"}, "items": [{"y": None}]})
        content = await list_raw(client, PODS, page_size=1)
    assert msgspec.json.decode(content) == {
        "apiVersion": "v1",
        "kind": "PodList",
        "metadata": {"resourceVersion": "7"},
        "items": [{"x": 1.5}, {"y": None}],
    }
    assert [received.query for received in server.received] == [
        {"limit": "1"},
        {"limit": "1", "continue": "more"},
    ]


async def test_a_list_that_expires_between_pages_is_read_in_one_go() -> None:
    """As happens in a big cluster on a slow line."""
    async with ScriptedServer() as server, connect(server.config) as client:
        server.reply({"metadata": {"continue": "more"}, "items": [{"old": True}]})
        server.refuse(410, "Expired")
        server.reply({"metadata": {}, "items": [{"new": True}]})
        content = await list_raw(client, PODS, page_size=1)
    assert msgspec.json.decode(content)["items"] == [{"new": True}]
    assert server.received[-1].query == {}


def test_equal_content_gives_equal_bundles() -> None:
    """So that bundles can be compared and cached."""
    files = {"nodes.json": b'{"items": []}', "configz/a.json": b"{}"}
    collected = Collected("2026-01-01T00:00:00Z", files)
    again = Collected("2026-01-01T00:00:00Z", dict(reversed(files.items())))
    assert pack(collected) == pack(again)
    back = unpack(pack(collected))
    assert back.taken_at == collected.taken_at
    assert {name: back.files[name] for name in files} == files


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b broken"])
def test_other_files_are_no_bundles(content: bytes) -> None:
    """The message says what was expected, and names the file."""
    with pytest.raises(MalformedObject, match=r"some\.tgz: not a bundle"):
        unpack(content, name="some.tgz")
