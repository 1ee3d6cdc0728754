"""The command line of the garbage collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from numakube.apps.process import CONNECTION, LOGS, serving_settings
from numakube.apps.settings import DURATION, Setting, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.apps.settings import Values

NAME: Final = "gc"

SETTINGS: Final = Settings(
    (
        Setting(
            name="interval",
            flag="--gc-interval",
            type=DURATION,
            default=3600.0,
            help="Look for objects without a node so often; deleted nodes are noticed at once.",
        ),
        Setting(
            name="grace",
            flag="--grace-period",
            type=DURATION,
            default=60.0,
            help="Remove an object when its node has been missing for so long.",
        ),
        Setting(
            name="page_size",
            flag="--list-size",
            type=click.IntRange(0),
            default=200,
            help="Objects to list at a time; 0: all at once.",
        ),
        Setting(
            name="oneshot",
            flag="--oneshot/--no-oneshot",
            default=False,
            help="Collect once, after the grace period, and exit.",
        ),
        Setting(
            name="dry_run",
            flag="--dry-run/--no-dry-run",
            default=False,
            help="Only print what would be removed.",
        ),
        *serving_settings(8080),
        *CONNECTION,
        *LOGS,
    )
)

HELP: Final = """Remove NodeResourceTopology objects of nodes that have vanished.

A node that is missing for shorter than the grace period keeps its object.
"""


def make_command(act: Callable[[Values], Any]) -> click.Command:
    """Return the command, which calls *act* with its settings and returns what that returns."""

    @click.pass_context
    def callback(ctx: click.Context, /, **_: object) -> Any:  # noqa: ANN401 - act's result
        return act(SETTINGS.given(ctx))

    return click.Command(NAME, params=SETTINGS.options(), callback=callback, help=HELP)


def parse(args: tuple[str, ...]) -> Values:
    """Return the settings that *args* give.

    Raises:
        click.ClickException: they make no sense.
    """
    values: Values = make_command(lambda values: values).main(
        list(args), prog_name=f"numakube {NAME}", standalone_mode=False
    )
    return values
