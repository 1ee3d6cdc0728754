"""Processes end when they are told to."""

from __future__ import annotations

import asyncio
import os
import signal
from importlib.util import find_spec

import pytest

from numakube.apps.host.process_life import CUT_SHORT, run_fast, run_until_stopped


def test_a_process_that_has_done_its_work_ends_by_itself() -> None:
    """With its own exit code."""

    async def main(stop: asyncio.Event) -> int:
        return 7 if not stop.is_set() else 1

    assert run_until_stopped(main) == 7


@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_lets_it_finish(busy: bool) -> None:
    """What it is at is done first."""

    async def main(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        return 0

    assert run_until_stopped(main, busy=busy) == 0


def test_a_second_signal_cuts_it_short() -> None:
    """A user who presses Ctrl-C twice means it."""

    async def main(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return 0

    assert run_until_stopped(main) == CUT_SHORT


def test_a_busy_program_runs_on_uvloop_where_it_is_installed() -> None:
    """And on asyncio's own event loop elsewhere."""

    async def module() -> str:
        return type(asyncio.get_running_loop()).__module__

    wanted = "uvloop" if find_spec("uvloop") else "asyncio.unix_events"
    assert run_fast(module()) == wanted
