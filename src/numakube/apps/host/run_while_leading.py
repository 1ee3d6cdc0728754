"""The life of a program that works while it holds a lease, until it is told to stop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from numakube.errors import LeadershipLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

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
