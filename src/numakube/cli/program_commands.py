"""The programs of `numakube.programs` as commands: ``numakube run scheduler`` and the like."""

from __future__ import annotations

import asyncio
import signal
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from numakube.apps.host.process_life import (
    Surroundings,
    keep_freed_memory,
    quiet_collector,
    run_until_stopped,
)
from numakube.apps.host.program import WITHOUT_EFFECT, load_program, tell_without_effect
from numakube.cli.shared.log_options import configure_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    import click

    from numakube.apps.host.program import Program
    from numakube.apps.host.settings_sources import Values


def command_of(name: str) -> click.Command:
    """Return the command that runs the program *name*."""
    program = load_program(name)
    return program.command(lambda flags: run_program(program, flags))


def run_program(program: Program[Any], flags: Values) -> int:
    """Run *program* with what the command line gives until a signal ends it."""
    around = Surroundings(on_hangup=_on_hangup)
    told = flags.pop(WITHOUT_EFFECT, ())
    options = program.options(flags, around)
    configure_logs(options.logs.log_level, options.logs.log_format)
    tell_without_effect(told)
    if program.holds_cluster:
        keep_freed_memory()
    busy = program.holds_cluster
    with quiet_collector() if busy else nullcontext():
        return run_until_stopped(lambda stop: program.run(options, around, stop), busy=busy)


def _on_hangup(act: Callable[[], None]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, act)
