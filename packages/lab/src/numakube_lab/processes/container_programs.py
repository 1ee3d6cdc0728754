"""The programs that containers of numakube's image can run, by their name.

A container's words are its command and arguments, with or without the leading ``numakube``; the
first of them names the program, the rest are its arguments. A component joins by one entry in
`numakube_lab.processes.program_table.PROGRAMS`:

    async def run(process: Process) -> int:
        async with connect(process.cluster(), clock=process.clock) as client:
            await process.stop.wait()
        return 0

Programs share the event loop with the whole lab: they must not block it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, TypeAlias

import numakube
from numakube.kube.connection.cluster_config import in_cluster_config

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from pathlib import Path

    from numakube.kube.clock import Clock
    from numakube.kube.connection.cluster_config import ClusterConfig


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


def words_of(command: Sequence[str], args: Sequence[str]) -> tuple[str, ...]:
    """Return a container's words without the leading ``numakube``, if it has one."""
    words = (*command, *args)
    if words and PurePosixPath(words[0]).name == OWN:
        return words[1:]
    return words


def find_program(name: str, programs: Mapping[str, Program]) -> Program:
    """Return the program called *name*, or one that says that there is none and fails."""

    async def missing(process: Process) -> int:
        known = ", ".join(sorted(programs))
        process.log(f"numakube: the lab has no program {name!r}; it can run: {known}")
        return NOT_FOUND

    return programs.get(name, missing)


async def print_version(process: Process) -> int:
    """Print the version and end."""
    process.log(f"numakube, version {numakube.__version__}")
    return 0
