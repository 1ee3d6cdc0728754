"""The reflector: its store equals the server's collection, whatever happens in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from numakube.api.pod import Pod
from numakube.errors import (
    ClusterUnreachable,
    MalformedObject,
    ServiceUnavailable,
)
from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock, RetryPolicy
from numakube.kube.connect import connect
from numakube.kube.connection.transport import Request, Response, Stream
from numakube.kube.reflector import Reflector, ReflectorTiming, reflecting
from numakube.kube.scripted_server import ScriptedServer, dropped, status_document
from numakube.kube.store import Change, Removed

if TYPE_CHECKING:
    from numakube.kube.decode import Malformed

from tests.kube.collection import PODS, Collection, Mirror, equal, event, names_in

from numakube.testing import turns, until


async def test_it_lists_then_watches(client: Client, pods: Collection) -> None:
    """The store is synced after the list and follows from there."""
    pods.put("a")
    reflector = Reflector(
        client,
        PODS,
        namespace="ns",
        labels="x=y",
        fields="spec.nodeName=n",
        timing=ReflectorTiming(),
    )
    mirror = Mirror(reflector)
    assert not reflector.synced.is_set()

    async with reflecting(reflector):
        assert names_in(reflector) == ["a"]
        await pods.watched()
        pods.put("b")
        pods.put("a", spec={"nodeName": "n"})
        pods.delete("b")
        await equal(pods, reflector, mirror)

    kinds = [type(change).__name__ for change in mirror.changes]
    assert kinds == ["Added", "Added", "Updated", "Removed", "Added"]
    selectors = {"labelSelector": "x=y", "fieldSelector": "spec.nodeName=n"}
    assert pods.lists == [{**selectors, "resourceVersion": "0", "limit": "500"}]
    (watch,) = pods.watches
    assert 300 <= int(watch.pop("timeoutSeconds")) <= 600
    assert watch == {
        **selectors,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "101",
    }


async def test_a_dropped_connection_is_resumed_where_it_was(
    client: Client, pods: Collection
) -> None:
    """Without a new list, and without losing what happened meanwhile."""
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        for number in range(5):
            await pods.watched()
            pods.put(f"before-{number}")
            pods.cut()
            pods.put(f"meanwhile-{number}")
            pods.delete(f"before-{number}")
            await mirror.seen(f"meanwhile-{number}")
        await equal(pods, reflector, mirror)

    assert len(pods.lists) == 1


@pytest.mark.parametrize("as_event", [True, False])
async def test_after_a_410_what_was_deleted_meanwhile_is_reported(
    client: Client, pods: Collection, as_event: bool
) -> None:
    """A pod deleted while the watch was broken is reported as deleted when all is read again."""
    pods.expired_as_event = as_event
    pods.put("kept")
    pods.put("lost")
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        pods.end()
        pods.delete("lost")
        pods.put("new")
        pods.forget()
        await mirror.seen("new")

        assert [change.object.metadata.name for change in mirror.changes] == [
            "kept",
            "lost",
            "lost",
            "new",
        ]
        assert isinstance(mirror.changes[2], Removed)
        assert mirror.changes[2].unseen
        await equal(pods, reflector, mirror)

    assert [each.get("resourceVersion") for each in pods.lists] == ["0"]
    assert [each for each in pods.watches if each.get("sendInitialEvents") == "true"]


async def test_an_error_event_in_the_middle_of_a_watch_is_survived(
    client: Client, pods: Collection
) -> None:
    """Servers end the watch of a slow consumer in this way."""
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        for code, reason in ((410, "Expired"), (500, "InternalError"), (504, "Timeout")):
            await pods.watched()
            pods.put(f"before-{code}")
            pods.error(code, reason)
            pods.put(f"after-{code}")
            await mirror.seen(f"after-{code}")
        await equal(pods, reflector, mirror)

    streamed = [each for each in pods.watches if "sendInitialEvents" in each]
    assert (len(pods.lists), len(streamed)) == (1, 1), "only the 410 needs all again"


async def test_a_server_that_restarts_with_another_past_is_listed_again(
    client: Client, pods: Collection
) -> None:
    """Its resource versions mean nothing any more."""
    pods.put("old")
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        await pods.restart(losing_everything=True)
        pods.put("young")
        await mirror.seen("young")
        assert names_in(reflector) == ["young"]
        await equal(pods, reflector, mirror)


async def test_a_restart_that_keeps_everything_changes_nothing(
    client: Client, pods: Collection
) -> None:
    """Handlers hear nothing of it."""
    pods.put("a")
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        await pods.restart()
        await equal(pods, reflector, mirror)

    assert len(mirror.changes) == 2


async def test_versions_that_go_backwards_are_noticed(client: Client, pods: Collection) -> None:
    """As when a backup of etcd was restored while the connection held."""
    pods.put("a")
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        pods.objects.clear()
        pods.version = 50
        pods.bookmark()
        pods.end()
        pods._oldest = 50
        pods.put("b")
        await mirror.seen("b")
        assert names_in(reflector) == ["b"]


async def test_bookmarks_move_the_version_on(client: Client, pods: Collection) -> None:
    """So that a watch of a quiet collection does not expire."""
    reflector = Reflector(client, PODS)
    async with reflecting(reflector):
        await pods.watched()
        pods.version += 1000
        pods.bookmark()
        pods.forget()
        pods.end()
        await until(lambda: len(pods.watches) == 2)

    assert pods.watches[1]["resourceVersion"] == "1100"
    assert len(pods.lists) == 1


async def test_failures_are_waited_out_with_growing_pauses(
    server: ScriptedServer, client: Client, clock: JumpingClock, pods: Collection
) -> None:
    """Twelve failures in a row; the pauses double up to half a minute and vary."""
    for _ in range(12 * 6):
        server.refuse(503, "ServiceUnavailable")
    reflector = Reflector(client, PODS)
    errors: list[object] = []
    pods.put("a")

    async with asyncio.timeout(20), reflecting(reflector):
        errors.append(reflector.last_error)
        await pods.watched()

    own = [clock.slept[index] for index in range(5, len(clock.slept), 6)][:12]
    assert all(0.4 * 2**n <= own[n] <= 0.8 * 2**n for n in range(5))
    assert all(15 <= pause <= 30 for pause in own[6:])
    assert len(set(own)) == len(own)
    assert isinstance(errors[0], ServiceUnavailable), "kept until something goes right again"


async def test_a_server_that_is_back_with_another_past_is_listed_soon(
    client: Client, clock: JumpingClock, pods: Collection
) -> None:
    """Pauses that grew while it was away do not count: decisions are made on what we know."""
    reflector = Reflector(client, PODS)
    async with reflecting(reflector):
        for number in range(1, 5):
            await pods.watched()
            pods.end()
            await until(lambda: len(clock.slept) >= number)  # noqa: B023 (ends in this round)
        await pods.watched()
        pods.error(410, "Expired")
        await until(lambda: len(clock.slept) >= 5)

    assert clock.slept[3] > 3
    assert clock.slept[4] <= 0.8


async def test_a_server_that_ends_watches_at_once_is_not_asked_in_a_loop(
    client: Client, clock: JumpingClock, pods: Collection
) -> None:
    """An empty watch counts as a failure."""
    reflector = Reflector(client, PODS)
    async with reflecting(reflector):
        for number in range(1, 5):
            await pods.watched()
            pods.end()
            await until(lambda: len(clock.slept) >= number)  # noqa: B023 (ends in this round)

    assert [0.4 * 2**n <= clock.slept[n] <= 0.8 * 2**n for n in range(4)] == [True] * 4


class Nobody:
    """A transport to an address at which no program listens."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, request: Request) -> Response:
        """Refuse."""
        await turns()
        self.asked += 1
        raise ClusterUnreachable(f"{request}: refused", refused=True)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        """Refuse."""
        await self.send(request)
        yield NotImplemented

    async def aclose(self) -> None:
        """Do nothing."""


