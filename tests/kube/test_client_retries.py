"""The client repeats requests where that is safe, and waits as long as it is asked to."""

from random import Random

import pytest
from aiohttp import web
from tests.kube.things import NODES, THINGS, thing

from numakube import errors
from numakube.kube.client import Client
from numakube.kube.clock import JumpingClock, RetryPolicy
from numakube.kube.connect import connect
from numakube.kube.scripted_server import ScriptedServer, drop, dropped


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_reading_is_repeated_after_failures_of_the_server(
    client: Client, server: ScriptedServer, clock: JumpingClock, code: int
) -> None:
    """Reading is repeated after failures of the server."""
    server.refuse(code)
    server.refuse(code)
    server.reply(thing("a"))

    assert (await client.get(NODES, "a")).metadata.name == "a"
    first, second = clock.slept
    assert 0.05 <= first <= 0.1 <= second <= 0.2


async def test_retry_after_is_honoured_with_jitter(
    client: Client, server: ScriptedServer, clock: JumpingClock
) -> None:
    """Retry after is honoured with jitter."""
    server.refuse(429, "TooManyRequests", retryAfterSeconds=7)
    server.reply(thing("a"))

    await client.get(NODES, "a")

    assert 7.05 <= clock.slept[0] <= 7.1


async def test_what_the_header_says_is_the_servers_last_word(
    client: Client, server: ScriptedServer, clock: JumpingClock
) -> None:
    """A proxy on the way may ask for more patience than the server in its Status did."""
    details = {"retryAfterSeconds": 2}
    status = {"kind": "Status", "apiVersion": "v1", "code": 429, "details": details}
    server.reply(status, status=429, headers={"Retry-After": "7"})
    server.reply(thing("a"))

    await client.get(NODES, "a")

    assert 7.05 <= clock.slept[0] <= 7.1


async def test_retry_after_may_be_a_date(
    client: Client, server: ScriptedServer, clock: JumpingClock
) -> None:
    """Retry after may be a date."""
    dates = {
        "Date": "Thu, 01 Jan 2026 00:00:00 GMT",
        "Retry-After": "Thu, 01 Jan 2026 00:00:09 GMT",
    }
    server.reply(b"later", status=503, headers=dates)
    server.reply(thing("a"))

    await client.get(NODES, "a")

    assert 9.05 <= clock.slept[0] <= 9.1


async def test_a_server_that_asks_for_too_much_patience_is_not_waited_for(
    client: Client, server: ScriptedServer, clock: JumpingClock
) -> None:
    """A server that asks for too much patience is not waited for."""
    server.refuse(503, "ServiceUnavailable", retryAfterSeconds=3600)

    with pytest.raises(errors.ServiceUnavailable) as caught:
        await client.get(NODES, "a")

    assert caught.value.retry_after == 3600
    assert clock.slept == []


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_writing_is_repeated_when_the_server_asks_to_come_back(
    client: Client, server: ScriptedServer, code: int
) -> None:
    """Writing is repeated when the server asks to come back."""
    server.refuse(code, retryAfterSeconds=1)
    server.reply(thing("a"))

    await client.create(THINGS, thing("a"))

    assert len(server.received) == 2


@pytest.mark.parametrize("code", [429, 500, 503, 504])
async def test_writing_is_not_repeated_when_it_may_have_been_done(
    client: Client, server: ScriptedServer, code: int
) -> None:
    """Writing is not repeated when it may have been done."""
    server.refuse(code)

    with pytest.raises(errors.ApiError):
        await client.create(THINGS, thing("a"))

    assert len(server.received) == 1


async def test_reading_is_repeated_after_a_broken_connection(
    client: Client, server: ScriptedServer
) -> None:
    """Reading is repeated after a broken connection."""
    server.script(dropped)
    server.script(cut_short)
    server.reply(thing("a"))

    assert (await client.get(NODES, "a")).metadata.name == "a"


async def cut_short(request: web.Request) -> web.StreamResponse:
    """Break the connection in the middle of the answer."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"metadata":')
    drop(request)
    return response


async def test_writing_is_not_repeated_after_a_broken_connection(
    client: Client, server: ScriptedServer
) -> None:
    """Writing is not repeated after a broken connection."""
    server.script(dropped)

    with pytest.raises(errors.ClusterUnreachable) as caught:
        await client.create(THINGS, thing("a"))

    assert caught.value.sent
    assert len(server.received) == 1


async def test_writing_is_repeated_when_no_connection_came_about(
    server: ScriptedServer, client: Client, clock: JumpingClock
) -> None:
    """Writing is repeated when no connection came about."""
    await server.stop()

    with pytest.raises(errors.ClusterUnreachable) as caught:
        await client.create(THINGS, thing("a"))

    assert caught.value.refused
    assert not caught.value.sent
    assert len(clock.slept) == RetryPolicy().attempts - 1


async def test_a_request_survives_a_restart_of_the_server(
    server: ScriptedServer, client: Client
) -> None:
    """A request survives a restart of the server."""
    server.reply(thing("a"))
    await client.get(NODES, "a")
    await server.stop()
    await server.start()
    server.reply(thing("a"))

    assert (await client.get(NODES, "a")).metadata.name == "a"


async def test_requests_are_spaced_when_the_budget_is_spent(server: ScriptedServer) -> None:
    """Requests are spaced when the budget is spent."""
    clock = JumpingClock()
    async with connect(server.config, clock=clock, rng=Random(1), rate=10, burst=2) as client:
        for _ in range(5):
            server.reply(thing("a"))
            await client.get(NODES, "a")

    assert clock.slept == pytest.approx([0.1, 0.1, 0.1])
