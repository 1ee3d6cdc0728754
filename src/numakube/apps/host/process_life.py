"""How a process lives: what surrounds it, its turns of work, its lease, its memory, its end.

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
import contextlib
import ctypes
import gc
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
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from numakube.apps.host.settings_sources import gates_and_whether_on
from numakube.errors import LeadershipLost, NumakubeError
from numakube.kube.clock import Clock, SystemClock
from numakube.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    clock: Clock,
    end: Callable[[], None] | None = None,
    flush: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Do *work* until it ends or *stop* is set; return the exit code.

    Args:
        stop: set when the program has to end.
        work: what it is there for.
        beside: what runs beside the work, and outlives it.
        clock: limits how long *flush* may take.
        end: asks the work to end, which then finishes what it is at; without it, work is cancelled.
        flush: writes what is left, for a few seconds at most, while the others still run.
    """
    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(part.run()) for part in beside]
        working = tasks.create_task(work)
        stopped = tasks.create_task(stop.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if end is not None and not working.done():
            end()
            await asyncio.wait({working})
        code = working.result() if working.done() else 0
        working.cancel()
        await asyncio.wait({working})
        if flush is not None:
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


@dataclass(frozen=True, slots=True)
class Every:
    """Does something every so many *seconds*, the first time after a pause."""

    act: Callable[[], object]
    seconds: float
    clock: Clock

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await self.clock.sleep(self.seconds)
            self.act()


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


# How a process that holds a whole cluster treats its memory: rare collection, late release.
#
# API objects are trees: they are freed by reference counting, and Python's cyclic garbage collector
# finds nothing in them. But it looks at all of them again and again while they grow in number,
# which takes a third of the time in which a lab starts ten thousand pods, and a twentieth of a
# scheduler's at full speed.
#
# A decision over thousands of nodes makes some hundred arrays of 40 KB and drops them. glibc gives
# the end of the heap back to the kernel as soon as 128 KB of it are free, so that the next decision
# has to fetch the same pages again, hundreds of faults at a time: a quarter to a half of its time
# on a virtual machine.


# New objects until the young are looked at, and how many such looks until older ones are.
_RARELY: Final = (100_000, 20, 100)
# From glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 16 << 20
"""What may lie free at the end of the heap; a decision over 5,000 nodes needs 4 MB."""
_STEP_BYTES: Final = 1 << 20
_LARGE_BYTES: Final = 1 << 20
"""Larger pieces come from the kernel and go back to it at once, as before."""


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """Let the collector work rarely, and not on what exists already, while the body runs."""
    before = gc.get_threshold()
    quieten_collector()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def quieten_collector() -> None:
    """Let the collector work rarely from now on, and not on what exists already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_RARELY)


def keep_freed_memory() -> bool:
    """Let this process keep up to `KEPT_BYTES` for itself; tell whether its C library can."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = (
        (_M_TRIM_THRESHOLD, KEPT_BYTES),
        (_M_TOP_PAD, _STEP_BYTES),
        (_M_MMAP_THRESHOLD, _LARGE_BYTES),
    )
    return all(mallopt(key, value) == 1 for key, value in settings)


# The metrics that every process has, in a registry of its own.
#
# The lab runs many processes in one, so none may use prometheus_client's global registry.


def new_registry(component: str) -> CollectorRegistry:
    """Return a registry with the figures of the process and the version of *component*."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    info = Gauge(
        "numakube_build_info",
        "Always 1; the labels say what runs.",
        ("component", "version"),
        registry=registry,
    )
    info.labels(component, VERSION).set(1)
    enabled = Gauge(
        "kubernetes_feature_enabled",
        "Whether a feature gate of ours is on, as programs of Kubernetes tell it of theirs.",
        ("name", "stage"),
        registry=registry,
    )
    for gate, is_on in gates_and_whether_on():
        enabled.labels(gate.name, gate.stage.value).set(is_on)
    tasks = Gauge("numakube_tasks", "Tasks of asyncio that have not ended.", registry=registry)
    tasks.set_function(_tasks)
    return registry


def _tasks() -> float:
    try:
        return float(len(asyncio.all_tasks()))
    except RuntimeError:  # no event loop runs
        return 0.0
