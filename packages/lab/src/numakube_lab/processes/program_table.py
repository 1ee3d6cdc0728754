"""numakube's own commands as programs of containers.

They parse the same command lines and run the same code as on a host; what surrounds them is the
container's: its environment, its file system, its output.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from numakube.apps.host.http_serving import Elsewhere
from numakube.apps.host.process_life import Surroundings
from numakube.apps.host.program import load_program
from numakube.errors import NumakubeError
from numakube.programs import PROGRAMS as HOSTED
from numakube_lab.processes.container_programs import print_version
from numakube_lab.processes.lab_probe import run_probe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from numakube_lab.processes.container_programs import Process, Program


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
    """Say where the container's CPUs, memory and devices are (``numakube align``)."""
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
        **{name: hosted(name, _SURROUNDINGS.get(name, proxied)) for name in HOSTED},
    }
)
"""Programs by name."""
