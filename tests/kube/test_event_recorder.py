"""Events: counted, combined, kept within limits, and never in the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest
import structlog
from aiohttp import web

from numakube.api.meta import ObjectMeta, ObjectReference
from numakube.api.pod import Pod
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock, ManualClock
from numakube.kube.connect import connect
from numakube.kube.event_recorder import (
    COMBINING_SECONDS,
    MOST_HELD,
    MOST_HELD_SECONDS,
    Correlator,
    EventRecorder,
    Occurrence,
    reference_to,
)
from numakube.kube.scripted_server import ScriptedServer, status_document
from numakube.testing import until

POD = reference_to(
    PODS,
    Pod(metadata=ObjectMeta(name="web", namespace="ns", uid="u", resource_version="5")),
)
NODE = ObjectReference(api_version="v1", kind="Node", name="n1")


class EventServer:
    """Keeps events as a server does."""

    def __init__(self, server: ScriptedServer) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.answers_lost = 0
        server.otherwise = self._handle

    @property
    def only(self) -> dict[str, Any]:
        """The only event."""
        (event,) = self.events.values()
        return event

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path.rpartition('/')[0]}")
        body = msgspec.json.decode(await request.read())
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.events:
                return web.json_response(status_document(409, "AlreadyExists"), status=409)
            self.events[name] = body
            if self.answers_lost and request.transport is not None:
                self.answers_lost -= 1
                request.transport.abort()
            return web.json_response(body, status=201)
        name = request.path.rpartition("/")[2]
        if name not in self.events:
            return web.json_response(status_document(404, "NotFound"), status=404)
        self.events[name].update(body)
        return web.json_response(self.events[name])


@pytest.fixture
def events(server: ScriptedServer) -> EventServer:
    """The events on the server."""
    return EventServer(server)


@asynccontextmanager
async def recording(recorder: EventRecorder) -> AsyncIterator[None]:
    """Run *recorder* until everything is written."""
    task = asyncio.create_task(recorder.run())
    try:
        yield
        await recorder.flush()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def recorder_for(client: Client, **options: Any) -> EventRecorder:
    """Return a recorder of the scheduler."""
    return EventRecorder(client, component="numakube-scheduler", instance="host-1", **options)


async def test_an_event_has_the_form_of_core_v1(client: Client, events: EventServer) -> None:
    """As every tool shows them."""
    recorder = recorder_for(client)
    async with recording(recorder):
        recorder.normal(POD, "Scheduled", "assigned ns/web to n1", action="Binding")

    event = dict(events.only)
    name = event.pop("metadata")["name"]
    assert name.startswith("web.")
    assert int(name.removeprefix("web."), 16) > 10**18
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "web",
            "uid": "u",
            "resourceVersion": "5",
        },
        "type": "Normal",
        "reason": "Scheduled",
        "message": "assigned ns/web to n1",
        "action": "Binding",
        "source": {"component": "numakube-scheduler", "host": "host-1"},
        "reportingComponent": "numakube-scheduler",
        "reportingInstance": "host-1",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    assert events.requests == ["POST /api/v1/namespaces/ns"]


async def test_an_event_has_the_form_of_events_v1(client: Client, events: EventServer) -> None:
    """With what that API demands: an action, an instance, a note that is not too long."""
    recorder = recorder_for(client, form="events")
    async with recording(recorder):
        recorder.warning(NODE, "Odd", "ü" * 600)
        recorder.warning(NODE, "Odd", "ü" * 600)

    event = events.only
    assert event["metadata"]["namespace"] == "default", "nodes have no namespace"
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert (event["reportingController"], event["reportingInstance"]) == (
        "numakube-scheduler",
        "host-1",
    )
    assert (event["action"], event["reason"], event["type"]) == ("Odd", "Odd", "Warning")
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ü...")
    assert event["series"] == {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}


async def test_the_same_event_again_is_counted(server: ScriptedServer) -> None:
    """By a patch of the one that is there; the object's own state does not matter."""
    clock = ManualClock()
    events = EventServer(server)
    async with connect_on(server, clock) as client:
        recorder = recorder_for(client)
        async with recording(recorder):
            for version in range(3):
                about = msgspec.structs.replace(POD, resource_version=str(version))
                recorder.warning(about, "FailedScheduling", "no room")
                await recorder.flush()
                await clock.advance(10)

    assert events.only["count"] == 3
    assert events.only["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert events.only["lastTimestamp"] == "2026-01-01T00:00:20Z"
    assert events.requests == [
        "POST /api/v1/namespaces/ns",
        "PATCH /api/v1/namespaces/ns/events",
        "PATCH /api/v1/namespaces/ns/events",
    ]


async def test_an_event_gives_way_to_urgent_requests_and_keeps_its_time(
    server: ScriptedServer,
) -> None:
    """It is written when they are done."""
    clock, events, urgent = ManualClock(), EventServer(server), [1]
    async with connect_on(server, clock) as client:
        recorder = recorder_for(client, gives_way=lambda: bool(urgent))
        async with recording(recorder):
            recorder.normal(POD, "A", "m")
            await clock.sleepers()
            await clock.advance(3)
            assert not events.requests
            urgent.clear()
            await clock.advance(1)

    assert events.only["lastTimestamp"] == "2026-01-01T00:00:00Z"


async def test_events_give_way_only_while_few_wait(server: ScriptedServer) -> None:
    """Urgent requests that never end do not hold them up for ever."""
    events = EventServer(server)
    async with connect_on(server, ManualClock()) as client:
        recorder = recorder_for(client, capacity=2 * MOST_HELD, gives_way=lambda: True)
        for number in range(MOST_HELD + 2):
            about = msgspec.structs.replace(POD, name=f"p{number}", uid=str(number))
            recorder.normal(about, "A", "m")
        task = asyncio.create_task(recorder.run())
        await until(lambda: len(events.events) == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_events_give_way_only_for_some_seconds(server: ScriptedServer) -> None:
    """A scheduler that always has more to do tells of its decisions all the same."""
    clock, events = ManualClock(), EventServer(server)
    async with connect_on(server, clock) as client:
        recorder = recorder_for(client, gives_way=lambda: True)
        async with recording(recorder):
            recorder.normal(POD, "A", "m")
            await clock.sleepers()
            await clock.advance(MOST_HELD_SECONDS - 1)
            assert not events.requests
            await clock.advance(1)
            await until(lambda: len(events.events) == 1)


async def test_more_are_written_at_once_while_many_wait(server: ScriptedServer) -> None:
    """A server that takes long for an event is asked for more of them at a time."""
    seen = []

    async def never_answer(request: web.Request) -> web.StreamResponse:
        seen.append(await request.read())
        return await asyncio.Future()

    server.otherwise = never_answer
    async with connect_on(server, ManualClock()) as client:
        recorder = recorder_for(client, capacity=2 * MOST_HELD, writers=2)
        task = asyncio.create_task(recorder.run())
        recorder.normal(POD, "A", "m")
        recorder.normal(NODE, "A", "m")
        await until(lambda: len(seen) == 2)
        for number in range(MOST_HELD + 1):
            about = msgspec.structs.replace(POD, name=f"p{number}", uid=str(number))
            recorder.normal(about, "A", "m")
        await until(lambda: len(seen) == 4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def connect_on(server: ScriptedServer, clock: ManualClock) -> AsyncIterator[Client]:
    """A client of *server* on *clock*."""
    async with connect(server.config, clock=clock, rng=Random(1)) as client:
        yield client


async def test_an_event_that_the_server_has_forgotten_is_created_again(
    client: Client, events: EventServer
) -> None:
    """Servers keep events for an hour; the count goes on."""
    recorder = recorder_for(client)
    async with recording(recorder):
        recorder.normal(POD, "A", "m")
        await recorder.flush()
        events.events.clear()
        recorder.normal(POD, "A", "m")

    assert events.only["count"] == 2


async def test_many_different_messages_become_one_event(
    client: Client, events: EventServer
) -> None:
    """From the tenth on within ten minutes."""
    recorder = recorder_for(client)
    async with recording(recorder):
        for number in range(15):
            recorder.warning(POD, "FailedScheduling", f"no room on {number} nodes")

    messages = [event["message"] for event in events.events.values()]
    assert len(messages) == 10
    assert messages[-1] == "(combined from similar events): no room on 14 nodes"
    assert list(events.events.values())[-1]["count"] == 6


def occurrence(
    message: str = "m", *, about: ObjectReference = POD, type_: str = "Normal"
) -> Occurrence:
    """Return something that happened."""
    return Occurrence(about=about, type=type_, reason="R", message=message)


async def test_messages_are_combined_only_if_they_come_close_together() -> None:
    """Ten minutes of silence end a series."""
    clock = ManualClock()
    correlator = Correlator(clock=clock, rng=Random(1))
    for number in range(30):
        await clock.advance(301 if number % 9 else 601)
        recorded = correlator.decide(occurrence(f"m{number}"))
        assert recorded is not None
        assert recorded.occurrence.message == f"m{number}"


async def test_a_series_lasts_through_ten_minutes_of_silence() -> None:
    """Not one message less than ten is combined, and the tenth is, however slowly they come."""
    clock = ManualClock()
    correlator = Correlator(clock=clock, rng=Random(1))
    combined = []
    for number in range(10):
        recorded = correlator.decide(occurrence(f"m{number}"))
        assert recorded is not None
        combined.append(recorded.occurrence.message != f"m{number}")
        await clock.advance(COMBINING_SECONDS)
    assert combined == [False] * 9 + [True]


async def test_one_source_may_not_flood_one_object() -> None:
    """25 events at once, then one every five minutes; other objects and types are not held up."""
    clock = ManualClock()
    correlator = Correlator(clock=clock, rng=Random(1))

    written = [correlator.decide(occurrence()) is not None for _ in range(30)]
    assert written == [True] * 25 + [False] * 5
    assert correlator.decide(occurrence(about=NODE)) is not None
    assert correlator.decide(occurrence(type_="Warning")) is not None
    await clock.advance(300)
    last = correlator.decide(occurrence())
    assert last is not None
    assert last.count == 31, "what was left out is counted"
    assert correlator.decide(occurrence()) is None


async def test_what_is_remembered_is_bounded() -> None:
    """Events about very many objects do not fill the memory."""
    correlator = Correlator(clock=ManualClock(), rng=Random(1))
    for number in range(5000):
        correlator.decide(occurrence(about=ObjectReference(kind="Pod", name=f"p{number}")))

    assert len(correlator._recorded._entries) == 4096
    assert len(correlator._budgets._entries) == 4096
    again = correlator.decide(occurrence(about=ObjectReference(kind="Pod", name="p0")))
    assert again is not None
    assert again.is_new


async def test_a_long_name_is_cut() -> None:
    """The name of an event has at most 253 characters, too."""
    about = ObjectReference(kind="Pod", namespace="ns", name="x" * 253)

    recorded = Correlator(clock=ManualClock(), rng=Random(1)).decide(occurrence(about=about))

    assert recorded is not None
    assert len(recorded.name) <= 253


async def test_recording_never_waits_and_what_is_too_much_is_dropped(client: Client) -> None:
    """Nobody writes here; the caller does not notice, and a burst does not fill the log."""
    recorder = recorder_for(client, capacity=3)

    with structlog.testing.capture_logs() as logs:
        for number in range(8):
            recorder.normal(POD, "A", str(number))

    assert recorder.dropped == 5
    assert [log["event"] for log in logs] == ["event_dropped"] * 2, "of the first, then every third"


async def test_a_server_that_is_away_is_waited_for(
    server: ScriptedServer, client: Client, clock: JumpingClock, events: EventServer
) -> None:
    """The event is written when it is back."""
    for _ in range(5):
        server.refuse(503, "ServiceUnavailable")
    recorder = recorder_for(client)
    async with recording(recorder):
        recorder.normal(POD, "A", "m")

    assert events.only["count"] == 1
    assert clock.slept[0] < 10.0
    assert clock.slept[1:] == [10.0] * 4


async def test_a_server_that_stays_away_costs_the_event_only(
    server: ScriptedServer, client: Client, events: EventServer
) -> None:
    """After twelve attempts."""
    for _ in range(12):
        server.refuse(500)
    recorder = recorder_for(client)
    async with recording(recorder):
        recorder.normal(POD, "A", "lost")
        recorder.normal(POD, "A", "written")

    assert events.only["message"] == "written"
    assert recorder.dropped == 1


@pytest.mark.parametrize("code", [400, 403, 409, 422])
async def test_an_event_that_is_refused_is_given_up(
    server: ScriptedServer, client: Client, events: EventServer, code: int
) -> None:
    """It would be refused again."""
    server.refuse(code)
    recorder = recorder_for(client)
    async with recording(recorder):
        recorder.normal(POD, "A", "refused")
        recorder.normal(POD, "A", "written")

    assert events.only["message"] == "written"
    assert recorder.dropped == 1


async def test_a_name_that_is_taken_is_replaced(
    server: ScriptedServer, client: Client, events: EventServer
) -> None:
    """Two components may have had the same idea in the same nanosecond."""
    server.refuse(409, "AlreadyExists")
    recorder = recorder_for(client)
    async with recording(recorder):
        recorder.normal(POD, "A", "m")
        recorder.normal(POD, "A", "m")

    assert events.only["count"] == 2, "counted under the name it has"
    assert recorder.dropped == 0


async def test_an_event_whose_answer_is_lost_is_written_once(
    client: Client, events: EventServer
) -> None:
    """It has the name that is taken."""
    events.answers_lost = 1
    recorder = recorder_for(client)
    async with recording(recorder):
        recorder.normal(POD, "A", "m")

    assert events.only["count"] == 1
    assert events.requests == ["POST /api/v1/namespaces/ns"] * 2
    assert recorder.dropped == 0


async def test_an_event_of_events_v1_tells_the_action(client: Client, events: EventServer) -> None:
    """And only for want of one the reason twice."""
    recorder = recorder_for(client, form="events")
    async with recording(recorder):
        recorder.normal(POD, "Scheduled", "assigned ns/web to n1", action="Binding")
    assert (events.only["action"], events.only["reason"]) == ("Binding", "Scheduled")
