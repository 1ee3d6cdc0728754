"""Executing runs: on all CPUs, with a progress bar, and with what an earlier attempt finished."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.apps.host.process_life import quiet_collector, quieten_collector
from numakube.cli.shared.output_option import make_console
from numakube.errors import ClusterUnreachable, MalformedObject
from numakube.values.display import counted
from numakube.values.safe_text import reason_of
from numakube_planning.simulation.run_measures import RunResult  # noqa: TC001 - msgspec reads it
from numakube_planning.simulation.simulator import PlannedRun, digest, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

_START: Final = "spawn"
"""How processes begin: without what this one has open."""
_DASK_SECONDS: Final = 10
_TERMINATED: Final = 143  # as shells report it: 128 and the number of SIGTERM


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """Where runs are executed and kept.

    Attributes:
        jobs: how many at the same time; ``None`` for as many as there are CPUs.
        resume: the file that keeps finished runs.
        dask: the address of a Dask scheduler, whose workers execute the runs.
    """

    jobs: int | None = None
    resume: Path | None = None
    dask: str | None = None


class _Kept(msgspec.Struct, frozen=True):
    """One line of the file that keeps finished runs."""

    digest: str
    result: RunResult


class Interrupted(KeyboardInterrupt):
    """Control-C; says what becomes of runs that are finished.

    Attributes:
        results: of arms of which every run is finished.
    """

    def __init__(self, words: str, results: Sequence[RunResult]) -> None:
        super().__init__(words)
        self.results = results


def results_of(runs: Sequence[PlannedRun], places: RunPlaces) -> list[RunResult]:
    """Return the result of each of *runs*, in order.

    Raises:
        Interrupted: by the user.
    """
    keys = [digest(run) for run in runs] if places.resume else [""] * len(runs)
    known = _read(places.resume) if places.resume else {}
    wanted = [run for run, key in zip(runs, keys, strict=True) if key not in known]
    done = {_name(run): known[key] for run, key in zip(runs, keys, strict=True) if key in known}
    key_of = {_name(run): key for run, key in zip(runs, keys, strict=True)}
    try:
        with _executor(len(wanted), places) as executor, _progress(len(runs), len(done)) as advance:
            for run, result in sweep(wanted, executor):
                done[_name(run)] = result
                if places.resume:
                    _append(places.resume, _Kept(key_of[_name(run)], result))
                advance(run.title)
    except KeyboardInterrupt:
        raise _interrupted(runs, done, places) from None
    return [done[_name(run)] for run in runs]


def _interrupted(
    runs: Sequence[PlannedRun], done: Mapping[tuple[str, int], RunResult], places: RunPlaces
) -> Interrupted:
    """Return what is finished, and how to go on."""
    words = f"interrupted: {len(done)} of {counted(len(runs), 'run')} finished"
    if places.resume:
        words += f" and kept; the same command with --resume {places.resume} goes on"
    elif done:
        words += "; with --resume FILE they would be kept"
    unfinished = {run.arm.name for run in runs if _name(run) not in done}
    whole = [done[_name(run)] for run in runs if run.arm.name not in unfinished]
    return Interrupted(words, whole)


def _name(run: PlannedRun) -> tuple[str, int]:
    return run.arm.name, run.seed


@contextmanager
def _executor(count: int, places: RunPlaces) -> Iterator[Executor | None]:
    """Yield what executes *count* runs; ``None`` if this process is enough."""
    if places.dask is not None and count:
        with _dask(places.dask) as executor:
            yield executor
        return
    jobs = min(places.jobs or len(os.sched_getaffinity(0)), count)
    if jobs <= 1:
        with quiet_collector():
            yield None
        return
    pool = ProcessPoolExecutor(jobs, get_context(_START), initializer=_prepare_process)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield pool
    except BaseException:
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        signal.signal(signal.SIGTERM, before)


def _prepare_process() -> None:
    """Let Control-C on a terminal, which reaches all processes, be an affair of the first one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quieten_collector()


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    """Yield the workers of a Dask cluster.

    Raises:
        ClusterUnreachable: its scheduler does not answer.
    """
    from distributed import Client

    try:
        client = Client(address, timeout=_DASK_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterUnreachable(f"--on {address}: {reason_of(error)}") from None
    with client:
        executor: Executor = client.get_executor(pure=False)
        yield executor


@contextmanager
def _progress(total: int, done: int) -> Iterator[Callable[[str], None]]:
    """Show how many runs are finished, on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = make_console(stderr=True)
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("simulating", total=total, completed=done)
        yield lambda title: bar.update(task, advance=1, description=title)


def _read(file: Path) -> dict[str, RunResult]:
    """Return the finished runs in *file*; a last line that was cut off is removed.

    Raises:
        MalformedObject: it has something else than runs in it.
    """
    if not file.exists():
        return {}
    found: dict[str, RunResult] = {}
    lines = file.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            os.truncate(file, file.stat().st_size - len(line))
            break
        try:
            kept = msgspec.json.decode(line, type=_Kept)
        except msgspec.MsgspecError as error:
            raise MalformedObject(
                str(file), f"line {number}: not a finished run: {error}"
            ) from None
        found[kept.digest] = kept.result
    return found


def _append(file: Path, kept: _Kept) -> None:
    with file.open("ab") as out:
        out.write(msgspec.json.encode(kept) + b"\n")
