"""How a process lives: what surrounds it, its turns of work, its lease, the signal that ends it.

    def main() -> int:
        return run_until_stopped(lambda stop: serve(options, stop))

SIGTERM and SIGINT set the event: the process finishes what it is at and returns. A second signal
cuts it short.

Programs that exchange hundreds of requests a second run on uvloop where it is installed: a pod
costs scheduler and API server a tenth less CPU than on asyncio's own event loop. It takes 5 MB of
memory, which agents on nodes do without.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import click
import structlog

from numakube.errors import LeadershipLost, NumakubeError
from numakube.kube.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client import Counter

    from numakube.apps.host.http_serving import Elsewhere, Listen
    from numakube.kube.leader_election import LeaderElection


T = TypeVar("T")

Main: TypeAlias = Callable[[asyncio.Event], Awaitable[int]]
"""Runs until the event is set, or until it has done its work; returns the exit code."""

CUT_SHORT: Final = 130
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run_until_stopped(main: Main, *, busy: bool = False) -> int:
    """Run *main* in an event loop of its own, a fast one if it is *busy*; return its exit code."""
    return run_fast(_run(main)) if busy else asyncio.run(_run(main))


def run_fast(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* as `asyncio.run` does, on uvloop where that is installed."""
    try:
        new_loop: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment of a process, in the lab, in tests and in earnest.

    Attributes:
        env: the environment.
        root: the root of the file system.
        locate: where a path of the options really is.
        clock: the time.
        serve: whether to serve health and metrics.
        elsewhere: where a server really is, if not where the options say.
        echo: prints a line, or several, for the user.
        on_hangup: has a function called at every SIGHUP, where there are signals.
    """

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    locate: Callable[[str], Path] = Path
    clock: Clock = field(default_factory=SystemClock)
    serve: bool = True
    elsewhere: Elsewhere | None = None
    echo: Callable[[str], None] = lambda text: click.echo(text.rstrip("\n"))
    on_hangup: Callable[[Callable[[], None]], None] = lambda act: None

    def placed(self, listen: Listen) -> Listen:
        """Return *listen* with where it really is."""
        return replace(listen, elsewhere=self.elsewhere)
