"""What came of a binding is always found out, whatever the server answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.apps.ordered_binds import Result, bind
from numakube.apps.scheduler.binders import DefaultBinder
from numakube.kube.clock import JumpingClock
from numakube.kube.connect import connect
from numakube.kube.scripted_server import ScriptedServer
from numakube.scheduling.framework.cycle_state import CycleState, annotate
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.snapshot.pods import PodInfo

POD = PodInfo(Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u1")))


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A server that does what the test says."""
    async with ScriptedServer() as server:
        yield server


async def bound(server: ScriptedServer) -> Result:
    """Bind the pod to node n."""
    async with connect(server.config, clock=JumpingClock(), rate=0) as client:
        return (await bind(client, POD, "n")).result


def found(node: str = "", uid: str = "u1", **metadata: Any) -> dict[str, Any]:
    """Return the pod as the server has it."""
    names = {"name": "p", "namespace": "ns", "uid": uid, **metadata}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": names, "spec": {"nodeName": node}}


async def cut(request: web.Request) -> web.StreamResponse:
    """Break the connection off after the request has come."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def test_the_binding_names_the_pod_by_its_uid(server: ScriptedServer) -> None:
    """A pod that took its name meanwhile is not bound."""
    server.reply({}, status=201)
    assert await bound(server) is Result.BOUND
    (request,) = server.received
    assert request.path == "/api/v1/namespaces/ns/pods/p/binding"
    document: Any = request.json()
    assert (document["metadata"]["uid"], document["target"]["name"]) == ("u1", "n")


async def test_what_plugins_leave_for_the_pod_goes_with_the_binding(server: ScriptedServer) -> None:
    """The server sets it in the same step; there is no second request that could get lost."""
    server.reply({}, status=201)
    state = CycleState()
    annotate(state, {"example.org/a": "1"})
    annotate(state, {"example.org/b": "2"})
    async with connect(server.config, clock=JumpingClock(), rate=0) as client:
        assert await DefaultBinder(client).bind(state, POD, "n") == SUCCESS
    (request,) = server.received
    document: Any = request.json()
    assert document["metadata"]["annotations"] == {"example.org/a": "1", "example.org/b": "2"}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (found("n"), Result.BOUND),
        (found(""), Result.FAILED),
        (found("m"), Result.ELSEWHERE),
        (found("", uid="u2"), Result.GONE),
        (found("", deletionTimestamp="2026-01-01T00:00:00Z"), Result.GONE),
    ],
)
@pytest.mark.parametrize("failure", [409, 500, 504, "cut"])
async def test_after_an_answer_that_tells_nothing_it_looks(
    server: ScriptedServer, failure: int | str, answer: dict[str, Any], result: Result
) -> None:
    """The binding may have been carried out, by us or by somebody else."""
    if isinstance(failure, int):
        server.refuse(failure, "Conflict" if failure == 409 else "InternalError")
    else:
        server.script(cut)
    server.reply(answer)
    assert await bound(server) is result
    assert [received.method for received in server.received] == ["POST", "GET"]


async def test_it_keeps_looking_while_the_server_is_away(server: ScriptedServer) -> None:
    """As long as nobody knows, the pod must go on counting on its node."""
    server.refuse(500, "InternalError")
    for _ in range(20):
        server.refuse(503, "ServiceUnavailable")
    server.reply(found("n"))
    assert await bound(server) is Result.BOUND


@pytest.mark.parametrize(("code", "result"), [(404, Result.GONE), (403, Result.FAILED)])
async def test_a_plain_refusal_needs_no_look(
    server: ScriptedServer, code: int, result: Result
) -> None:
    """Nothing was done."""
    server.refuse(code, "NotFound" if code == 404 else "Forbidden")
    assert await bound(server) is result
    assert len(server.received) == 1
