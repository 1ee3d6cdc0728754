"""Time as a parameter: the clock every acting part of numakube is given.

`SystemClock` is the real one. `ManualClock` stands still until a test moves it, and
`JumpingClock` makes every sleep instantaneous while time passes as if it had been slept;
both ship with the package because programs built on it need them for their tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

# Rounds of the event loop after which tasks that only wait for each other have come to rest.
_SETTLE_ROUNDS = 20


class Clock(Protocol):
    """What tells the time and waits for it to pass."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC; it may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after *seconds*."""
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Return a context whose body is cut short with `TimeoutError` after *seconds*."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the system's monotonic time."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep for *seconds*."""
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Return `asyncio.timeout`."""
        return asyncio.timeout(seconds)


class ManualClock:
    """A clock that a test moves with `advance`.

    Monotonic and wall-clock time go together; `skew` moves the wall clock alone. *settle* returns
    when whoever was woken has come to rest; without it they get a number of turns.
    """

    def __init__(
        self,
        start: datetime = datetime(2026, 1, 1, tzinfo=UTC),
        *,
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._wall = start
        self._settle = settle or _settle
        self._time = 0.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._sleeping = 0
        self._limited = 0
        self._changed = asyncio.Event()

    def now(self) -> datetime:
        """Return the wall-clock time this clock was moved to."""
        return self._wall

    def monotonic(self) -> float:
        """Return the seconds this clock was moved by."""
        return self._time

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved by *seconds*."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._call_at(self._time + seconds, lambda: _wake(waiter))
        self._sleeping += 1
        self._changed.set()
        try:
            await waiter
        finally:
            self._sleeping -= 1

    @contextlib.asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[object]:
        """Return a timeout that runs out when the clock has been moved by *seconds*."""
        async with asyncio.timeout(None) as timeout:
            if seconds is not None:
                self._call_at(self._time + seconds, lambda: _run_out(timeout))
            self._limited += 1
            self._changed.set()
            try:
                yield timeout
            finally:
                self._limited -= 1

    def skew(self, seconds: float) -> None:
        """Move the wall clock alone, as when an administrator sets it."""
        self._wall += timedelta(seconds=seconds)

    async def advance(self, seconds: float) -> None:
        """Move the clock, waking sleepers in the order of their deadlines."""
        target = self._time + seconds
        while self._timers and self._timers[0][0] <= target:
            deadline, _, fire = heapq.heappop(self._timers)
            self._move_to(deadline)
            fire()
            await self._settle()
        self._move_to(target)
        await self._settle()

    async def sleepers(self, count: int = 1) -> None:
        """Return as soon as at least *count* tasks sleep on this clock."""
        while self._sleeping < count:
            self._changed.clear()
            await self._changed.wait()

    async def timeouts(self, count: int = 1) -> None:
        """Return as soon as at least *count* tasks are inside a timeout of this clock."""
        while self._limited < count:
            self._changed.clear()
            await self._changed.wait()

    def _call_at(self, deadline: float, fire: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (deadline, next(self._sequence), fire))

    def _move_to(self, moment: float) -> None:
        passed = max(0.0, moment - self._time)
        self._time += passed
        self._wall += timedelta(seconds=passed)


class JumpingClock(ManualClock):
    """A clock on which sleeping takes no time but time passes nevertheless."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        super().__init__(start)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Move the clock by *seconds* and go on at once; `slept` keeps the record."""
        self.slept.append(seconds)
        self._move_to(self._time + seconds)
        while self._timers and self._timers[0][0] <= self._time:
            heapq.heappop(self._timers)[2]()
        await asyncio.sleep(0)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _run_out(timeout: asyncio.Timeout) -> None:
    """Let *timeout* run out now, unless its body has ended."""
    with contextlib.suppress(RuntimeError):
        timeout.reschedule(asyncio.get_running_loop().time())


async def _settle() -> None:
    for _ in range(_SETTLE_ROUNDS):
        await asyncio.sleep(0)
