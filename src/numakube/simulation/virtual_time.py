"""Virtual time: what happens when, and the end of it all.

Events at the same time happen in the order in which they were planned. A *quiet* event is one that
the passing of time alone brings about, such as a timer of the scheduler: the run is over when none
but quiet events are left and nothing has happened for a while.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    _Event = tuple[float, int, Callable[[], None], bool]
    """When, the how manieth, what, and whether it is quiet."""


class Timeline:
    """Lets planned events happen.

    Attributes:
        now: the time, in seconds since the beginning.
        last_news: when something other than a quiet event happened last.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.last_news = 0.0
        self._events: list[_Event] = []
        self._planned = 0
        self._news = 0

    def after(self, seconds: float, act: Callable[[], None], *, quiet: bool = False) -> None:
        """Plan *act* in so many *seconds*."""
        self._planned += 1
        self._news += not quiet
        heapq.heappush(self._events, (self.now + seconds, self._planned, act, quiet))

    def run(self, *, until: float | None, patience: float) -> None:
        """Let everything happen.

        Args:
            until: the last moment; ``None`` for no limit.
            patience: seconds in which nothing but quiet events happen before that is the end.
        """
        while self._events and (self._news or self._events[0][0] <= self.last_news + patience):
            if until is not None and self._events[0][0] > until:
                self.now = until
                return
            self.now, _, act, quiet = heapq.heappop(self._events)
            if not quiet:
                self._news -= 1
                self.last_news = self.now
            act()
