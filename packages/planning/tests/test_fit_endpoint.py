"""Would it fit? A scheduler answers with its own state, and stays as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.apps.scheduler.served import served

from kube_lab_server.schema.builtin_types import struct
from numakube.api.fit_question import HOLD
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, PodSpec
from numakube.apps.debugging.documents import Speaker
from numakube.insight.node_groups import MACHINE
from numakube.insight.scheduler_engine import engine_of
from numakube.kube.catalog import NODES
from numakube.kube.client import merge_patch
from numakube.kube.clock import SystemClock
from numakube.scheduling.plugins.gang_scheduling import GangMembers
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL, REQUIRED_TOPOLOGY
from numakube.testing import World, pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster
from numakube_planning.fit_endpoint import UNREAD, FitEndpoint

RACK = "example.com/rack"
SHAPE = "2 sockets, 4 cores, smt 1, 16Gi"


def limited(**amounts: str) -> dict[str, Any]:
    """Return a pod that only limits."""
    container = {"name": "c", "resources": {"limits": amounts}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container]}}


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
    async with client_of(world) as session:
        yield session


@asynccontextmanager
async def client_of(world: LabCluster) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a client of the scheduler that was started last."""
    async with served(world.running[-1]) as url, aiohttp.ClientSession(url) as session:
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
        places = {
            (placement["node"], *placement["zones"][0]["ids"]) for placement in answer["placements"]
        }
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


@pytest.mark.parametrize("told", ["like", "group", "topology"])
async def test_new_nodes_can_be_like_others(
    world: LabCluster, session: aiohttp.ClientSession, told: str
) -> None:
    """Like one that is there, of a group that says what it is like, or with a report."""
    question = {"pod": pod_document("p", "3"), "count": 8}
    node = await world.client.get(NODES.raw, "node-0")
    new: dict[str, Any] = {"count": 2, "like": "node-0"}
    if told != "like":
        shape = {MACHINE: f"{SHAPE}; policy=single-numa-node"} if told == "group" else {}
        node["metadata"] = {"name": "template", "annotations": shape}
        new = {"count": 2, "node": node}
    if told == "topology":
        idle = {"node-0": "node-1"}.get(world.pod("runs").spec.node_name, "node-0")
        info = world.running[-1].process.mirror.cluster.node(idle)
        assert info is not None
        assert info.numa is not None
        new["topology"] = msgspec.to_builtins(info.numa.nrt)

    answer = await ask(session, {**question, "nodes": [new]})

    assert (answer["fits"], answer["onNewNodes"]) == (7, 4)
    assert (await ask(session, question))["fits"] == 3


