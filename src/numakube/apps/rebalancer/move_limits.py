"""When the rebalancer may move pods, and how many.

Not in quiet hours, only so many an hour, and not for a while after a plan was given up.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Final

from numakube.errors import ConfigError

_HOUR_SECONDS: Final = 3600.0
_SPAN: Final = re.compile(r"\d\d:\d\d-\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Times of the day, in UTC; a span may go past midnight."""

    spans: tuple[tuple[time, time], ...] = ()

    def __contains__(self, moment: datetime) -> bool:
        now = moment.time()
        return any(
            begin <= now < end if begin < end else now >= begin or now < end
            for begin, end in self.spans
        )


def quiet_hours(text: str) -> QuietHours:
    """Return the spans of ``08:00-12:00,13:00-18:00``.

    Raises:
        ConfigError: a part is not like that.
    """
    return QuietHours(tuple(map(_span, filter(None, map(str.strip, text.split(","))))))


def _span(text: str) -> tuple[time, time]:
    if _SPAN.fullmatch(text):
        with suppress(ValueError):
            begin, end = map(time.fromisoformat, text.split("-"))
            return begin, end
    raise ConfigError(f"--quiet-hours: {text!r} is not like 08:00-18:00")


@dataclass(slots=True)
class HourlyBudget:
    """How many moves are left, by a monotonic clock."""

    most: int
    _times: deque[float] = field(default_factory=deque)

    def spend(self, now: float) -> None:
        """Count a move."""
        self._times.append(now)

    def left(self, now: float) -> int:
        """Return how many more moves this hour allows."""
        while self._times and self._times[0] <= now - _HOUR_SECONDS:
            self._times.popleft()
        return self.most - len(self._times)


@dataclass(slots=True)
class Restraint:
    """All rules together.

    Attributes:
        pause_seconds: how long nothing is moved after a plan was given up.
    """

    quiet: QuietHours
    budget: HourlyBudget
    pause_seconds: float
    _paused_until: float = 0.0

    def pause(self, now: float) -> None:
        """Move nothing for a while."""
        self._paused_until = now + self.pause_seconds

    def is_paused(self, now: float) -> bool:
        """Whether a plan was given up a short while ago."""
        return now < self._paused_until

    def moves_allowed(self, now: float, moment: datetime) -> int:
        """Return how many pods may be moved *now*, by a monotonic clock; *moment* is in UTC."""
        if self.is_paused(now) or moment in self.quiet:
            return 0
        return self.budget.left(now)
