"""Work that a program does again and again, with a pause between two turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prometheus_client import Counter

    from numakube.kube.clock import Clock

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Turns:
    """Takes a turn again and again.

    Attributes:
        trouble: why the latest turn failed; empty if it did not.
    """

    def __init__(
        self,
        turn: Callable[[], Awaitable[object]],
        *,
        clock: Clock,
        seconds: float,
        failures: Counter,
        complaint: str,
    ) -> None:
        """Prepare to call *turn* every so many *seconds*.

        Args:
            turn: what to do.
            clock: the clock.
            seconds: the pause between two turns.
            failures: counts turns that failed.
            complaint: the event that is logged when one fails for another reason than the last.
        """
        self.trouble = ""
        self._turn = turn
        self._clock = clock
        self._seconds = seconds
        self._failures = failures
        self._complaint = complaint

    async def run(self) -> None:
        """Take turns until cancelled."""
        while True:
            try:
                await self._turn()
                self.trouble = ""
            except NumakubeError as error:
                self._failures.inc()
                if str(error) != self.trouble:
                    _log.warning(self._complaint, error=str(error))
                self.trouble = str(error)
            await self._clock.sleep(self._seconds)
