"""Leader election: at most one leads, and one does if it can."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from numakube.errors import ConfigError, LeadershipLost
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.connection.cluster_config import UserConfig
from numakube.kube.connection.credentials import UserCredentials
from numakube.kube.connection.http import HttpTransport
from numakube.kube.connection.transport import Request, Response, Transport
from numakube.kube.leader_election import LeaderElection, LeaseTiming
from numakube.kube.resource_types import ObjectKey
from numakube.kube.scripted_server import ScriptedServer, drop, status_document
from numakube.testing import turns

KEY = ObjectKey("kube-system", "numakube")


class LeaseServer:
    """Serves one lease, with optimistic locking; can be away."""

    def __init__(self, server: ScriptedServer) -> None:
        self.lease: dict[str, Any] | None = None
        self.away = False
        self.silent = False
        self.lose_answers = False
        self.writes = 0
        self._server = server
        server.otherwise = self._handle

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the lease."""
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.silent:
            await asyncio.Event().wait()
        if self.away:
            return refusal(503, "ServiceUnavailable")
        answer = await self._answer(request)
        if self.lose_answers and request.method != "GET":
            drop(request)
        return answer

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            if self.lease is not None:
                return refusal(409, "AlreadyExists")
            return self._store(msgspec.json.decode(await request.read()))
        if self.lease is None:
            return refusal(404, "NotFound")
        if request.method == "PUT":
            new = msgspec.json.decode(await request.read())
            known = self.lease["metadata"]["resourceVersion"]
            if new["metadata"].get("resourceVersion", known) != known:
                return refusal(409, "Conflict")
            return self._store(new)
        return web.json_response(self.lease)

    def _store(self, lease: dict[str, Any]) -> web.Response:
        self.writes += 1
        lease["metadata"]["resourceVersion"] = str(self.writes)
        self.lease = lease
        return web.json_response(lease)


def refusal(code: int, reason: str) -> web.Response:
    """Return an answer that refuses."""
    return web.json_response(status_document(code, reason), status=code)


@pytest.fixture
def manual() -> ManualClock:
    """A clock that the test moves."""
    return ManualClock()


class Counting:
    """A transport that knows how many requests are under way."""

    def __init__(self, transport: Transport) -> None:
        self.under_way = 0
        self._transport = transport
        self.open = transport.open
        self.aclose = transport.aclose

    async def send(self, request: Request) -> Response:
        """Pass *request* on."""
        self.under_way += 1
        try:
            return await self._transport.send(request)
        finally:
            self.under_way -= 1


class Time:
    """Lets time pass, in small steps, with every request answered in between."""

    def __init__(self, clock: ManualClock, server: LeaseServer, transport: Counting) -> None:
        self._clock = clock
        self._server = server
        self._transport = transport

    async def passes(self, seconds: float) -> None:
        """Move the clock by *seconds*."""
        for _ in range(int(seconds * 4)):
            await self._clock.advance(0.25)
            await self._rest()

    async def _rest(self) -> None:
        if self._server.silent:
            await turns(20)
            return
        quiet_rounds = 0
        while quiet_rounds < 20:
            quiet_rounds = 0 if self._transport.under_way else quiet_rounds + 1
            await turns()


@pytest.fixture
async def transport(server: ScriptedServer, manual: ManualClock) -> AsyncIterator[Counting]:
    """The way to the server."""
    auth = UserCredentials(UserConfig(), clock=manual)
    counting = Counting(HttpTransport(server.config, auth=auth, clock=manual))
    yield counting
    await counting.aclose()


@pytest.fixture
def api(
    server: ScriptedServer, transport: Counting, manual: ManualClock
) -> tuple[LeaseServer, Client]:
    """A lease on a server, and a client on the manual clock."""
    return LeaseServer(server), Client(transport, clock=manual, rng=Random(1))


@pytest.fixture
def time(api: tuple[LeaseServer, Client], transport: Counting, manual: ManualClock) -> Time:
    """Time that passes when told."""
    return Time(manual, api[0], transport)


class Candidate:
    """A candidate that notes when it leads."""

    def __init__(self, client: Client, name: str) -> None:
        self.leading = asyncio.Event()
        self.finish = asyncio.Event()
        self.leaders: list[str] = []
        self.election = LeaderElection(
            client, KEY, identity=name, on_new_leader=self.leaders.append
        )
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> str:
        assert self.election.is_leader
        self.leading.set()
        try:
            await self.finish.wait()
        finally:
            self.leading.clear()
        return f"{self.election.identity} done"

    async def stop(self) -> None:
        """Cancel the candidate and wait for its end."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_the_first_creates_the_lease_and_renews_it(
    api: tuple[LeaseServer, Client], manual: ManualClock
) -> None:
    """With the times that Kubernetes' own components use."""
    server, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    assert server.spec == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }

    await manual.sleepers()
    await manual.advance(2)
    await manual.sleepers()
    assert server.spec["renewTime"] == "2026-01-01T00:00:02.000000Z"
    assert server.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert (one.election.leader, one.leaders) == ("one", ["one"])
    await one.stop()


