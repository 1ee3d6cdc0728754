"""Reaching debugging endpoints through a real API server's proxy, or directly.

The lab's own proxy is tried in ``tests/cli/test_inside.py``; what a kube-apiserver does to headers
on the way can only be seen with one.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from tests.real.api_server import RealServer
from tests.real.marks import needs_assets
from tests.sites.bare import BareServer, bare_lab, bare_real

from numakube.apps.debug_client import Reached, reach_schedulers
from numakube.apps.debugging.documents import Speaker, json_answer
from numakube.apps.host.endpoint_access import AUDIENCE, Access
from numakube.apps.host.http_serving import Health, Listen, Serving
from numakube.apps.host.process_life import new_registry
from numakube.errors import Forbidden
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
)
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.manifests.cluster_policies import SCHEDULER, debugging_access

pytestmark = pytest.mark.timeout(180)

SPEAKER = Speaker("scheduler", "me", lambda: True)
KINDS = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
}


@contextlib.asynccontextmanager
async def program(bare: BareServer, *, move: bool = False) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve two endpoints as a scheduler does off loopback; give the URL and what was seen."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return json_answer(
            SPEAKER.document("PodAttemptsList", items=[], query=request.query_string)
        )

    access = Access(bare.client, host="0.0.0.0")
    routes = [
        web.get("/debug/attempts", access.guarded(answer)),
        web.post("/elsewhere", access.guarded(answer)),
    ]
    host = "127.0.0.1" if move else "0.0.0.0"
    listen = Listen(host=host, port=0, plain=True)
    registry = new_registry("test")
    async with Serving(listen, health=Health(), registry=registry, routes=routes) as server:
        yield server.url, seen


async def allow(bare: BareServer) -> None:
    """Create the account for looking inside."""
    await bare.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
    for document in debugging_access("numakube-scheduler", "numakube"):
        await bare.client.create(KINDS[document["kind"]], document)


@needs_assets
async def test_a_pod_is_reached_through_a_real_api_server(shared_server: RealServer) -> None:
    """With a token for this purpose; the caller's own stays with the API server."""
    async with bare_real(shared_server) as bare, program(bare) as (url, seen):
        address = outside_address()
        if address.startswith("127."):
            pytest.skip("API servers do not proxy to loopback, and this host has nothing else")
        await allow(bare)
        await create_pod(bare, address, int(url.rpartition(":")[2]))
        (one,) = await reach_schedulers(bare.client)
        assert (one.name, one.kind, one.leads, one.trouble) == ("sched", "scheduler", True, "")
        document = json.loads(await one.get("/debug/attempts?full=true", {"node": "n"}))
        assert document["query"] == "full=true&node=n"
        with pytest.raises(Forbidden):
            await one.send("POST", "/elsewhere")
        assert set(seen) == {""}
        await bare.client.delete(SERVICE_ACCOUNTS, "numakube-scheduler-debug", namespace="numakube")
        (one,) = await reach_schedulers(bare.client)
        assert "it wants a token" in one.trouble


def outside_address() -> str:
    """Return the address by which this host would reach others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("198.51.100.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(one.getsockname()[0])


async def create_pod(bare: BareServer, address: str, port: int) -> None:
    """Create a pod that seems to run where the program is."""
    labels = dict(SCHEDULER)
    probe = {"httpGet": {"path": "/livez", "port": port}}
    container = {"name": "main", "image": "registry.example/app:1", "livenessProbe": probe}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sched", "namespace": "numakube", "labels": labels},
        "spec": {"containers": [container], "serviceAccountName": "numakube-scheduler"},
    }
    await bare.client.create(PODS.raw, pod)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    await bare.client.patch(
        PODS, "sched", merge_patch({"status": status}), namespace="numakube", subresource="status"
    )


async def test_a_url_is_asked_directly_with_the_token_that_was_given() -> None:
    """Without one there is a reason, and nothing is raised."""
    async with bare_lab() as bare, program(bare, move=True) as (url, _):
        await allow(bare)
        account = ObjectKey("numakube", "numakube-scheduler-debug")
        token = (await request_token(bare.client, account)).token
        async with closing(await reach_schedulers(bare.client, urls=[url], token=token)) as one:
            assert (one.kind, one.leads, one.trouble) == ("scheduler", True, "")
        async with closing(await reach_schedulers(bare.client, urls=[url])) as one:
            assert "it wants a token" in one.trouble
        dead = await reach_schedulers(bare.client, urls=["http://127.0.0.1:1"])
        async with closing(dead) as one:
            assert one.trouble


@contextlib.asynccontextmanager
async def closing(found: tuple[Reached, ...]) -> AsyncIterator[Reached]:
    """Give the only one, and close it."""
    (one,) = found
    try:
        yield one
    finally:
        await one.aclose()


async def test_a_token_for_another_audience_does_not_open_the_door() -> None:
    """The header takes tokens for this purpose alone, if the server knows audiences."""
    async with bare_lab() as bare:
        await allow(bare)
        account = ObjectKey("numakube", "numakube-scheduler-debug")
        token = (await request_token(bare.client, account, audiences=(AUDIENCE,))).token
        access = Access(bare.client, host="10.0.0.1")
        assert await access.is_allowed(token, "GET", "/debug/queue", AUDIENCE)
        assert not await access.is_allowed(token, "GET", "/secrets", AUDIENCE)
        assert not await access.is_allowed("made up", "GET", "/debug/queue", AUDIENCE)