async def test_a_server_that_restarts_is_asked_less_and_less_often(clock: JumpingClock) -> None:
    """Until it is there again."""
    nobody = Nobody()
    client = Client(nobody, clock=clock, retry=RetryPolicy(attempts=1))
    running = asyncio.create_task(Reflector(client, PODS).run())
    await until(lambda: nobody.asked > 4)
    running.cancel()
    assert len(clock.slept) >= 4
    assert sorted(clock.slept[:4]) == clock.slept[:4]


async def test_retry_after_is_honoured(
    server: ScriptedServer, client: Client, clock: JumpingClock, pods: Collection
) -> None:
    """A watch that is refused says when to come back."""
    server.script(pods._handle)
    server.refuse(429, "TooManyRequests", retryAfterSeconds=17)
    reflector = Reflector(client, PODS)
    async with reflecting(reflector):
        await pods.watched()

    assert clock.slept == [17.0]
    assert len(pods.lists) == 1


async def test_a_silent_watch_is_given_up(client: Client, pods: Collection) -> None:
    """A connection whose other end vanished says nothing, forever."""
    timing = ReflectorTiming(idle=0.02)
    reflector = Reflector(client, PODS, timing=timing)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await until(lambda: len(pods.watches) >= 3)
        await equal(pods, reflector, mirror)

    assert len(pods.lists) == 1


async def test_an_object_of_the_wrong_shape_is_left_out_and_reported_once(
    client: Client, pods: Collection
) -> None:
    """In a list and in a watch; it comes back when its shape is right again."""
    wrong = {"containers": "none"}
    pods.put("a", spec=wrong)
    pods.put("b")
    reported: list[Malformed] = []
    reflector = Reflector(client, PODS, on_malformed=reported.append)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        assert names_in(reflector) == ["b"]
        await pods.watched()
        pods.put("b", spec=wrong)
        pods.put("b", spec=wrong)
        pods.put("c")
        await mirror.seen("c")
        assert names_in(reflector) == ["c"]
        pods.put("a")
        pods.put("b")
        await equal(pods, reflector, mirror)

    assert [str(each.key) for each in reported] == ["ns/a", "ns/b"]


