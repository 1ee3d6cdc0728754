"""numakube's own commands as programs of containers.

They parse the same command lines and run the same code as on a host; what surrounds them is the
container's: its environment, its file system, its output.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from numakube.apps.exporter.command import options_of, parse, perform
from numakube.apps.gc import command as gc_command
from numakube.apps.gc import process as gc_process
from numakube.apps.host.serving import Elsewhere
from numakube.apps.host.surroundings import Surroundings
from numakube.apps.operator import command as operator_command
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube_lab.processes.programs import Process, Program

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


async def run_gc(process: Process) -> int:
    """Run ``numakube gc``; it serves nothing, since pods' addresses lead nowhere."""
    values = gc_command.SETTINGS.resolve(env=process.env, flags=gc_command.LINE.parse(process.args))
    return await gc_process.run(
        values,
        process.stop,
        env=process.env,
        root=process.root,
        clock=process.clock,
        echo=process.log,
        serve=False,
    )


async def run_scheduler(process: Process) -> int:
    """Run ``numakube scheduler``, which serves on the lab's own host, behind ``pods/proxy``."""
    # NumPy takes its time to load; a lab without schedulers does without.
    from numakube.apps.scheduler import command

    around = _serving(process)
    return await command.perform(command.LINE.parse(process.args), around, process.stop)


async def run_extender(process: Process) -> int:
    """Run ``numakube extender``, which serves where it is told to: on the lab's own host."""
    from numakube.apps.extender import command

    elsewhere = Elsewhere(move=False, announce=process.announce)
    around = replace(_around(process), serve=True, elsewhere=elsewhere)
    return await command.perform(command.LINE.parse(process.args), around, process.stop)


async def run_operator(process: Process) -> int:
    """Run ``numakube operator``, which serves on the lab's own host, behind ``pods/proxy``."""
    line = operator_command.LINE.parse(process.args)
    return await operator_command.perform(line, _serving(process), process.stop)


async def run_webhook(process: Process) -> int:
    """Run ``numakube webhook``; the lab's API server does not call it."""
    from numakube.apps.webhook import command

    around = _serving(process)
    return await command.perform(command.LINE.parse(process.args), around, process.stop)


def _around(process: Process) -> Surroundings:
    """Return what surrounds a container; nothing is served, since its address leads nowhere."""
    return Surroundings(
        env=process.env,
        root=process.root,
        locate=process.path,
        clock=process.clock,
        serve=False,
    )


def _serving(process: Process) -> Surroundings:
    """Return what surrounds a container that serves: on a port of the lab's own host."""
    elsewhere = Elsewhere(move=True, announce=process.announce)
    return replace(_around(process), serve=True, elsewhere=elsewhere)


async def run_exporter(process: Process) -> int:
    """Run ``numakube exporter``, which serves on the lab's own host, behind ``pods/proxy``."""
    line = parse(process.args)
    around = _serving(process)
    return await perform(line, options_of(line, around), around, process.stop, process.log)


async def run_enforcer(process: Process) -> int:
    """Run ``numakube enforcer``, which serves on the lab's own host, behind ``pods/proxy``."""
    from numakube.apps.enforcer import command

    line = command.parse(process.args)
    around = _serving(process)
    values = command.values_of(line, around)
    return await command.perform(line, values, around, process.stop, process.log)


async def run_sriov(process: Process) -> int:
    """Run ``numakube sriov``."""
    from numakube.apps.sriov import command

    line = command.parse(process.args)
    around = _around(process)
    values = command.values_of(line, around)
    return await command.perform(line, values, around, process.stop, process.log)
