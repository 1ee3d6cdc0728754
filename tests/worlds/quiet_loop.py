"""An event loop in virtual time that tells when nothing is left to do until time passes.

A clock that only waits for a number of turns moves on under tasks that need one turn more. How many
they need depends on sets and random names, and a world would not be the same every time. Nor would
it be if a part that asks the loop for the time were told that of the machine.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
LIMIT_SECONDS: Final = 300.0
"""After so much work a world will never end; a busy machine may take any time for less."""


class _Selector(selectors.DefaultSelector):
    """Asked to wait, it first wakes those who wait for quiet."""

    def __init__(self) -> None:
        super().__init__()
        self.waiters: list[asyncio.Future[None]] = []
        self._ends = time.process_time() + LIMIT_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; a loop that has something to do never asks to wait."""
        if time.process_time() > self._ends:
            self._ends += LIMIT_SECONDS
            raise TimeoutError("this world never ends")
        waits = timeout is None or timeout > 0
        waiters, self.waiters = (self.waiters, []) if waits else ([], self.waiters)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return super().select(0 if waiters else timeout)


class QuietLoop(asyncio.SelectorEventLoop):
    """The loop; `run` runs something on one.

    Attributes:
        moment: tells the time.
    """

    def __init__(self) -> None:
        self.moment: Callable[[], float] = time.monotonic
        self._quiet = _Selector()
        super().__init__(self._quiet)

    def time(self) -> float:
        """Return the time by which timers go."""
        return self.moment()

    async def quiet(self) -> None:
        """Return when every other task waits for time to pass."""
        waiter = self.create_future()
        self._quiet.waiters.append(waiter)
        await waiter


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* on a loop that can tell when all is quiet."""
    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(work)


def this_loop() -> QuietLoop:
    """Return the loop of the `run` under way."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, QuietLoop)
    return loop
