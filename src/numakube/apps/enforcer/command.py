"""The command line of the enforcer, for the program and for containers of the lab alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from numakube.apps.enforcer.process import FAILED, make_executor, run
from numakube.apps.enforcer.settings import SETTINGS
from numakube.apps.host.command_line import parsed

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.enforcer.executing import Outcome
    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings

NAME: Final = "enforcer"

Echo: TypeAlias = Callable[[str], None]

HELP: Final = """Give containers what a scheduler allotted to them.

For nodes whose kubelet aligns nothing. Sets CPUs and memory nodes of control groups, version 1 or
2, keeps other pods off CPUs that a pod has for itself, repairs what others change, and puts
everything back at the end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A command line that makes sense by itself.

    Attributes:
        flags: the settings that it gives.
        once: make one pass, and end.
        dry_run: print what would be written, and end.
        restore: put everything back that an earlier process changed, and end.
    """

    flags: Values
    once: bool = False
    dry_run: bool = False
    restore: bool = False


def make_command(act: Callable[[Line], Any]) -> click.Command:
    """Return the command, which calls *act* with its line and returns what that returns."""

    @click.pass_context
    def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
        given = ctx.params
        return act(
            Line(
                flags=SETTINGS.given(ctx),
                once=given["once"],
                dry_run=given["dry_run"],
                restore=given["restore_only"],
            )
        )

    return click.Command(
        NAME, params=[*_own_parameters(), *SETTINGS.options()], callback=callback, help=HELP
    )


def parse(args: tuple[str, ...]) -> Line:
    """Return the line that *args* make.

    Raises:
        click.ClickException: they make none.
    """
    line: Line = parsed(make_command(lambda line: line), args)
    return line


def values_of(line: Line, around: Surroundings) -> Values:
    """Return what the environment and the line add up to.

    Raises:
        ConfigError: something makes no sense.
    """
    return SETTINGS.resolve(env=around.env, flags=line.flags)


async def perform(
    line: Line, values: Values, around: Surroundings, stop: asyncio.Event, echo: Echo
) -> int:
    """Do what the command line asks for; return the exit code."""
    if line.restore:
        outcome = make_executor(values, around, dry_run=line.dry_run).restore()
        _print(outcome, echo)
        return FAILED if outcome.refused else 0
    if not line.once and not line.dry_run:
        return await run(values, around, stop)
    return await run(
        values,
        around,
        stop,
        once=True,
        dry_run=line.dry_run,
        show=lambda outcome: _print(outcome, echo),
    )


def _print(outcome: Outcome, echo: Echo) -> None:
    """Print one line a file: whose it is, what it was, and what it is to be."""
    for change in outcome.changes:
        whose = f"{change.owner.pod} {change.owner.container}" if change.owner.pod else "-"
        before, after = change.before or "(inherit)", change.after or "(inherit)"
        echo(f"{whose}\t{change.group}/{change.file}\t{before} -> {after}")
    for refused in outcome.refused:
        echo(f"refused: {refused.owner.pod or '-'}\t{refused.group}\t{refused.why}")
    if outcome.trouble:
        echo(f"nothing done: {outcome.trouble}")


def _own_parameters() -> list[click.Parameter]:
    return [
        click.Option(["--once"], is_flag=True, help="Make one pass, print it, and end."),
        click.Option(["--dry-run"], is_flag=True, help="Print what would be written, and end."),
        click.Option(
            ["--restore", "restore_only"],
            is_flag=True,
            help="Put back what an earlier process changed, and end; needs no cluster.",
        ),
    ]
