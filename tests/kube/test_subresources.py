"""Binding, eviction, scale, token and log."""

from collections.abc import AsyncIterator

import pytest

from numakube.errors import Conflict, TooManyRequests
from numakube.kube.client import Client
from numakube.kube.resource_types import ObjectKey, Resource
from numakube.kube.scripted_server import ScriptedServer, streaming
from numakube.kube.subresources import (
    bind_pod,
    evict_pod,
    follow_log,
    read_log,
    request_token,
)

POD = ObjectKey("ns", "web")
SUCCESS = {"kind": "Status", "status": "Success"}
DEPLOYMENTS = Resource(
    group="apps",
    version="v1",
    plural="deployments",
    kind="Deployment",
    namespaced=True,
    object_type=dict,
)


async def test_binding_names_the_pod_by_uid(client: Client, server: ScriptedServer) -> None:
    """A pod that took the name of another since is not bound in its place."""
    server.reply(SUCCESS, status=201)
    server.refuse(409, "Conflict")

    await bind_pod(client, POD, "node-1", uid="u", annotations={"a": "b"})
    with pytest.raises(Conflict):
        await bind_pod(client, POD, "node-2")

    seen = server.received[0]
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/ns/pods/web/binding")
    assert seen.json() == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "web",
            "namespace": "ns",
            "uid": "u",
            "annotations": {"a": "b"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }


async def test_an_eviction_that_a_budget_forbids_is_not_insisted_on(
    client: Client, server: ScriptedServer
) -> None:
    """The caller decides when to ask again."""
    server.reply(SUCCESS, status=201)
    server.refuse(429, "TooManyRequests", message="Cannot evict pod")

    await evict_pod(client, POD, grace_seconds=5, uid="u", dry_run=True)
    with pytest.raises(TooManyRequests, match="Cannot evict pod"):
        await evict_pod(client, POD)

    first, second = server.received
    assert first.path == "/api/v1/namespaces/ns/pods/web/eviction"
    assert first.json() == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "ns"},
        "deleteOptions": {
            "gracePeriodSeconds": 5,
            "preconditions": {"uid": "u"},
            "dryRun": ["All"],
        },
    }
    assert isinstance(body := second.json(), dict)
    assert "deleteOptions" not in body


async def test_a_token_can_be_bound_to_a_pod(client: Client, server: ScriptedServer) -> None:
    """Its expiry comes with it."""
    status = {"token": "t", "expirationTimestamp": "2026-01-01T01:00:00Z"}
    server.reply({"kind": "TokenRequest", "status": status}, status=201)

    token = await request_token(
        client,
        ObjectKey("ns", "robot"),
        seconds=600,
        audiences=("api",),
        pod=POD,
        pod_uid="u",
    )

    assert (token.token, token.expiration_timestamp.isoformat()) == (
        "t",
        "2026-01-01T01:00:00+00:00",
    )
    assert server.received[0].path == "/api/v1/namespaces/ns/serviceaccounts/robot/token"
    assert isinstance(body := server.received[0].json(), dict)
    assert body["spec"] == {
        "expirationSeconds": 600,
        "audiences": ["api"],
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"},
    }


async def test_logs_are_read_and_followed(client: Client, server: ScriptedServer) -> None:
    """As text at once, or in chunks while they are written."""

    async def lines() -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    server.reply("grüße\n".encode())
    server.script(streaming(lines))

    assert await read_log(client, POD, container="c", previous=True, tail_lines=0) == "grüße\n"
    async with follow_log(client, POD) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"one\ntwo\n"

    first, second = server.received
    assert first.query == {"container": "c", "previous": "true", "tailLines": "0"}
    assert second.query == {"follow": "true"}
