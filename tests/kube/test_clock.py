"""The clocks for tests behave like the real one, except for how time passes."""

import asyncio

import pytest

from numakube.kube.clock import JumpingClock, ManualClock, SystemClock


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
