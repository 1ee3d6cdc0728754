"""Calls of a kube-scheduler become attempts in the extender's flight recorder."""

from __future__ import annotations

from typing import Any

import aiohttp
from tests.apps.extender.place import Place, asked, binding

from numakube.apps.debugging.documents import Speaker
from numakube.apps.extender.process import Debugging, ExtenderProcess
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Listen, Serving


async def story(process: ExtenderProcess, place: Place, name: str) -> list[dict[str, Any]]:
    """Return the attempts of a pod as the extender serves them."""
    speaker = Speaker("extender", process.identity, lambda: True)
    debugging = Debugging(place.client, process.mirror, process.recording, speaker)
    listen = Listen(host="127.0.0.1", port=0)
    routes = debugging.routes(Access(place.client, host="127.0.0.1"))
    async with (
        Serving(listen, health=Health(), registry=process.registry, routes=routes) as server,
        aiohttp.ClientSession(server.url) as session,
        session.get(f"/debug/pods/default/{name}") as response,
    ):
        document = await response.json()
        assert document["speaker"]["kind"] == "extender"
        (flight,) = document["flights"]
        attempts: list[dict[str, Any]] = flight["attempts"]
        return attempts


async def test_filter_prioritize_and_bind_are_one_attempt(place: Place) -> None:
    """Refused first, then rated, booked and bound."""
    process = await place.start()
    await place.node("n1", 2, 2)
    pod = await place.pod("a")
    process.verbs.filter(asked(pod, "n1", "unknown"))
    await place.node("n2", 8, 8)
    process.verbs.filter(asked(pod, "n1", "n2"))
    process.verbs.prioritize(asked(pod, "n2"))
    assert not (await process.verbs.bind(binding(pod, "n2"))).error
    first, second = await story(process, place, "a")
    (refused,) = first["events"]
    assert (refused["by"], refused["result"], refused["feasible"]) == ("filter", "refused", 0)
    assert refused["refusals"][0]["closest"]["resource"] == "cpu"
    assert refused["refusals"][0]["examples"] == ["n1"]
    events = {event["event"]: event for event in second["events"]}
    assert (events["tried"]["result"], events["tried"]["feasible"]) == ("feasible", 1)
    assert events["prioritized"]["best"] == "n2"
    assert events["reserved"]["node"] == events["bound"]["node"] == "n2"


async def test_a_bind_that_is_refused_says_why(place: Place) -> None:
    """Also if another replica was asked before."""
    process = await place.start()
    await place.node("n1", 8, 8)
    pod = await place.pod("a")
    assert not (await process.verbs.bind(binding(pod, "n1"))).error
    (attempt,) = await story(process, place, "a")
    assert attempt["queued"]["why"] == "kube-scheduler binds it"
    assert [event["event"] for event in attempt["events"]][:2] == ["reserved", "bound"]
    other = await place.pod("b")
    process.verbs.filter(asked(other, "n1"))
    assert (await process.verbs.bind(binding(other, "n9"))).error
    (attempt,) = await story(process, place, "b")
    assert attempt["events"][-1]["event"] == "notBound"
    assert "n9" in attempt["events"][-1]["reason"]
