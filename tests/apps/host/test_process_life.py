"""A process keeps freed memory, and ends when it is told to."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from numakube.apps.host.process_life import (
    CUT_SHORT,
    Every,
    quiet_collector,
    run_fast,
    run_until_stopped,
    work_until,
)
from numakube.kube.clock import JumpingClock

_PROGRAM = """
import resource
from numakube.apps.host.process_life import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def churn():
    pieces = [bytearray(40_000) for _ in range(100)]
    del pieces

kept = keep_freed_memory()
churn()
before = faults()
for _ in range(10):
    churn()
print(kept, faults() - before)
"""


def test_memory_that_was_freed_is_used_again_without_asking_the_kernel() -> None:
    """Pages that came back from one round serve the next."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _PROGRAM], capture_output=True, check=True
    )

    kept, faults = done.stdout.split()
    if platform.libc_ver()[0] != "glibc":
        assert kept == b"False"
    else:
        # Fetched again each time, ten rounds of 4 MB would be ten thousand pages.
        assert kept == b"True"
        assert int(faults) < 1_000


def test_the_collector_is_as_before_afterwards() -> None:
    """Rare inside, and nothing stays changed outside."""
    before = gc.get_threshold()
    with quiet_collector():
        assert gc.get_threshold() > before
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before


# Processes end when they are told to.


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


class Diary:
    """What happens, in its order, to work and to what runs beside it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked = asyncio.Event()

    async def run(self) -> None:
        """Run beside the work."""
        try:
            await asyncio.Event().wait()
        finally:
            self.lines.append("beside ended")

    async def work(self) -> int:
        """Work until asked to end, and finish something then."""
        try:
            await self.asked.wait()
        except asyncio.CancelledError:
            self.lines.append("work cut off")
            raise
        self.lines.append("work finished")
        return 7

    async def flush(self) -> None:
        """Write what is left."""
        self.lines.append("written")


@pytest.fixture
def stop() -> asyncio.Event:
    stop = asyncio.Event()
    stop.set()
    return stop


async def test_work_that_is_asked_to_end_finishes_what_it_is_at(stop: asyncio.Event) -> None:
    diary = Diary()
    code = await work_until(
        stop, diary.work(), beside=(diary,), clock=JumpingClock(), end=diary.asked.set
    )
    assert code == 7
    assert diary.lines == ["work finished", "beside ended"]


async def test_other_work_is_cut_off_and_the_rest_is_written(stop: asyncio.Event) -> None:
    diary = Diary()
    code = await work_until(
        stop, diary.work(), beside=(diary,), clock=JumpingClock(), flush=diary.flush
    )
    assert code == 0
    assert diary.lines == ["work cut off", "written", "beside ended"]


async def test_a_program_ends_with_its_work() -> None:
    diary = Diary()
    diary.asked.set()
    code = await work_until(asyncio.Event(), diary.work(), beside=(diary,), clock=JumpingClock())
    assert code == 7
    assert diary.lines == ["work finished", "beside ended"]


async def test_what_is_done_every_so_often_waits_first() -> None:
    clock = JumpingClock()
    times: list[float] = []
    enough = asyncio.Event()

    def act() -> None:
        times.append(clock.monotonic())
        if len(times) == 3:
            enough.set()

    start = clock.monotonic()
    work = asyncio.create_task(Every(act, 5.0, clock).run())
    await enough.wait()
    work.cancel()
    assert [at - start for at in times[:3]] == [5.0, 10.0, 15.0]
