"""Requests whose bodies are protobuf, as clients written in Go send them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from kube_lab_server import GVK, ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HEADERS = {
    "Content-Type": "application/vnd.kubernetes.protobuf",
    "Accept": "application/vnd.kubernetes.protobuf,application/json",
}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def _sized(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def _envelope(kind: str, raw: bytes, *, api_version: str = "v1") -> bytes:
    meta = _sized(1, api_version.encode()) + _sized(2, kind.encode())
    return b"k8s\x00" + _sized(1, meta) + _sized(2, raw)


def _named(name: str) -> bytes:
    return _sized(1, _sized(1, name.encode()))


async def _send(
    session: aiohttp.ClientSession, method: str, path: str, body: bytes
) -> tuple[int, dict[str, Any]]:
    async with session.request(method, path, data=body, headers=HEADERS) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A session with a fresh server."""
    async with ApiServer() as server, aiohttp.ClientSession(server.url) as opened:
        yield opened


async def test_a_pod_is_bound(session: aiohttp.ClientSession) -> None:
    """The one request without which no scheduler of Kubernetes can work."""
    await session.post(PODS, json=POD)
    target = _sized(2, _sized(1, b"Node") + _sized(3, b"n1"))
    status, _ = await _send(
        session, "POST", f"{PODS}/p/binding", _envelope("Binding", _named("p") + target)
    )
    assert status == 201
    pod = await (await session.get(f"{PODS}/p")).json()
    assert pod["spec"]["nodeName"] == "n1"


async def test_an_object_is_created_replaced_and_deleted(session: aiohttp.ClientSession) -> None:
    """With precise options of the deletion."""
    entry = _sized(2, _sized(1, b"k") + _sized(2, b"v"))
    status, created = await _send(
        session, "POST", CONFIG_MAPS, _envelope("ConfigMap", _named("a") + entry)
    )
    assert (status, created["data"]) == (201, {"k": "v"})
    status, replaced = await _send(
        session, "PUT", f"{CONFIG_MAPS}/a", _envelope("ConfigMap", _named("a"))
    )
    assert (status, "data" in replaced) == (200, False)
    other = _envelope("DeleteOptions", _sized(2, _sized(1, b"other")))
    status, _ = await _send(session, "DELETE", f"{CONFIG_MAPS}/a", other)
    assert status == 409
    own = _envelope("DeleteOptions", _sized(2, _sized(1, created["metadata"]["uid"].encode())))
    status, _ = await _send(session, "DELETE", f"{CONFIG_MAPS}/a", own)
    assert status == 200


async def test_options_are_read_for_custom_objects_too(session: aiohttp.ClientSession) -> None:
    """Custom objects have no protobuf form, but the options of their deletion do."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    assert (await session.post(crds, json=DEFINITION)).status == 201
    kind = GVK("example.com", "v1", "Widget")
    body = _envelope(kind.kind, _named("w"), api_version=kind.api_version)
    assert (await _send(session, "POST", widgets, body))[0] == 415
    options = _envelope("DeleteOptions", b"")
    assert (await _send(session, "DELETE", f"{widgets}/w", options))[0] == 404


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            b"",
            "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)",
        ),
        (
            b"k8s\x00",
            "the object provided is unrecognized (must be of type ConfigMap): "
            "empty body (6b387300)",
        ),
        (
            b'{"kind":"ConfigMap"}',
            "the object provided is unrecognized (must be of type ConfigMap): provided data does "
            "not appear to be a protobuf message, expected prefix [107 56 115 0] "
            '({"kind":"ConfigMap"})',
        ),
        (
            _envelope("ConfigMap", b"\x0a\x05"),
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF',
        ),
        (
            _envelope("Foo", b""),
            'Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered '
            'for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            _envelope("Secret", b""),
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
    ],
)
async def test_what_cannot_be_read_is_refused_as_a_real_server_does(
    session: aiohttp.ClientSession, body: bytes, told: str
) -> None:
    """In its words."""
    status, refusal = await _send(session, "POST", CONFIG_MAPS, body)
    assert (status, refusal["reason"], refusal["message"]) == (400, "BadRequest", told)


async def test_options_that_cannot_be_read_are_refused(session: aiohttp.ClientSession) -> None:
    """Nothing is deleted by mistake."""
    path = f"{CONFIG_MAPS}/a"
    await session.post(CONFIG_MAPS, json={"metadata": {"name": "a"}})
    status, refusal = await _send(session, "DELETE", path, b"k8s\x00")
    assert (status, refusal["message"]) == (400, "empty body")
    status, refusal = await _send(session, "DELETE", path, _envelope("Foo", b""))
    assert status == 400
    assert refusal["message"].startswith('no kind "Foo" is registered for version "v1" in scheme')
    assert (await session.get(path)).status == 200
