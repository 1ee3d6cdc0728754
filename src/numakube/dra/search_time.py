"""How long a search may take, and each expression in it. The caller has the clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable

EVALUATION_SECONDS: Final = 0.1
"""Processor time for one expression on one device; ordinary ones take some microseconds."""
_LOOK_EVERY: Final = 64
"""Evaluations between two looks at the clock; long ones look by themselves."""


class SearchStopped(NumakubeError):
    """The search took longer than it was allowed to."""


class SearchTime:
    """Tells one search when to stop.

    *expired* tells whether the search has to; *cpu_seconds* is a clock of processor time, which a
    busy machine does not make run faster.
    """

    def __init__(
        self,
        expired: Callable[[], bool] = lambda: False,
        cpu_seconds: Callable[[], float] | None = None,
    ) -> None:
        self._expired = expired
        self._cpu_seconds = cpu_seconds
        self._evaluations = 0
        self._ends: float | None = None

    def check(self) -> None:
        """Raise `SearchStopped` if there is no more time."""
        if self._expired():
            raise SearchStopped

    def evaluation(self) -> Callable[[], bool]:
        """Begin with an expression; return what tells whether it has to stop."""
        self._evaluations += 1
        if self._evaluations % _LOOK_EVERY == 0:
            self.check()
        self._ends = None
        return self._is_late

    def _is_late(self) -> bool:
        if self._cpu_seconds is not None:
            now = self._cpu_seconds()
            if self._ends is None:
                self._ends = now + EVALUATION_SECONDS
            if now > self._ends:
                return True
        return self._expired()
