"""One run for all who wait: what several tasks ask for at once is done once.

The work belongs to the first who asks. If that one is cancelled, one of those who wait takes over,
so that nobody is left waiting and no task outlives its owner.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Shares each run of *work* among those who ask for it while it runs."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._running: asyncio.Future[T] | None = None

    async def result(self) -> T:
        """Return what the run in progress gives, or a new one if there is none."""
        while self._running is not None:
            try:
                return await asyncio.shield(self._running)
            except asyncio.CancelledError:
                if not self._abandoned():
                    raise
        return await self._fly()

    def _abandoned(self) -> bool:
        """Tell whether a cancellation was the leader's, not ours."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() == 0

    async def _fly(self) -> T:
        flight: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._running = flight
        try:
            value = await self._work()
        except asyncio.CancelledError:
            self._running = None
            flight.cancel()
            raise
        except BaseException as exc:
            self._running = None
            flight.set_exception(exc)
            flight.exception()  # retrieved: nobody may be waiting
            raise
        self._running = None
        flight.set_result(value)
        return value
