"""When the rebalancer may move pods: not in quiet hours, and only so many an hour."""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import time
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from datetime import datetime

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
