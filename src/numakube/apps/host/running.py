"""Running a process until a signal ends it.

    def main() -> int:
        return run_until_stopped(lambda stop: serve(options, stop))

SIGTERM and SIGINT set the event: the process finishes what it is at and returns. A second signal
cuts it short.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

Main: TypeAlias = Callable[[asyncio.Event], Awaitable[int]]
"""Runs until the event is set, or until it has done its work; returns the exit code."""

CUT_SHORT: Final = 130
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run_until_stopped(main: Main) -> int:
    """Run *main* in an event loop of its own and return its exit code."""
    return asyncio.run(_run(main))


async def _run(main: Main) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main(stop))

    def on_signal() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        return CUT_SHORT
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
