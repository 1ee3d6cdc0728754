"""numakube's own commands as programs of containers.

They parse the same command lines and run the same code as on a host; what surrounds them is the
container's: its environment, its file system, its output.

The programs that containers of numakube's image can run, by their name. A container's words are
its command and arguments, with or without the leading ``numakube``; the first of them names the
program, the rest are its arguments. A component joins by one entry in
`numakube_lab.processes.program_table.PROGRAMS`:

    async def run(process: Process) -> int:
        async with connect(process.cluster(), clock=process.clock) as client:
            await process.stop.wait()
        return 0

Programs share the event loop with the whole lab: they must not block it.

The tasks that run containers, which have one owner, and why a container cannot be started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import click
import structlog

from numakube.annexes import programs
from numakube.apps.host import Elsewhere, Surroundings, load_program
from numakube.errors import NumakubeError
from numakube.kube import in_cluster_config
from numakube.version import VERSION
from numakube_lab.processes.lab_probe import run_probe

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

    from numakube.kube import Clock, ClusterConfig


OWN: Final = "numakube"
"""The last part of the image's name, wherever it is kept and whatever its tag is."""


def is_own(image: str) -> bool:
    """Tell whether *image* is numakube's own.

    >>> is_own("registry.example:5000/team/numakube:1.2@sha256:0f")
    True
    >>> is_own("numakube-exporter")
    False
    """
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[0] == OWN


NOT_FOUND: Final = 127
"""The exit code of a program that does not exist, as shells report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What a program that runs in a container is given.

    Attributes:
        args: the arguments after the program's name.
        env: the environment.
        root: the container's file system; see `path`.
        log: prints a line, or several.
        stop: set when the container has to end (SIGTERM).
        clock: the lab's clock.
        announce: tells at which URL a port of the pod is served.
    """

    args: tuple[str, ...]
    env: Mapping[str, str]
    root: Path
    log: Callable[[str], None]
    stop: asyncio.Event
    clock: Clock
    announce: Callable[[int, str], None] = lambda port, url: None

    def path(self, inside: str) -> Path:
        """Return where the container's path *inside* is, short enough for unix sockets."""
        return (self.root / inside.lstrip("/")).resolve()

    def cluster(self) -> ClusterConfig:
        """Return how to reach the API server with the container's service account.

        Raises:
            ConfigError: no service account is mounted.
        """
        return in_cluster_config(env=self.env, root=self.root)


Program: TypeAlias = Callable[[Process], Awaitable[int]]


_IN_TWO_WORDS: Final[Mapping[tuple[str, ...], str]] = MappingProxyType(
    {("check", "container"): "align"}
    | {tuple(entry.path.split()): name for name, entry in programs().items()}
)
"""What the command line calls programs, and what they are called here."""


def words_of(command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
    """Return a container's words from the program's name on."""
    words = (*command, *args)
    if words and PurePosixPath(words[0]).name == OWN:
        words = words[1:]
    program = _IN_TWO_WORDS.get(words[:2])
    return words if program is None else (program, *words[2:])


def find_program(name: str, programs: Mapping[str, Program]) -> Program:
    """Return the program called *name*, or one that says that there is none and fails."""

    async def missing(process: Process) -> int:
        known = ", ".join(sorted(programs))
        process.log(f"numakube: the lab has no program {name!r}; it can run: {known}")
        return NOT_FOUND

    return programs.get(name, missing)


async def print_version(process: Process) -> int:
    """Print the version and end."""
    process.log(f"numakube, version {VERSION}")
    return 0


USAGE: Final = 2
FAILED: Final = 1


def explained(run: Callable[[Process], Awaitable[int]]) -> Program:
    """Return *run* with mistakes of the command line and errors told in one line, as on a host."""

    async def program(process: Process) -> int:
        try:
            return await run(process)
        except click.ClickException as error:
            process.log(f"error: {error.format_message()}")
            return USAGE
        except click.exceptions.Exit as exit_:
            return exit_.exit_code
        except NumakubeError as error:
            process.log(f"error: {error}")
            return FAILED

    return program


def hosted(name: str, surroundings: Callable[[Process], Surroundings]) -> Program:
    """Return the program *name* of numakube, in the *surroundings* that a container is."""

    async def run(process: Process) -> int:
        # Libraries take their time to load; a lab that does not run the program does without.
        program = load_program(name)
        return await program.perform(process.args, surroundings(process), process.stop)

    return explained(run)


def unreachable(process: Process) -> Surroundings:
    """Return a container's surroundings; nothing is served, since its address leads nowhere."""
    return Surroundings(
        env=process.env,
        root=process.root,
        locate=process.path,
        clock=process.clock,
        serve=False,
        echo=process.log,
    )


def proxied(process: Process) -> Surroundings:
    """Return surroundings in which a container serves on the lab's own host, behind pods/proxy."""
    elsewhere = Elsewhere(move=True, announce=process.announce)
    return replace(unreachable(process), serve=True, elsewhere=elsewhere)


def as_told(process: Process) -> Surroundings:
    """Return surroundings in which a container serves at the given address on the lab's host."""
    elsewhere = Elsewhere(move=False, announce=process.announce)
    return replace(unreachable(process), serve=True, elsewhere=elsewhere)


async def run_align(process: Process) -> int:
    """Say where the container's CPUs, memory and devices are (``numakube check container``)."""
    from numakube.cli.align import answer, command

    options = command.make_context("align", list(process.args)).params
    output, with_memory = options["output"], options["with_memory"]
    text, code = answer(process.path, process.env, output=output, with_memory=with_memory)
    process.log(text)
    if options["stay"]:
        await process.stop.wait()
    return code


_SURROUNDINGS: Final = {"extender": as_told, "gc": unreachable, "sriov": unreachable}
"""What surrounds programs that do not serve behind ``pods/proxy``, as all others do."""

PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "--version": print_version,
        "version": print_version,
        "align": explained(run_align),
        "lab-probe": run_probe,
        **{name: hosted(name, _SURROUNDINGS.get(name, proxied)) for name in programs()},
    }
)
"""Programs by name."""


class CannotStart(NumakubeError):
    """A container cannot be started now; it is tried again.

    Attributes:
        reason: the kubelet's reason for the container's waiting.
        message: what is missing.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message

    @classmethod
    def because(cls, message: str) -> Self:
        """Return trouble with what the container's own description refers to."""
        return cls("CreateContainerConfigError", message)

    @classmethod
    def unmounted(cls, volume: str, message: str) -> Self:
        """Return trouble with a volume: to a kubelet the container is still being created."""
        return cls(
            "ContainerCreating", f'MountVolume.SetUp failed for volume "{volume}" : {message}'
        )


_PATIENCE_SECONDS: Final = 5.0
"""How long tasks have to end once they were cancelled."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Tasks:
    """Tasks that may fail each on its own; the owner ends those that are left."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, job: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run *job* until it ends or the owner does."""
        task = asyncio.create_task(job, name=name)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    async def aclose(self) -> None:
        """Cancel everything and wait for it to end."""
        for task in self._running:
            task.cancel()
        if self._running:
            _, stubborn = await asyncio.wait(self._running, timeout=_PATIENCE_SECONDS)
            for task in stubborn:
                _log.error("task_does_not_end", task=task.get_name())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task_failed", task=task.get_name(), error=repr(error))
