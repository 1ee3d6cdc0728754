"""``pods/proxy``: requests reach what a pod serves, and the sender's credentials do not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kube_lab_server import ApiServer
from numakube.errors import ApiError, NotFound
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.connection.transport import Request
from numakube_lab.inprocess_transport import InProcess

POD = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "ports": [{"name": "metrics", "containerPort": 8080}],
            }
        ]
    },
}


async def echo(request: web.Request) -> web.Response:
    """Tell what was received."""
    if request.path == "/teapot":
        return web.Response(status=418, text="short and stout")
    seen = {
        "method": request.method,
        "path": request.path_qs,
        "headers": {name.lower(): text for name, text in request.headers.items()},
        "body": await request.text(),
    }
    return web.json_response(seen)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A server with one pod, whose port 8080 is served elsewhere."""
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", echo)
    async with TestServer(application) as behind, ApiServer() as server:
        url = str(behind.make_url("")).rstrip("/")
        server.state.pod_servers.append(lambda _, port: url if port == 8080 else "")
        client = Client(InProcess(server), rate=0)
        await client.create(PODS.raw, POD)
        yield client


def path(name: str, rest: str = "debug/queue") -> str:
    """Return the path of a proxied request."""
    return f"/api/v1/namespaces/default/pods/{name}/proxy/{rest}"


@pytest.mark.parametrize("name", ["web", "web:8080", "web:metrics", "http:web:metrics"])
async def test_a_request_reaches_the_pod(client: Client, name: str) -> None:
    """By any way to write its port, with query, body and headers but for the credentials."""
    request = Request(
        method="PUT",
        path=path(name),
        query=(("node", "n1"),),
        body=b"5",
        headers=(("X-Numakube-Token", "secret"), ("Authorization", "Bearer mine")),
    )
    seen = json.loads((await client.request(request)).body)
    assert (seen["method"], seen["path"], seen["body"]) == ("PUT", "/debug/queue?node=n1", "5")
    assert seen["headers"]["x-numakube-token"] == "secret"
    assert "authorization" not in seen["headers"]


async def test_answers_come_back_as_they_are(client: Client) -> None:
    """Errors of the pod too."""
    with pytest.raises(ApiError) as refused:
        await client.request(Request(method="GET", path=path("web", "teapot")), retry=False)
    assert refused.value.code == 418


async def test_what_is_not_there_is_refused(client: Client) -> None:
    """A pod that does not exist, and a port that nobody serves."""
    with pytest.raises(NotFound):
        await client.request(Request(method="GET", path=path("none")))
    with pytest.raises(ApiError) as refused:
        await client.request(Request(method="GET", path=path("web:9")), retry=False)
    assert refused.value.code == 503
