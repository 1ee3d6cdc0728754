"""Time as a parameter, and how long to wait: clocks, growing waits, a budget of requests.

`SystemClock` is the real clock. `ManualClock` stands still until a test moves it, and
`JumpingClock` makes every sleep instantaneous while time passes as if it had been slept; both ship
with the package because programs built on it need them for their tests.

`Backoff` and `RetryPolicy` say how long to wait after failures, `TokenBucket` how many requests a
second are sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from numakube.errors import ApiError, ClusterUnreachable, UntrustedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from random import Random


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


SAFE_METHODS = frozenset({"GET", "HEAD"})
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


def spread(seconds: float, rng: Random) -> float:
    """Return 80 to 100 % of a period: who starts together must not act together for ever."""
    return seconds * rng.uniform(0.8, 1.0)


class Backoff:
    """Waits that double after each failure, up to a cap, spread at random.

    Each wait lies between half of the nominal one and the whole, so that many clients whom the same
    outage hit do not come back at the same moment.
    """

    def __init__(self, *, base: float, cap: float, rng: Random) -> None:
        self._base = base
        self._cap = cap
        self._rng = rng
        self._failures = 0

    def next(self) -> float:
        """Return how long to wait after one more failure."""
        wait = growing(self._failures, base=self._base, cap=self._cap)
        self._failures += 1
        return wait * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Start over after a success."""
        self._failures = 0


class Recovery:
    """Ends the pauses of those who could not reach a server as soon as one of them has."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()

    def reached(self) -> None:
        """Tell those who wait that the server is there."""
        waiting, self._reached = self._reached, asyncio.Event()
        waiting.set()

    async def pause(self, clock: Clock, seconds: float) -> None:
        """Wait for so long, or until another has reached the server."""
        ways = [
            asyncio.ensure_future(clock.sleep(seconds)),
            asyncio.ensure_future(self._reached.wait()),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()


def growing(failures: int, *, base: float, cap: float) -> float:
    """Return *base* doubled *failures* times, at most *cap*; no overflow however many."""
    # 2**64 times any sensible base is above any sensible cap.
    return min(cap, base * 2.0 ** min(failures, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Which failed requests are sent again, and when.

    A request that only reads may be repeated after any failure of the server or the network. One
    that writes may be repeated only if it cannot have been carried out: no connection came about,
    or the server asked to come back later (429 or 5xx with ``Retry-After``).

    Attributes:
        attempts: how often to send a request in all.
        base: the first wait in seconds; it doubles each time.
        cap: the longest wait of our own choice.
        patience: the longest wait that the server may ask for; beyond it the error is raised.
    """

    attempts: int = 6
    base: float = 0.1
    cap: float = 5.0
    patience: float = 60.0

    def wait(
        self, failure: ApiError | ClusterUnreachable, *, method: str, attempt: int, rng: Random
    ) -> float | None:
        """Return after how many seconds to try again after attempt number *attempt*, or None."""
        if attempt >= self.attempts or not _repeatable(failure, method):
            return None
        own = growing(attempt - 1, base=self.base, cap=self.cap) * rng.uniform(0.5, 1.0)
        asked = failure.retry_after if isinstance(failure, ApiError) else None
        if asked is None:
            return own
        return asked + own if asked <= self.patience else None


def _repeatable(failure: ApiError | ClusterUnreachable, method: str) -> bool:
    if isinstance(failure, UntrustedServer):
        return False
    if isinstance(failure, ClusterUnreachable):
        return method in SAFE_METHODS or not failure.sent
    if failure.code != _TOO_MANY_REQUESTS and failure.code < _SERVER_ERROR:
        return False
    return method in SAFE_METHODS or failure.retry_after is not None


class TokenBucket:
    """At most *rate* requests per second on average, and *burst* at once.

    Tokens are promised in the order of asking, so no caller starves. A rate of 0 means no limit.
    """

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    async def take(self) -> None:
        """Return as soon as the budget allows one more request."""
        if self._rate <= 0:
            return
        self._fill()
        self._tokens -= 1.0
        if self._tokens >= 0:
            return
        try:
            await self._clock.sleep(-self._tokens / self._rate)
        except BaseException:
            self._tokens += 1.0
            raise

    def try_take(self) -> bool:
        """Take a token if there is one; do not wait."""
        if self._rate > 0:
            self._fill()
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
        return True

    def _fill(self) -> None:
        now = self._clock.monotonic()
        gained = (now - self._filled_at) * self._rate
        self._tokens = min(self._burst, self._tokens + gained)
        self._filled_at = now
