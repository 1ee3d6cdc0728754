"""The flight recorder of a running scheduler: the whole story of a pod, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.apps.scheduler.test_mirror_listener_rejections import LIES
from tests.apps.scheduler.test_scheduler_endpoints import get, serving
from yarl import URL

from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """One node with three CPUs left in either zone at most."""
    async with lab_cluster(1, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        await world.create(
            pod_document("big", "5", nodeName="node-0"),
            pod_document("small", "5", nodeName="node-0"),
        )
        await world.until(lambda: len(world.by_phase("Running")) == 2)
        yield world


async def story(world: LabCluster, name: str) -> list[dict[str, Any]]:
    """Return the attempts of a pod, oldest first."""
    async with (
        serving(world, "127.0.0.1") as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        document = await get(session, f"/debug/pods/default/{name}")
        assert document["kind"] == "PodAttempts"
        (flight,) = document["flights"]
        listed = await get(session, "/debug/attempts?full=true&namespace=default&limit=5")
        assert flight["uid"] in [entry["uid"] for entry in listed["items"]]
        short = await get(session, "/debug/attempts?node=nowhere")
        assert short["items"] == []
        for limit in ("99999999999999999999", "9" * 5000):
            all_ = await get(session, f"/debug/attempts?limit={limit}")
            assert flight["uid"] in [entry["uid"] for entry in all_["items"]]
        for limit in ("many", "-1", "%C2%B2"):
            async with session.get(URL(f"/debug/attempts?limit={limit}", encoded=True)) as response:
                assert response.status == 400
    attempts: list[dict[str, Any]] = flight["attempts"]
    return attempts


def events_of(world: LabCluster, name: str) -> list[str]:
    """Return what was noted of a pod so far."""
    (running,) = [scheduler for scheduler in world.running if not scheduler.task.done()]
    flights = running.process.scheduler.recording.recorder.called("default", name)
    return [
        type(note).__name__
        for flight in flights
        for attempt in flight.attempts
        for note in attempt.notes
    ]


async def test_a_pod_that_is_refused_then_placed_and_admitted_tells_all_of_it(
    world: LabCluster,
) -> None:
    """Why refused, what woke it, where it went, what was predicted and what it got."""
    await world.start()
    await world.create(pod_document("late", "4"))
    await world.refuses("late")
    await world.delete("small")
    await world.runs("late")
    await world.until(lambda: {"AdmittedNote", "ObservedNote"} <= set(events_of(world, "late")))
    attempts = await story(world, "late")
    first, last = attempts[0], attempts[-1]
    assert first["queued"]["why"] == "created"
    (tried,) = first["events"]
    assert tried["result"] == "refused"
    refusals = [refusal for refusal in tried["refusals"] if refusal["closest"] is not None]
    assert refusals, str(tried["refusals"])
    assert refusals[0]["closest"]["resource"] == "cpu"
    assert refusals[0]["examples"] == ["node-0"]
    assert "on node-0" in last["queued"]["why"]
    names = [event["event"] for event in last["events"]]
    assert names[:3] == ["tried", "reserved", "bound"]
    events = {event["event"]: event for event in last["events"]}
    assert events["tried"]["node"] == events["admitted"]["node"] == "node-0"
    assert events["observed"]["zones"] == events["reserved"]["predicted"]
    assert "mispredicted" not in events


async def test_a_rejection_by_the_kubelet_is_part_of_the_story(world: LabCluster) -> None:
    """Reports that lie are believed until then."""
    world.exporters.skew(["node-0"], LIES)
    running = await world.start()
    mirror = running.process.mirror
    await world.until(
        lambda: any(
            free.get("cpu", 0) > 3000
            for node in mirror.cluster.nodes()
            for free in (node.numa.available if node.numa is not None else ())
        )
    )
    await world.create(pod_document("unlucky", "4"))
    await world.until(lambda: "RejectedNote" in events_of(world, "unlucky"))
    attempts = await story(world, "unlucky")
    rejected = attempts[-1]["events"][-1]
    assert (rejected["event"], rejected["node"]) == ("rejected", "node-0")
    assert rejected["reason"]


async def test_a_scheduler_that_starts_anew_says_since_when_it_records(world: LabCluster) -> None:
    """What was before is gone; what waits is tried and recorded again."""
    first = await world.start()
    await world.create(pod_document("late", "4"))
    await world.refuses("late")
    await first.end()
    world.running.clear()
    await world.start()
    await world.until(lambda: bool(events_of(world, "late")))
    attempts = await story(world, "late")
    assert attempts[0]["number"] == 1
