"""Waiting for what others do with objects that this process watches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.kube.clock import Clock
    from numakube.scheduling.framework.status import Status


class ChangeSignal:
    """Tells those who wait that something has changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()

    def send(self) -> None:
        """Say that something has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(
        self, done: Callable[[], Status | None], *, timeout_seconds: float
    ) -> Status | None:
        """Ask *done*, now and after every change; return its answer, or ``None`` in the end."""
        try:
            async with self._clock.timeout(timeout_seconds):
                while True:
                    changed = self._changed
                    answer = done()
                    if answer is not None:
                        return answer
                    await changed.wait()
        except TimeoutError:
            return None