async def test_a_wrong_object_that_is_deleted_is_forgotten(
    client: Client, pods: Collection
) -> None:
    """One that comes later under its name, wrong in the same way, is reported again."""
    reported: list[Malformed] = []
    reflector = Reflector(client, PODS, on_malformed=reported.append)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        for _ in range(2):
            pods.put("a", spec={"containers": "none"})
            pods.delete("a")
        await equal(pods, reflector, mirror)

    assert [str(each.key) for each in reported] == ["ns/a", "ns/a"]


@pytest.mark.parametrize("version", ["9" * 5000, "not-a-number", "²"])
async def test_odd_versions_do_not_stop_the_reflector(
    server: ScriptedServer, client: Client, pods: Collection, version: str
) -> None:
    """They are the server's own business."""
    metadata = {"name": "odd", "namespace": "ns", "resourceVersion": version}
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        pods._send(event("ADDED", {"metadata": metadata}))
        await mirror.seen("odd")
        pods.put("a")
        await mirror.seen("a")


async def test_a_handler_that_raises_does_not_stop_the_reflector(
    client: Client, pods: Collection
) -> None:
    """It is counted."""
    reflector = Reflector(client, PODS)

    def broken(_: Change[Pod]) -> None:
        raise RuntimeError("oops")

    reflector.store.subscribe(broken)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        pods.put("a")
        await mirror.seen("a")

    assert reflector.store.failures == 1


async def test_a_list_without_a_version_is_repeated_not_watched(
    server: ScriptedServer, client: Client, pods: Collection
) -> None:
    """There is nowhere to watch from."""
    server.reply({"kind": "PodList", "items": []})
    reflector = Reflector(client, PODS)
    async with reflecting(reflector):
        assert isinstance(reflector.last_error, MalformedObject | None)
        await pods.watched()

    assert len(pods.lists) == 2


async def test_a_slow_consumer_gets_everything_in_order(client: Client, pods: Collection) -> None:
    """The server is held back by the connection, not by a queue that grows."""
    reflector = Reflector(client, PODS)
    order: list[int] = []

    def slow(change: Change[Pod]) -> None:
        order.append(int(change.object.metadata.resource_version))
        sum(range(3000))

    reflector.store.subscribe(slow)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        for number in range(2000):
            pods.put(f"pod-{number % 50}", status={"message": "x" * 500})
        await equal(pods, reflector, mirror)

    assert order == sorted(order)
    assert len(order) == 2001


async def test_last_error_says_why_there_is_no_watch(
    server: ScriptedServer, client: Client, pods: Collection
) -> None:
    """And nothing while there is one."""
    server.script(pods._handle)
    server.refuse(500, "InternalError")
    server.refuse(410, "Expired")
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await pods.watched()
        await equal(pods, reflector, mirror)
        assert reflector.last_error is None
        await server.stop()
        await until(lambda: reflector.last_error is not None)
        assert isinstance(reflector.last_error, ClusterUnreachable)


async def test_a_question_for_the_latest_version_without_an_answer_ends_no_watch(
    client: Client, server: ScriptedServer, pods: Collection
) -> None:
    """The watch itself tells whether the server is there; the next one is checked again."""
    serve = server.otherwise
    unanswered = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal unanswered
        if request.query.get("limit") == "1":
            unanswered += 1
            return await dropped(request)
        return await serve(request)

    server.otherwise = answer
    reflector = Reflector(client, PODS)
    mirror = Mirror(reflector)
    async with reflecting(reflector):
        await until(lambda: unanswered > 0)
        await equal(pods, reflector, mirror)
        assert len(pods.watches) == 1
        assert reflector.last_error is None


async def test_that_objects_may_not_be_read_is_said_once() -> None:
    """A program that can do without them goes on; somebody wonders what they do not change."""
    refused = 0

    async def refuse(_: web.Request) -> web.StreamResponse:
        nonlocal refused
        refused += 1
        return web.json_response(status_document(403, "Forbidden"), status=403)

    async with ScriptedServer(otherwise=refuse) as server, connect(server.config) as client:
        timing = ReflectorTiming(backoff=0.001, longest_backoff=0.01, denial=0.02)
        reflector = Reflector(client, PODS, optional=True, timing=timing)
        with capture_logs() as logs:
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.denied)
            later = refused + 5
            await until(lambda: refused > later)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    told = [one for one in logs if one["log_level"] == "warning"]
    assert [one["event"] for one in told] == ["goes_on_without"]
    assert "pods" in told[0]["resource"]
