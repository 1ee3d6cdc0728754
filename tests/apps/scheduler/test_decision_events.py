"""What is still to be written about a pod when a write fails: all of it, and the latest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from numakube.apps.scheduler.decision_events import Outcomes
from numakube.kube.clock import JumpingClock
from numakube.kube.connect import connect
from numakube.kube.event_recorder import EventRecorder
from numakube.kube.scripted_server import ScriptedServer
from numakube.scheduling.plugins.node_shards import REFUSED_BY, NodeShards
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod, until


class Setup:
    """Outcomes of the shard ``a``, and a server that takes what it does not keep waiting."""

    def __init__(self, server: ScriptedServer, outcomes: Outcomes) -> None:
        self.server = server
        self.outcomes = outcomes
        self.go = asyncio.Event()

    async def fails(self, _: web.Request) -> web.StreamResponse:
        """Fail, when the test says so."""
        await self.go.wait()
        return web.json_response({"kind": "Status", "code": 500}, status=500)

    async def written(self, count: int) -> list[dict[str, Any]]:
        """Return the documents of that many requests."""
        seen = await until(lambda: self.server.received, lambda found: len(found) >= count)
        documents: list[Any] = [received.json() for received in seen]
        return documents


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    """A running writer."""

    async def accept(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Pod", "metadata": {"name": "p"}})

    async with (
        ScriptedServer(otherwise=accept) as server,
        connect(server.config, clock=JumpingClock(), rate=0) as client,
    ):
        shards = NodeShards()
        shards.join("a")
        shards.announced(frozenset("a"))
        shards.saw({})
        outcomes = Outcomes(client, EventRecorder(client, component="t", instance="i"), shards)
        task = asyncio.create_task(outcomes.run())
        yield Setup(server, outcomes)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_refusal_that_was_not_written_comes_with_what_was_said_since(setup: Setup) -> None:
    """In one write, with the mark of the shard that belongs to the refusal."""
    setup.server.script(setup.fails)
    setup.outcomes.refused(PodInfo(pod("p")), "no room")
    await setup.written(1)
    setup.outcomes.nominated(PodInfo(pod("p")), "n1")
    setup.go.set()
    _, again = await setup.written(2)
    assert again["status"]["nominatedNodeName"] == "n1"
    assert again["status"]["conditions"][0]["message"] == "no room"
    assert again["metadata"]["annotations"] == {REFUSED_BY: "a"}


async def test_a_newer_refusal_replaces_the_one_that_was_not_written(setup: Setup) -> None:
    """Its text, and the shards that have refused the pod by then."""
    setup.server.script(setup.fails)
    setup.outcomes.refused(PodInfo(pod("p")), "no room")
    await setup.written(1)
    newer = PodInfo(pod("p", annotations={REFUSED_BY: "b"}))
    setup.outcomes.refused(newer, "still no room")
    setup.go.set()
    _, again = await setup.written(2)
    assert again["status"]["conditions"][0]["message"] == "still no room"
    assert again["metadata"]["annotations"] == {REFUSED_BY: "a,b"}


async def test_only_a_refusal_for_want_of_room_counts_as_one_of_the_shard(setup: Setup) -> None:
    """After a failure the other shards have no reason to try the pod."""
    setup.outcomes.refused(PodInfo(pod("p")), "no answer", reason="SchedulerError")
    (document,) = await setup.written(1)
    assert "annotations" not in document["metadata"]


async def test_room_that_is_taken_back_is_written_as_none(setup: Setup) -> None:
    """An empty name would be refused by the server."""
    setup.outcomes.nominated(PodInfo(pod("p")), "")
    (document,) = await setup.written(1)
    assert document["status"] == {"nominatedNodeName": None}
