"""Would it fit? A scheduler answers with its own state, and stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from numakube.apps.host.access import Access
from numakube.apps.host.serving import Health, Listen, Serving
from numakube.apps.scheduler.endpoints import Endpoints
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster, without_election

SHAPE = "2 sockets, 4 cores, smt 1, 16Gi"


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Two nodes with two NUMA nodes of four CPUs each, one of them taken."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await world.start()
        await world.create(pod_document("runs", "3"))
        await world.runs("runs")
        yield world


@pytest.fixture
async def session(world: LabCluster) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the scheduler's endpoints."""
    (running,) = world.running
    process = running.process
    endpoints = Endpoints(process.scheduler, without_election(), running.client)
    serving = Serving(
        Listen(host="127.0.0.1", port=0),
        health=Health(),
        registry=process.registry,
        routes=endpoints.routes(Access(running.client, host="127.0.0.1")),
    )
    async with serving as server, aiohttp.ClientSession(server.url) as session:
        yield session


async def ask(session: aiohttp.ClientSession, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer."""
    async with session.post("/v1/fit", json=question) as response:
        assert response.status == 200, await response.text()
        answer: dict[str, Any] = await response.json()
        return answer


async def test_it_says_how_many_of_a_kind_fit_and_where(session: aiohttp.ClientSession) -> None:
    """With the NUMA node of each, and why the next one does not; twice the same."""
    for _ in range(2):
        answer = await ask(session, {"pod": pod_document("p", "3"), "count": 8})

        assert (answer["wanted"], answer["fits"], answer["onNewNodes"]) == (8, 3, 0)
        places = {(one["node"], *one["zones"][0]["ids"]) for one in answer["placements"]}
        assert len(places) == 3
        (refused,) = answer["refused"]
        assert refused["pod"] == "default/p-4"
        assert refused["reason"].startswith("0/2 nodes are available")


async def test_nodes_that_do_not_exist_can_be_counted_on(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """As an autoscaler asks; they are forgotten afterwards."""
    question = {"pod": pod_document("p", "3"), "count": 8}

    answer = await ask(session, {**question, "nodes": [f"2x {SHAPE}; policy=single-numa-node"]})

    assert (answer["fits"], answer["onNewNodes"]) == (7, 4)
    assert (await ask(session, question))["fits"] == 3
    assert len(world.running[0].process.mirror.cluster.row_of) == 2


async def test_different_pods_are_placed_one_after_the_other(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """One that does not fit does not keep the next one from fitting, and all can still run."""
    pods = [pod_document("large", "40"), pod_document("small", "3")]

    answer = await ask(session, {"pods": pods})

    assert [one["pod"] for one in answer["placements"]] == ["default/small"]
    assert [one["pod"] for one in answer["refused"]] == ["default/large"]
    await world.create(*(pod_document(f"p{number}", "3") for number in range(3)))
    await world.runs("p0", "p1", "p2")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "either pods or pod"),
        ({"pod": {}, "count": 0}, "count: 0 is not between 1 and 1000"),
        ({"pod": {}, "nodes": ["many"]}, "'many'"),
        ({"pods": 3}, "the question"),
    ],
)
async def test_a_question_that_makes_no_sense_is_told_why(
    session: aiohttp.ClientSession, question: dict[str, Any], words: str
) -> None:
    """By field."""
    async with session.post("/v1/fit", json=question) as response:
        assert response.status == 400
        assert words in await response.text()
