"""Clocks, growing waits, retries and the budget of requests."""

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import ApiError, ClusterUnreachable, UntrustedServer
from numakube.kube.clock import (
    Backoff,
    JumpingClock,
    ManualClock,
    Recovery,
    RetryPolicy,
    SystemClock,
    TokenBucket,
    growing,
)
from numakube.testing import turns


async def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    """And at the moment they asked for."""
    clock = ManualClock()
    woken: list[tuple[float, float]] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    tasks = [asyncio.create_task(sleep(seconds)) for seconds in (3, 1, 2)]
    await clock.sleepers(3)
    await clock.advance(2.5)
    assert woken == [(1, 1.0), (2, 2.0)]
    await clock.advance(1)
    await asyncio.gather(*tasks)

    assert woken[-1] == (3, 3.0)
    assert clock.monotonic() == 3.5


async def test_timeouts_run_out_with_the_clock() -> None:
    """And not after their body has ended."""
    clock = ManualClock()

    async def limited(seconds: float) -> str:
        try:
            async with clock.timeout(5):
                await clock.sleep(seconds)
        except TimeoutError:
            return "late"
        return "in time"

    tasks = [asyncio.create_task(limited(seconds)) for seconds in (4, 6)]
    await clock.timeouts(2)
    await clock.sleepers(2)
    await clock.advance(10)

    assert await asyncio.gather(*tasks) == ["in time", "late"]


async def test_a_skew_moves_the_wall_clock_alone() -> None:
    """As when an administrator sets the time."""
    clock = ManualClock()
    before = clock.now()
    clock.skew(-3600)

    assert (clock.now() - before).total_seconds() == -3600
    assert clock.monotonic() == 0


async def test_a_jumping_clock_does_not_wait() -> None:
    """Sleeping moves it, and its timeouts run out."""
    clock = JumpingClock()

    async def oversleep() -> None:
        async with clock.timeout(5):
            await clock.sleep(10)
            await asyncio.Event().wait()

    await clock.sleep(3600)
    with pytest.raises(TimeoutError):
        await oversleep()

    assert clock.slept == [3600, 10]


async def test_the_system_clock_is_the_systems() -> None:
    """Its times are aware of UTC and its timeouts real."""
    clock = SystemClock()
    start = clock.monotonic()

    with pytest.raises(TimeoutError):
        async with clock.timeout(0.001):
            await clock.sleep(60)

    assert clock.monotonic() > start
    assert clock.now().tzname() == "UTC"


async def test_a_jumping_clock_wakes_nobody_before_it_is_time() -> None:
    """Those whose time has come wake in their order."""
    clock, woken = JumpingClock(), list[str]()

    async def limited(name: str, seconds: float) -> None:
        try:
            async with clock.timeout(seconds):
                await asyncio.Event().wait()
        except TimeoutError:
            woken.append(name)

    tasks = [asyncio.create_task(limited(name, at)) for name, at in (("late", 9), ("soon", 3))]
    await turns(3)
    await clock.sleep(2)
    await turns(3)
    assert woken == []
    await clock.sleep(2)
    await turns(3)
    assert woken == ["soon"]
    await clock.sleep(5)
    await turns(3)
    assert woken == ["soon", "late"]
    await asyncio.gather(*tasks)


# Backoff, retries and the budget of requests.


@given(st.integers(0, 100_000), st.floats(1e-6, 10), st.floats(10, 1e6))
def test_waits_grow_up_to_the_cap(failures: int, base: float, cap: float) -> None:
    """However often something failed."""
    wait = growing(failures, base=base, cap=cap)

    assert base <= wait <= cap
    assert wait <= growing(failures + 1, base=base, cap=cap)


@given(st.integers(0, 2**32))
def test_backoff_is_spread_and_starts_anew(seed: int) -> None:
    """Each wait is between half and the whole of the nominal one."""
    backoff = Backoff(base=1, cap=8, rng=Random(seed))

    for nominal in (1, 2, 4, 8, 8):
        assert nominal / 2 <= backoff.next() <= nominal
    backoff.reset()
    assert backoff.next() <= 1


def test_an_untrusted_server_is_not_asked_again() -> None:
    """Its certificate will not get better within seconds."""
    policy = RetryPolicy()

    assert policy.wait(UntrustedServer("x"), method="GET", attempt=1, rng=Random(1)) is None
    assert policy.wait(ClusterUnreachable("x"), method="GET", attempt=1, rng=Random(1)) is not None
    assert policy.wait(ClusterUnreachable("x"), method="GET", attempt=6, rng=Random(1)) is None


def test_refusals_that_will_not_pass_are_not_repeated() -> None:
    """A 404 stays a 404."""
    error = ApiError("no", code=404, retry_after=1)

    assert RetryPolicy().wait(error, method="GET", attempt=1, rng=Random(1)) is None


async def test_a_budget_is_shared_in_the_order_of_asking() -> None:
    """Beyond the burst, one request after the other at the given rate."""
    clock = ManualClock()
    bucket = TokenBucket(rate=2, burst=1, clock=clock)
    done: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        await bucket.take()
        done.append((number, clock.monotonic()))

    tasks = [asyncio.create_task(ask(number)) for number in range(4)]
    await clock.sleepers(3)
    await clock.advance(10)
    await asyncio.gather(*tasks)

    assert done == [(0, 0.0), (1, 0.5), (2, 1.0), (3, 1.5)]


async def test_who_gives_up_returns_the_token() -> None:
    """A cancelled request does not cost those after it."""
    clock = ManualClock()
    bucket = TokenBucket(rate=1, burst=1, clock=clock)
    assert bucket.try_take()
    assert not bucket.try_take()
    waiting = asyncio.create_task(bucket.take())
    await clock.sleepers()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await clock.advance(1)
    assert bucket.try_take()


async def test_no_rate_means_no_limit() -> None:
    """For tests and for servers that guard themselves."""
    bucket = TokenBucket(rate=0, burst=0, clock=ManualClock())

    for _ in range(1000):
        await bucket.take()
        assert bucket.try_take()


async def test_a_pause_ends_when_another_has_reached_the_server() -> None:
    """Whoever comes back later knows what the others know, and not the past."""
    clock, recovery = ManualClock(), Recovery()
    waiting = [asyncio.create_task(recovery.pause(clock, 30.0)) for _ in range(2)]
    await clock.sleepers(2)

    recovery.reached()

    await asyncio.gather(*waiting)
    later = asyncio.create_task(recovery.pause(clock, 30.0))
    await clock.sleepers(1)
    assert not later.done()
    await clock.advance(30.0)
    await later


def test_a_server_may_ask_for_a_wait_up_to_the_patience() -> None:
    """Beyond it the error is raised; our own pause comes on top."""
    policy, rng = RetryPolicy(patience=60), Random(1)
    waits = [
        policy.wait(ApiError("busy", code=503, retry_after=asked), method="PUT", attempt=1, rng=rng)
        for asked in (60, 61)
    ]
    assert waits[0] is not None
    assert 60 < waits[0] <= 60 + policy.base
    assert waits[1] is None
