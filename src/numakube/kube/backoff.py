"""How fast to ask: growing waits after failures, and a budget of requests per second."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.errors import ApiError, ClusterUnreachable, UntrustedServer

if TYPE_CHECKING:
    from random import Random

    from numakube.kube.clock import Clock

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
