"""What the endpoint of the queue says of each pod: where it waits, why, and for what."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.apps.scheduler.parts import Parts

from numakube.api.pod import PodSchedulingGate
from numakube.apps.host.endpoint_access import Access
from numakube.apps.scheduler.scheduler_endpoints import SchedulerEndpoints
from numakube.scheduling.assembly import default_configuration
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.testing import World, pod


@pytest.fixture
def parts() -> Parts:
    """A scheduler without nodes."""
    return Parts(World())


async def documents(parts: Parts) -> dict[str, dict[str, Any]]:
    """Return what is said of each pod."""
    endpoints = SchedulerEndpoints(parts.parts, default_configuration(), parts.client)
    app = web.Application()
    app.add_routes(endpoints.routes(Access(parts.client, host="127.0.0.1")))
    async with TestClient(TestServer(app)) as client:
        answer = await (await client.get("/debug/queue")).json()
    return {entry["uid"]: entry for entry in answer["pods"]}


async def test_a_pod_that_backs_off_says_for_how_long_it_still_does(parts: Parts) -> None:
    """And for how long it has waited in all; no time is negative."""
    await parts.clock.advance(100.0)
    entry = parts.taken(pod("a"))
    await parts.clock.advance(2.0)
    parts.queue.failed(entry, "no answer")
    await parts.clock.advance(0.25)
    told = (await documents(parts))["a"]
    assert (told["place"], told["message"]) == ("backoff", "no answer")
    assert (told["waitingSeconds"], told["retryInSeconds"]) == (2.25, 0.75)
    assert told["wakesOn"] == []
    await parts.clock.advance(5.0)
    assert (await documents(parts))["a"]["retryInSeconds"] == 0.0


async def test_a_pod_that_fits_nowhere_says_which_events_would_help(parts: Parts) -> None:
    """Those that the plugins which refused it wait for, and no others."""
    entry = parts.taken(pod("a"))
    refused_by = frozenset({"TaintToleration", "a plugin that is gone"})
    parts.queue.refused(entry, refused_by, "no room")
    told = (await documents(parts))["a"]
    runtime = parts.engine.runtime_for(entry.pod.scheduler_name)
    kinds = runtime.profile.plugins()["TaintToleration"].wakes_on
    assert told["wakesOn"] == kinds.names()
    assert EventKind.POD_ADDED.names()[0] not in told["wakesOn"]
    assert told["refusedBy"] == sorted(refused_by)


async def test_a_pod_of_a_profile_that_is_gone_waits_for_no_event(parts: Parts) -> None:
    """It can be in the queue for a moment; the document is made all the same."""
    entry = parts.taken(pod("a"))
    parts.queue.refused(entry, frozenset({"TaintToleration"}), "no room")
    entry.pod = type(entry.pod)(pod("a", scheduler_name="another"))
    told = (await documents(parts))["a"]
    assert (told["wakesOn"], told["gate"]) == ([], "")


async def test_a_gated_pod_says_what_holds_it_back_now(parts: Parts) -> None:
    """Of a gang it counts the members of this moment; a gate that has just opened is still told."""
    parts.waits(pod("gated", scheduling_gates=(PodSchedulingGate(name="example.com/later"),)))
    labels = {NAME_LABEL: "g", MIN_LABEL: "3"}
    for name in ("m0", "m1"):
        parts.waits(pod(name, labels=labels))
    parts.waits(pod("free"))
    told = await documents(parts)
    assert "example.com/later" in told["gated"]["gate"]
    assert told["free"]["gate"] == ""
    # m0 was held back when it was alone, and is told the count of now.
    assert told["m0"]["gate"] == told["m1"]["gate"]
    assert "2" in told["m0"]["gate"]
    assert told["m0"]["gang"]["needed"] == 3
    assert "gang" not in told["free"]

    entry = parts.queue.waiting.get("gated")
    assert entry is not None
    entry.pod = type(entry.pod)(pod("gated"))
    assert "example.com/later" in (await documents(parts))["gated"]["gate"]
