"""Names of devices and pools, the errors that allocation ends with, and how long it may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable


class DeviceId(NamedTuple):
    """A device: unique in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class PoolId(NamedTuple):
    """A pool of devices."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


CEL_TIMEOUT: Final = "cel-timeout"


class AllocationError(NumakubeError):
    """Allocation cannot go on for the pod, on whatever node.

    Attributes:
        kind: ``cel-compile``, ``cel-runtime``, ``cel-timeout`` or ``other``.
        node_only: only this node is ruled out.
        costly: finding out took as long as it may: not to be repeated soon.
    """

    def __init__(
        self, message: str, *, kind: str = "other", node_only: bool = False, costly: bool = False
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.node_only = node_only
        self.costly = costly

    def at(self, where: str) -> AllocationError:
        """Return the same error with *where* it happened before it."""
        return AllocationError(
            f"{where}: {self}", kind=self.kind, node_only=self.node_only, costly=self.costly
        )


# ------------------------------------------------------------------------------------------------
# How long a search may take, and each expression in it. The caller has the clocks.

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