async def test_a_renewal_needs_no_look_first(
    api: tuple[LeaseServer, Client], server: ScriptedServer, manual: ManualClock
) -> None:
    """One request every two seconds."""
    _, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    del server.received[:]

    for _ in range(5):
        await manual.sleepers()
        await manual.advance(2)
    await manual.sleepers()
    assert [each.method for each in server.received] == ["PUT"] * 5
    await one.stop()


async def test_the_end_of_the_work_releases_the_lease(
    api: tuple[LeaseServer, Client], manual: ManualClock, time: Time
) -> None:
    """The next one leads at once, without waiting for the lease to expire."""
    server, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    two = Candidate(client, "two")
    await manual.sleepers(2)
    one.finish.set()
    assert await one.task == "one done"
    assert server.spec["holderIdentity"] == ""
    assert server.spec["leaseDurationSeconds"] == 1

    await time.passes(5)
    await two.leading.wait()
    assert server.spec["holderIdentity"] == "two"
    assert server.spec["leaseTransitions"] == 1
    assert two.leaders == ["one", "two"]
    await two.stop()


async def test_cancelling_ends_the_work_then_releases(
    api: tuple[LeaseServer, Client], manual: ManualClock, time: Time
) -> None:
    """As on SIGTERM; the lease is renewed while the work winds up."""
    server, client = api
    winding_up = asyncio.Event()
    may_end = asyncio.Event()

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            winding_up.set()
            await may_end.wait()

    election = LeaderElection(client, KEY, identity="one")
    task = asyncio.create_task(election.run(lead))
    await manual.sleepers()
    task.cancel()
    await winding_up.wait()
    await time.passes(20)
    assert server.spec["holderIdentity"] == "one"
    assert election.is_leader

    may_end.set()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert server.spec["holderIdentity"] == ""
    assert not election.is_leader


async def test_a_lease_does_not_wait_for_the_pace_of_other_requests(
    api: tuple[LeaseServer, Client], transport: Counting, manual: ManualClock
) -> None:
    """Behind a queue of them the renewal would come too late."""
    server, _ = api
    paced = Client(transport, clock=manual, rng=Random(1), rate=0.001, burst=0)
    one = Candidate(paced, "one")
    await one.leading.wait()
    await manual.sleepers()
    await manual.advance(2)
    await manual.sleepers()
    assert server.spec["renewTime"] == "2026-01-01T00:00:02.000000Z"
    await one.stop()


async def test_a_candidate_takes_over_when_the_leader_is_gone(
    api: tuple[LeaseServer, Client], time: Time
) -> None:
    """After it has itself seen the lease unchanged for its duration; its wall clock is no help."""
    server, client = api
    server.lease = {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "resourceVersion": "1"},
        "spec": {
            "holderIdentity": "gone",
            "leaseDurationSeconds": 15,
            "renewTime": "2020-01-01T00:00:00.000000Z",
            "leaseTransitions": 7,
        },
    }
    two = Candidate(client, "two")
    await time.passes(14)
    assert not two.leading.is_set(), "the time in the lease may be by a clock that is wrong"

    await time.passes(7)
    assert two.leading.is_set()
    assert server.spec["leaseTransitions"] == 8
    await two.stop()


@pytest.mark.parametrize("told", [{}, {"leaseDurationSeconds": 0}])
async def test_a_lease_that_does_not_say_for_how_long_is_good_for_as_long_as_ours(
    api: tuple[LeaseServer, Client], time: Time, told: dict[str, int]
) -> None:
    """Others may have written it."""
    server, client = api
    server.lease = {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "resourceVersion": "1"},
        "spec": {"holderIdentity": "gone", **told},
    }
    two = Candidate(client, "two")
    await time.passes(14)
    assert not two.leading.is_set()
    await time.passes(7)
    assert two.leading.is_set()
    await two.stop()


async def test_wall_clocks_do_not_matter(
    api: tuple[LeaseServer, Client], manual: ManualClock, time: Time
) -> None:
    """A leader whose clock is set back or forth goes on leading."""
    _, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    two = Candidate(client, "two")
    for skew in (3600, -7200, 86400):
        manual.skew(skew)
        await time.passes(20)
        assert one.leading.is_set()
        assert not two.leading.is_set()
    await one.stop()
    await two.stop()


