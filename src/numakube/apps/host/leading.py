"""The life of a program that works while it holds a lease, until it is told to stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from numakube.errors import LeadershipLost, NumakubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from prometheus_client import Counter

    from numakube.kube.clock import Clock
    from numakube.kube.leader_election import LeaderElection

LOST: Final = 1
"""The exit code of a leader that could not renew its lease."""
_LAST_SECONDS: Final = 3.0
"""How long what is still to be written may take when a program stops."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Part(Protocol):
    """What runs until it is cancelled."""

    async def run(self) -> None:
        """Run."""
        ...


async def work_until(
    stop: asyncio.Event,
    work: Coroutine[object, object, int],
    *,
    beside: Iterable[Part],
    flush: Callable[[], Awaitable[None]],
    clock: Clock,
) -> int:
    """Do *work* until it ends or *stop* is set; return the exit code.

    What runs *beside* it outlives it by the time that *flush* takes to write what is left.
    """
    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(one.run()) for one in beside]
        working = tasks.create_task(work)
        stopped = tasks.create_task(stop.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        code = working.result() if working.done() else 0
        stopped.cancel()
        working.cancel()
        await asyncio.wait({working})
        with suppress(TimeoutError):
            async with clock.timeout(_LAST_SECONDS):
                await flush()
        for other in others:
            other.cancel()
    return code


async def lead_with(
    election: LeaderElection | None, lead: Callable[[], Coroutine[object, object, None]]
) -> int:
    """Run *lead* while its lease is held, or without one; return the exit code."""
    try:
        await (lead() if election is None else election.run(lead))
    except LeadershipLost as error:
        _log.error("leadership_lost", error=str(error))
        return LOST
    return 0


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
