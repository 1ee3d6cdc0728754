"""What users are told about pods, and what becomes of it when the server is in trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.apps.scheduler.decision_events import (
    REWRITES_AT_ONCE,
    REWRITES_PER_SECOND,
    Outcomes,
)
from numakube.apps.scheduler.preemption_actions import evict
from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock
from numakube.kube.connect import connect
from numakube.kube.event_recorder import EventRecorder
from numakube.kube.scripted_server import Received, ScriptedServer
from numakube.scheduling.plugins.node_shards import REFUSED_BY, NodeShards
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import until


def pod(name: str) -> PodInfo:
    """Return a pod."""
    return PodInfo(Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}")))


@dataclass(slots=True)
class Setup:
    """Outcomes that are being written to a scripted server."""

    server: ScriptedServer
    client: Client
    outcomes: Outcomes
    shards: NodeShards

    async def received(self, count: int) -> list[Received]:
        """Return the requests as soon as there are so many."""
        return await until(lambda: self.server.received, lambda seen: len(seen) >= count)


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    """A running writer; the server accepts everything that the script does not refuse."""

    async def accept(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Pod", "metadata": {"name": "p"}})

    async with (
        ScriptedServer(otherwise=accept) as server,
        connect(server.config, clock=JumpingClock(), rate=0) as client,
    ):
        events = EventRecorder(client, component="test", instance="i")
        shards = NodeShards()
        outcomes = Outcomes(client, events, shards)
        task = asyncio.create_task(outcomes.run())
        yield Setup(server, client, outcomes, shards)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def condition_of(request: Received) -> dict[str, Any]:
    """Return the condition in a patch."""
    document: Any = request.json()
    (condition,) = document["status"]["conditions"]
    return dict(condition)


async def test_a_refusal_is_written_as_a_condition(setup: Setup) -> None:
    """For the pod that it is about, not for one that took its name."""
    setup.outcomes.refused(pod("p"), "no room")
    (request,) = await setup.received(1)
    assert request.path == "/api/v1/namespaces/ns/pods/p/status"
    document: Any = request.json()
    assert document["metadata"]["uid"] == "uid-p"
    condition = condition_of(request)
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
    }


async def test_pods_are_told_again_at_a_limited_rate_and_the_latest_only(setup: Setup) -> None:
    """With ten thousand waiting pods every change would mean ten thousand patches."""
    many = [pod(f"p{number}") for number in range(REWRITES_AT_ONCE + 10)]
    before = setup.client.clock.monotonic()
    for text in ("3 nodes lack cpu", "2 nodes lack cpu"):
        for one in many:
            setup.outcomes.refused(one, text, again=True)
    setup.outcomes.forget(many.pop().uid)
    requests = await setup.received(len(many))
    assert {condition_of(request)["message"] for request in requests} == {"2 nodes lack cpu"}
    passed = setup.client.clock.monotonic() - before
    assert passed >= (len(many) - REWRITES_AT_ONCE) / REWRITES_PER_SECOND


async def test_what_a_server_in_trouble_does_not_take_is_written_later(setup: Setup) -> None:
    """With what has been said since."""
    setup.server.refuse(500, "InternalError")
    setup.outcomes.refused(pod("p"), "no room")
    setup.outcomes.nominated(pod("p"), "n")
    requests = await setup.received(2)
    assert condition_of(requests[1])["message"] == "no room"


async def test_a_refusal_says_which_shard_it_is_of(setup: Setup) -> None:
    """Also when it is written again."""
    setup.shards.join("a")
    setup.shards.announced(frozenset("a"))
    setup.shards.saw({})
    setup.server.refuse(500, "InternalError")
    setup.outcomes.refused(pod("p"), "no room")
    for request in await setup.received(2):
        document: Any = request.json()
        assert document["metadata"]["annotations"] == {REFUSED_BY: "a"}


async def test_what_the_server_does_not_want_is_dropped(setup: Setup) -> None:
    """The next pod's turn comes."""
    setup.server.refuse(422, "Invalid")
    setup.outcomes.refused(pod("p"), "no room")
    await setup.received(1)
    setup.outcomes.refused(pod("q"), "no room")
    requests = await setup.received(2)
    assert requests[-1].path.endswith("/pods/q/status")


async def test_a_refusal_never_comes_after_the_binding(setup: Setup) -> None:
    """It would say of a running pod that it is not scheduled."""
    go, order = asyncio.Event(), list[str]()

    async def slow(_: web.Request) -> web.StreamResponse:
        await go.wait()
        order.append("refusal")
        return web.json_response({"kind": "Pod", "metadata": {"name": "p"}})

    setup.server.script(slow)
    setup.outcomes.refused(pod("p"), "no room")
    await setup.received(1)
    setup.outcomes.refused(pod("p"), "still no room")

    async def withdraw() -> None:
        await setup.outcomes.withdraw(pod("p"))
        order.append("binding")

    task = asyncio.create_task(withdraw())
    go.set()
    await task
    assert order == ["refusal", "binding"]
    setup.outcomes.refused(pod("q"), "no room")
    requests = await setup.received(2)
    assert [request.path.split("/")[-2] for request in requests] == ["p", "q"]


async def test_a_victim_is_marked_and_then_deleted(setup: Setup) -> None:
    """By its uid, and with its own grace period."""
    assert await evict(setup.client, [pod("victim")], pod("urgent"), "n") == []
    mark, delete = setup.server.received
    condition = condition_of(mark)
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert delete.method == "DELETE"
    options: Any = delete.json()
    assert options["preconditions"]["uid"] == "uid-victim"
    assert "gracePeriodSeconds" not in options


async def test_a_victim_that_is_gone_is_no_problem_but_a_refusal_is(setup: Setup) -> None:
    """The room is there either way, or it is not."""
    setup.server.refuse(404, "NotFound")
    assert await evict(setup.client, [pod("gone")], pod("urgent"), "n") == []
    setup.server.refuse(403, "Forbidden", message="not you")
    (problem,) = await evict(setup.client, [pod("kept")], pod("urgent"), "n")
    assert problem.startswith("ns/kept: ")


async def test_a_conflict_is_a_problem_while_the_victim_is_there(setup: Setup) -> None:
    """A write of another came in between; or another pod has the victim's name by now."""
    for uid, problems in (("uid-victim", 1), ("uid-another", 0)):
        setup.server.refuse(409, "Conflict", message="modified")
        setup.server.reply({"metadata": {"name": "victim", "namespace": "ns", "uid": uid}})
        found = await evict(setup.client, [pod("victim")], pod("urgent"), "n")
        assert len(found) == problems
