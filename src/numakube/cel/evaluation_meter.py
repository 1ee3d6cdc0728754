"""What an evaluation has cost and done so far, and what ends it.

There are two counts. The *cost* is what cel-go would charge; Kubernetes limits it, and the limit is
told in its words. The *work* is what calls do that their cost does not say, such as printing a list
of a hundred thousand elements, which costs one. A unit of either is about 0.2 us or 64 bytes here.
Both are charged before they are done. Their sum is limited as well, so that any evaluation ends
soon, whatever it is made of; and now and then the caller is asked whether time is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.cel.cel_errors import CostLimitExceeded, TimeLimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

UNLIMITED: Final = 2**64
MOST_WORK: Final = 150_000
"""Cost and work of an evaluation unless told otherwise: some 30 ms, and 10 MB."""
ERROR_WORK: Final = 20
"""What it takes to absorb an error."""
LOOK_EVERY: Final = 2_000
"""Cost and work between two looks at the clock."""


class Meter:
    """Counts cost and work.

    Attributes:
        used: cost and work so far.
    """

    __slots__ = ("_cost_limit", "_due", "_expired", "_most", "_work", "used")

    def __init__(
        self, cost_limit: int, most: int, expired: Callable[[], bool] | None = None
    ) -> None:
        self.used = 0
        self._work = 0
        self._cost_limit = cost_limit
        self._most = most
        self._expired = expired
        self._due = LOOK_EVERY if cost_limit > LOOK_EVERY < most else min(cost_limit, most)

    @property
    def cost(self) -> int:
        """What cel-go would have charged so far."""
        return self.used - self._work

    @property
    def left(self) -> int:
        """How much cost and work is still allowed."""
        return self._most - self.used

    def charge(self, cost: int) -> None:
        """Add to the cost; raise `EvaluationStopped` once a limit is reached."""
        self.used += cost
        if self.used > self._due:
            self._look()

    def spend(self, work: int) -> None:
        """Add to the work; raise `EvaluationStopped` once a limit is reached."""
        self._work += work
        self.used += work
        if self.used > self._due:
            self._look()

    def _look(self) -> None:
        if self.cost > self._cost_limit or self.used > self._most:
            raise CostLimitExceeded
        if self._expired is not None and self._expired():
            raise TimeLimitExceeded
        self._due = min(self.used + LOOK_EVERY, self._cost_limit + self._work, self._most)
