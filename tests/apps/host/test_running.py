"""Processes end when they are told to."""

from __future__ import annotations

import asyncio
import os
import signal

from numakube.apps.host.running import CUT_SHORT, run_until_stopped


def test_a_process_that_has_done_its_work_ends_by_itself() -> None:
    """With its own exit code."""

    async def main(stop: asyncio.Event) -> int:
        return 7 if not stop.is_set() else 1

    assert run_until_stopped(main) == 7


def test_a_signal_lets_it_finish() -> None:
    """What it is at is done first."""

    async def main(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        return 0

    assert run_until_stopped(main) == 0


def test_a_second_signal_cuts_it_short() -> None:
    """A user who presses Ctrl-C twice means it."""

    async def main(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return 0

    assert run_until_stopped(main) == CUT_SHORT