async def test_different_pods_are_placed_one_after_the_other(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """One that does not fit does not keep the next one from fitting, and all can still run."""
    pods = [pod_document("large", "40"), pod_document("small", "3")]

    answer = await ask(session, {"pods": pods})

    assert [placement["pod"] for placement in answer["placements"]] == ["default/small"]
    assert [entry["pod"] for entry in answer["refused"]] == ["default/large"]
    await world.create(*(pod_document(f"p{number}", "3") for number in range(3)))
    await world.runs("p0", "p1", "p2")


def of_job(name: str) -> dict[str, Any]:
    """Return a pod of the job for which room is kept."""
    return pod_document(name, "3", metadata={"annotations": {HOLD: "job"}})


def held(seconds: float = 600, count: int = 2) -> dict[str, Any]:
    """Return the question that keeps room for the job."""
    hold = {"name": "job", "seconds": seconds}
    return {"pod": pod_document("j", "3"), "count": count, "hold": hold}


async def test_room_is_kept_for_those_who_are_to_come(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """Others get what is left, whenever they come, and the same question takes no more."""
    for _ in range(2):
        assert (await ask(session, held()))["fits"] == 2
    await world.create(pod_document("a", "3"), pod_document("b", "3"))
    await world.runs("a")
    await world.refuses("b", "0/2 nodes are available")

    await world.create(of_job("first"))
    await world.runs("first")

    answer = await ask(session, held())
    assert (answer["wanted"], answer["fits"], answer["placements"]) == (2, 2, [])
    await world.create(of_job("second"))
    await world.runs("second")
    assert not world.pod("b").spec.node_name


async def test_room_that_is_given_back_is_taken_at_once(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """By who asked for it, or when its time is over."""
    await ask(session, held(count=3))
    await world.create(pod_document("a", "3"))
    await world.refuses("a", "0/2 nodes are available")

    assert (await ask(session, held(seconds=0)))["wanted"] == 0

    await world.runs("a")
    await ask(session, held(seconds=0.1))
    await world.create(pod_document("b", "3"))
    await world.runs("b")


async def test_nothing_is_kept_unless_all_fit(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """Four do not, so others may have it all."""
    assert (await ask(session, held(count=4)))["fits"] == 3

    await world.create(*(pod_document(name, "3") for name in "abc"))

    await world.runs("a", "b", "c")


async def test_asking_again_after_a_restart_counts_those_who_have_come(world: LabCluster) -> None:
    """The new scheduler keeps one place for the one that is still to come."""
    async with client_of(world) as session:
        await ask(session, held())
        await world.create(of_job("first"))
        await world.runs("first")
    await world.running.pop().end()
    again = await world.start()
    # Until then it answers, and keeps no room.
    await world.until(lambda: again.process.parts.queue.leads)

    async with client_of(world) as session:
        answer = await ask(session, held())

        assert (answer["fits"], len(answer["placements"])) == (2, 1)
        await world.create(pod_document("a", "3"), pod_document("b", "3"))
        await world.runs("a")
        await world.create(of_job("second"))
        await world.runs("second")


async def test_a_gang_is_asked_about_by_the_rules_of_its_group(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """Enough of them, in one topology domain; those that run, and those that wait, count too."""
    for name in ("node-0", "node-1"):
        await world.client.patch(NODES, name, merge_patch({"metadata": {"labels": {RACK: name}}}))
    labels = {NAME_LABEL: "g", MIN_LABEL: "3"}
    metadata = {"labels": labels, "annotations": {REQUIRED_TOPOLOGY: RACK}}
    gang = {"pod": pod_document("p", "3", metadata=metadata), "gang": True}

    answer = await ask(session, {**gang, "count": 2})
    assert answer["refused"][0]["reason"] == "gang default/g: there are 2 of 3 needed pods"
    await world.until(lambda: all(RACK in node.metadata.labels for node in _nodes(world)))
    answer = await ask(session, {**gang, "count": 3})
    assert (answer["fits"], answer["placements"]) == (0, [])
    (idle,) = {"node-0", "node-1"} - {world.pod("runs").spec.node_name}
    short = f"3 pods have to fit in one {RACK}; the best, {idle}, takes 2"
    told = f"gang default/g: {short} (3 in all domains of {RACK})"
    assert [entry["reason"] for entry in answer["refused"]] == [told] * 3

    await world.create(*(pod_document(name, "2", metadata=metadata) for name in "ab"))
    members = world.running[-1].process.parts.members
    await world.until(lambda: [member.known for member in members] == [2])
    answer = await ask(session, {**gang, "pod": pod_document("c", "2", metadata=metadata)})
    assert answer["fits"] == 1


async def test_pods_of_lower_priority_can_be_thought_away(
    world: LabCluster, session: aiohttp.ClientSession
) -> None:
    """The answer names them, and they go on running."""
    question = {"pod": pod_document("p", "3", priority=10), "count": 4}

    answer = await ask(session, {**question, "preemption": True})

    assert (answer["fits"], (await ask(session, question))["fits"]) == (4, 3)
    assert [placement.get("evicts") for placement in answer["placements"]].count(
        ["default/runs"]
    ) == 1
    assert world.pod("runs").spec.node_name


def _nodes(world: LabCluster) -> list[Any]:
    return list(world.running[-1].process.mirror.nodes.store)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "either pods, pod or podSets"),
        ({"pod": limited(cpu="1"), "count": 0}, "count: 0 is not between 1 and 1000"),
        ({"pod": limited(cpu="1"), "nodes": ["many"]}, "'many'"),
        ({"pods": 3}, "the question"),
        ({"pod": limited(cpu="1"), "nodes": [{"like": "ghost"}]}, "there is no node 'ghost'"),
        (
            {"pod": limited(cpu="1"), "nodes": [{"node": {"metadata": {"name": "x"}}}]},
            "x: its topology is not",
        ),
        (
            {"pod": limited(cpu="1"), "nodes": [{"like": "node-0", "count": 0}]},
            "count: 0 is not between",
        ),
        ({"pod": limited(cpu="1"), "hold": {"name": "", "seconds": 1}}, "hold: it needs a name"),
        (
            {"pod": limited(cpu="1"), "hold": {"name": "j", "seconds": 1}, "nodes": ["1 socket"]},
            "nodes: no room",
        ),
    ],
)
async def test_a_question_that_makes_no_sense_is_told_why(
    session: aiohttp.ClientSession, question: dict[str, Any], words: str
) -> None:
    """By field."""
    async with session.post("/v1/fit", json=question) as response:
        assert response.status == 400
        assert words in await response.text()


async def test_nodes_like_one_that_is_there_are_named_in_a_line(
    session: aiohttp.ClientSession,
) -> None:
    """As people write it for the tools."""
    question = {"pod": limited(cpu="4", memory="1Gi"), "count": 20}
    answer = await ask(session, {**question, "nodes": ["2x like node-0", "node-1"]})
    assert answer["onNewNodes"] == 3 * 1


async def test_what_a_pod_limits_it_requests(session: aiohttp.ClientSession) -> None:
    """As the API server completes it, for containers and for the pod as a whole."""
    answer = await ask(session, {"pod": limited(cpu="400", memory="1Gi")})
    assert (answer["fits"], "Insufficient cpu" in answer["refused"][0]["reason"]) == (0, True)
    whole = {"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "400"}}}
    assert (await ask(session, {"pods": [{"spec": whole}]}))["fits"] == 0
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    whole = {"containers": [container], "resources": {"limits": {"cpu": "400"}}}
    assert (await ask(session, {"pods": [{"spec": whole}]}))["fits"] == 1


async def test_what_is_no_question_is_refused_by_name(session: aiohttp.ClientSession) -> None:
    """With what may be meant; nothing that is asked is ignored."""
    good = limited(cpu="1")
    typo = {"spec": {"containers": [{"name": "c", "resorces": {}}]}}
    deep = {"spec": {"containers": [{"name": "c", "resources": {"limit": {"cpu": "1"}}}]}}
    taint = {"spec": {**good["spec"], "tolerations": [{"key": "a", "efect": "NoSchedule"}]}}
    refused: dict[str, dict[str, Any]] = {
        "cuont: unknown field (is count meant?)": {"pod": good, "cuont": 3},
        "pod.spec.containers[0].resorces: unknown field (is resources meant?)": {"pod": typo},
        "pods[1].spec.containers[0].resources.limit: unknown": {"pods": [good, deep]},
        "podSets[0].pod.spec.tolerations[0].efect: unknown": {"podSets": [{"pod": taint}]},
        "hold.secs: unknown field": {"pod": good, "hold": {"name": "a", "secs": 1}},
        "pods[1].spec.containers: a pod needs a container": {"pods": [good, {"metadata": {}}]},
        "pod.spec.containers: a pod needs a container": {"pod": {"spec": {}}},
        "single-numa-node": {"pod": limited(cpu="single-numa-node")},
    }
    for text, question in refused.items():
        async with session.post("/v1/fit", json=question) as response:
            told = await response.text()
            assert (response.status, text in told) == (400, True), told
    fields: dict[str, Any] = {"securityContext": {}, "livenessProbe": {}, "envFrom": []}
    whole = {**good, "status": {"any": 1}}
    whole["spec"] = {"dnsPolicy": "x", "containers": [{**good["spec"]["containers"][0], **fields}]}
    assert (await ask(session, {"pod": whole}))["fits"] == 1


async def test_a_question_that_takes_too_long_is_ended() -> None:
    """Nothing is scheduled while it is answered."""

    class Leaping(SystemClock):
        def monotonic(self) -> float:
            return super().monotonic() * 1000

    world = World()
    world.add_node("n")
    speaker = Speaker("scheduler", "", lambda: True)
    fit = FitEndpoint(engine_of(world.facts()), speaker, None, GangMembers(), clock=Leaping())
    app = web.Application()
    app.add_routes(fit.routes(SimpleNamespace(guarded=lambda handler: handler)))  # type: ignore[arg-type]
    question = {"pod": limited(cpu="1m"), "count": 900}
    async with TestClient(TestServer(app)) as client, client.post("/v1/fit", json=question) as told:
        assert (told.status, "ask about fewer pods" in await told.text()) == (503, True)


def test_fields_that_schedulers_do_not_read_are_those_of_kubernetes() -> None:
    """All of them, so that no pod of a cluster is refused."""
    for package, name, type_ in (
        ("core.v1", "PodSpec", PodSpec),
        ("core.v1", "Container", Container),
        ("meta.v1", "ObjectMeta", ObjectMeta),
    ):
        read = {field.encode_name for field in msgspec.structs.fields(type_)}
        assert struct(package, name).fields.keys() - read == UNREAD[type_]