async def test_a_leader_that_cannot_renew_stops_before_another_starts(
    api: tuple[LeaseServer, Client], manual: ManualClock, time: Time
) -> None:
    """After ten seconds; others wait for fifteen."""
    server, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    await manual.sleepers()
    server.away = True

    await time.passes(9)
    assert one.leading.is_set()
    await time.passes(1.5)
    assert not one.leading.is_set()
    assert not one.election.is_leader
    await time.passes(6)
    with pytest.raises(LeadershipLost, match="not renewed in time by one"):
        await one.task


async def test_a_server_that_hangs_is_like_one_that_is_away(
    api: tuple[LeaseServer, Client], manual: ManualClock, time: Time
) -> None:
    """A connection without an answer does not hold up the deadline."""
    server, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    await manual.sleepers()
    server.silent = True

    await time.passes(10.5)
    assert not one.leading.is_set()
    await time.passes(6)
    with pytest.raises(LeadershipLost):
        await one.task


async def test_a_short_outage_is_survived(
    api: tuple[LeaseServer, Client], manual: ManualClock, time: Time
) -> None:
    """The leader goes on renewing until the deadline."""
    server, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    await manual.sleepers()
    server.away = True
    await time.passes(6)
    server.away = False
    await time.passes(10)

    assert one.leading.is_set()
    await one.stop()


async def test_a_write_whose_answer_was_lost_is_recognised(
    api: tuple[LeaseServer, Client], time: Time
) -> None:
    """Our own name in the lease means that we lead, however we learn it."""
    server, client = api
    server.lose_answers = True
    one = Candidate(client, "one")
    await time.passes(1)
    assert not one.leading.is_set()
    server.lose_answers = False
    await time.passes(5)
    assert one.leading.is_set()
    assert server.spec["leaseTransitions"] == 0

    server.lose_answers = True
    await time.passes(3)
    server.lose_answers = False
    await time.passes(12)
    assert one.leading.is_set()
    await one.stop()


async def test_of_many_who_find_it_expired_one_wins(
    api: tuple[LeaseServer, Client], time: Time
) -> None:
    """And only one leads at any time, while leaders come and go."""
    server, client = api
    candidates = [Candidate(client, f"c{number}") for number in range(5)]
    led: list[str] = []
    for _ in range(4):
        while not any(each.leading.is_set() for each in candidates):
            await time.passes(1)
        leading = [each for each in candidates if each.leading.is_set()]
        assert len(leading) == 1
        assert server.spec["holderIdentity"] == leading[0].election.identity
        led.append(leading[0].election.identity)
        candidates.remove(leading[0])
        await leading[0].stop()
    assert len(set(led)) == 4
    for each in candidates:
        await each.stop()


async def test_being_second_is_no_warning(api: tuple[LeaseServer, Client], time: Time) -> None:
    """Replicas that start together all find no lease; only one of them can create it."""
    _, client = api
    with capture_logs() as logs:
        candidates = [Candidate(client, f"c{number}") for number in range(3)]
        while not any(each.leading.is_set() for each in candidates):
            await time.passes(1)
        for each in candidates:
            await each.stop()
    assert [log for log in logs if log["log_level"] not in ("info", "debug")] == []


async def test_somebody_elses_lease_is_not_released(
    api: tuple[LeaseServer, Client], manual: ManualClock
) -> None:
    """A former leader that is slow to stop leaves its successor alone."""
    server, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    await manual.sleepers()
    server.spec["holderIdentity"] = "two"
    server.lease["metadata"]["resourceVersion"] = "99"  # type: ignore[index]
    await one.stop()

    assert server.spec["holderIdentity"] == "two"


async def test_a_leader_that_finds_another_in_its_place_stops(
    api: tuple[LeaseServer, Client], manual: ManualClock, time: Time
) -> None:
    """Somebody edited the lease by hand."""
    server, client = api
    one = Candidate(client, "one")
    await one.leading.wait()
    await manual.sleepers()
    server.spec["holderIdentity"] = "two"
    server.lease["metadata"]["resourceVersion"] = "99"  # type: ignore[index]

    await time.passes(12)
    with pytest.raises(LeadershipLost):
        await one.task
    assert server.spec["holderIdentity"] == "two"


async def test_work_that_fails_is_not_hidden(api: tuple[LeaseServer, Client]) -> None:
    """Its exception is raised, and the lease released."""
    server, client = api

    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await LeaderElection(client, KEY, identity="one").run(fail)
    assert server.spec["holderIdentity"] == ""


@pytest.mark.parametrize(
    "times",
    [
        {"duration": 10},
        {"renew_deadline": 2.0},
        {"retry": 9.0},
        {"duration": 10.9, "renew_deadline": 10.5},
    ],
)
def test_times_that_would_allow_two_leaders_are_refused(times: dict[str, Any]) -> None:
    """The message names them."""
    with pytest.raises(ConfigError, match="leader election"):
        LeaseTiming(**times)
