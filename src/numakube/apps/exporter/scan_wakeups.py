"""When to scan: on changes, coalesced and within a rate; after a pause; and now and then.

Many things change at once when a pod comes (three state files, its status), so changes are
gathered for a moment and become one wake-up. A limited rate delays wake-ups but never loses one:
whatever was noted while waiting is covered by the scan that follows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.kube.clock import TokenBucket

if TYPE_CHECKING:
    from numakube.kube.clock import Clock

BURST: Final = 10
"""Wake-ups that may follow each other at once after a quiet time; RTE's limiter has the same."""

SETTLE_SECONDS: Final = 0.02
"""How long changes are gathered: a kubelet writes its files one after the other."""


class ScanCause(StrEnum):
    """What a report is due to, as RTE tells it in an annotation."""

    PERIODIC = "periodic"
    REACTIVE = "reactive"


class Trigger(StrEnum):
    """What makes the exporter look; the texts are labels of a metric."""

    START = "start"
    STATE = "kubelet-state"
    NOTIFICATION = "notification-file"
    SOCKET = "kubelet-socket"
    CONFIGURATION = "kubelet-configuration"
    POD = "pod"
    OBJECT = "object"
    ANNOTATION = "annotation"
    RETRY = "retry"
    PERIOD = "period"


@dataclass(frozen=True, slots=True)
class Wakeup:
    """A reason to scan."""

    triggers: frozenset[Trigger]

    @property
    def cause(self) -> ScanCause:
        """Whether anything but time has triggered it."""
        return ScanCause.PERIODIC if self.triggers == {Trigger.PERIOD} else ScanCause.REACTIVE


class Wakeups:
    """Gathers triggers and tells when to scan."""

    def __init__(
        self,
        *,
        clock: Clock,
        period: float,
        rate: float,
        burst: int = BURST,
        settle: float = SETTLE_SECONDS,
    ) -> None:
        """Prepare; the first wake-up comes at once.

        Args:
            clock: tells the time.
            period: seconds after which a wake-up comes anyway; 0 for never.
            rate: wake-ups per second at most; 0 for no limit.
            burst: wake-ups that may come faster than that.
            settle: how long further changes are waited for.
        """
        self._clock = clock
        self._period = period
        self._settle = settle
        self._bucket = TokenBucket(rate=rate, burst=burst, clock=clock)
        self._noted = {Trigger.START}
        self._news = asyncio.Event()
        self._closed = False
        self._retry_at: float | None = None
        self._period_at = self._next_period()

    def note(self, trigger: Trigger) -> None:
        """Take note of a change."""
        self._noted.add(trigger)
        self._news.set()

    def retry_after(self, seconds: float) -> None:
        """Wake up in *seconds* if nothing happens before."""
        self._retry_at = self._clock.monotonic() + seconds

    def close(self) -> None:
        """Let `next` come to an end."""
        self._closed = True
        self._news.set()

    async def next(self) -> Wakeup | None:
        """Return the next reason to scan; ``None`` when there will be none."""
        while not self._noted and not self._closed:
            await self._wait()
        if self._noted - {Trigger.START, Trigger.PERIOD, Trigger.RETRY} and not self._closed:
            await self._clock.sleep(self._settle)
        if not self._closed:
            await self._bucket.take()
        if self._closed:
            return None
        noted, self._noted = frozenset(self._noted), set()
        self._news.clear()
        self._retry_at = None
        self._period_at = self._next_period()
        return Wakeup(noted)

    async def _wait(self) -> None:
        due = min((at for at in (self._retry_at, self._period_at) if at is not None), default=None)
        seconds = None if due is None else max(0.0, due - self._clock.monotonic())
        try:
            async with self._clock.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            self._noted.add(Trigger.RETRY if due == self._retry_at else Trigger.PERIOD)

    def _next_period(self) -> float | None:
        return self._clock.monotonic() + self._period if self._period > 0 else None
