"""When the exporter scans."""

from __future__ import annotations

import asyncio

import pytest

from numakube.apps.exporter.scan_wakeups import Trigger, Wakeup, Wakeups
from numakube.kube.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


def wakeups(clock: ManualClock, *, period: float = 60, rate: float = 0, burst: int = 1) -> Wakeups:
    """Wake-ups that gather changes for a hundredth of a second."""
    return Wakeups(clock=clock, period=period, rate=rate, burst=burst, settle=0.01)


async def started(clock: ManualClock, **options: float) -> Wakeups:
    """Return wake-ups of which the first has come."""
    ups = wakeups(clock, **options)  # type: ignore[arg-type]
    assert await ups.next() == Wakeup(frozenset({Trigger.START}))
    return ups


async def test_the_first_comes_at_once(clock: ManualClock) -> None:
    """Nobody waits a minute for the first report."""
    found = await wakeups(clock).next()
    assert found is not None
    assert found.cause == "reactive"


async def test_one_comes_every_period(clock: ManualClock) -> None:
    """Counted from the last one, whatever its reason."""
    ups = await started(clock)
    task = asyncio.create_task(ups.next())
    await clock.timeouts()
    await clock.advance(59.9)
    assert not task.done()
    await clock.advance(0.2)
    found = await task
    assert found == Wakeup(frozenset({Trigger.PERIOD}))
    assert found.cause == "periodic"


async def test_without_a_period_only_changes_count(clock: ManualClock) -> None:
    """As with a sleep interval of 0."""
    ups = await started(clock, period=0)
    task = asyncio.create_task(ups.next())
    await clock.timeouts()
    await clock.advance(10_000)
    assert not task.done()
    ups.note(Trigger.STATE)
    await clock.sleepers()
    await clock.advance(0.01)
    assert await task == Wakeup(frozenset({Trigger.STATE}))


async def test_changes_that_come_together_are_one_wakeup(clock: ManualClock) -> None:
    """A pod changes several files."""
    ups = await started(clock)
    task = asyncio.create_task(ups.next())
    ups.note(Trigger.STATE)
    await clock.sleepers()
    ups.note(Trigger.STATE)
    ups.note(Trigger.POD)
    await clock.advance(0.01)
    assert await task == Wakeup(frozenset({Trigger.STATE, Trigger.POD}))
    again = asyncio.create_task(ups.next())
    await clock.advance(1)
    assert not again.done()
    again.cancel()


async def test_a_change_during_a_scan_leads_to_another_scan(clock: ManualClock) -> None:
    """What was read may be from before it."""
    ups = await started(clock)
    ups.note(Trigger.STATE)
    task = asyncio.create_task(ups.next())
    await clock.sleepers()
    await clock.advance(0.01)
    assert await task == Wakeup(frozenset({Trigger.STATE}))


async def test_a_rate_delays_but_never_loses_a_change(clock: ManualClock) -> None:
    """The last change of a storm is reported too."""
    ups = await started(clock, rate=1)
    ups.note(Trigger.STATE)
    task = asyncio.create_task(ups.next())
    await clock.sleepers()
    await clock.advance(0.01)
    await clock.sleepers()
    ups.note(Trigger.NOTIFICATION)
    await clock.advance(0.5)
    assert not task.done()
    await clock.advance(0.5)
    assert await task == Wakeup(frozenset({Trigger.STATE, Trigger.NOTIFICATION}))


async def test_after_a_quiet_time_several_may_come_at_once(clock: ManualClock) -> None:
    """Up to the burst."""
    ups = await started(clock, rate=1, burst=2)
    ups.note(Trigger.STATE)
    task = asyncio.create_task(ups.next())
    await clock.sleepers()
    await clock.advance(0.01)
    assert task.done()


async def test_a_retry_comes_before_the_period(clock: ManualClock) -> None:
    """Once."""
    ups = await started(clock)
    ups.retry_after(2)
    task = asyncio.create_task(ups.next())
    await clock.timeouts()
    await clock.advance(2)
    assert await task == Wakeup(frozenset({Trigger.RETRY}))
    again = asyncio.create_task(ups.next())
    await clock.timeouts()
    await clock.advance(5)
    assert not again.done()
    again.cancel()


async def test_nothing_comes_after_the_end(clock: ManualClock) -> None:
    """Also if something was noted."""
    ups = await started(clock)
    task = asyncio.create_task(ups.next())
    await clock.timeouts()
    ups.note(Trigger.STATE)
    ups.close()
    assert await task is None
    assert await ups.next() is None
