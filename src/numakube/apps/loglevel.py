"""The level of the log, which can be changed while the process runs, for a while or for good.

`SWITCH` is the one of this process: `numakube.cli.logs` puts it first among structlog's processors.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from numakube.kube.clock import Clock

LEVELS: Final = ("debug", "info", "warning", "error")
_DEBUG_VERBOSITY: Final = 4
"""klog's verbosity from which on details are logged; ours has one level for that."""


def level_of_verbosity(verbosity: int) -> str:
    """Return the level that klog's *verbosity* (as in ``PUT /debug/flags/v``) stands for."""
    return "debug" if verbosity >= _DEBUG_VERBOSITY else "info"


class LevelSwitch:
    """Drops what is below the current level."""

    def __init__(self) -> None:
        self._normal = logging.INFO
        self._for_now: tuple[int, float, Clock] | None = None

    @property
    def level(self) -> str:
        """The level in force."""
        return logging.getLevelName(self._threshold()).lower()

    def set(self, level: str) -> None:
        """Log from *level* on, from now on."""
        self._normal = logging.getLevelNamesMapping()[level.upper()]
        self._for_now = None

    def set_for(self, level: str, seconds: float, clock: Clock) -> None:
        """Log from *level* on for *seconds*, then as before."""
        number = logging.getLevelNamesMapping()[level.upper()]
        self._for_now = (number, clock.monotonic() + seconds, clock)

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        """Let *event* pass or drop it: a structlog processor."""
        number = logging.getLevelNamesMapping().get(method.upper(), logging.ERROR)
        if number < self._threshold():
            raise structlog.DropEvent
        return event

    def _threshold(self) -> int:
        if self._for_now is None:
            return self._normal
        number, until, clock = self._for_now
        if clock.monotonic() >= until:
            self._for_now = None
            return self._normal
        return number


SWITCH: Final = LevelSwitch()
