"""The command line of the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from numakube.apps.process import CONNECTION, LOGS, serving_settings
from numakube.apps.settings import Setting, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.apps.settings import Values

NAME: Final = "dashboard"
PORT: Final = 8090

SETTINGS: Final = Settings(
    (
        Setting(
            name="bundle",
            flag="--from",
            metavar="FILE",
            help="Show this bundle (of `kubectl numa bundle`) instead of a live cluster.",
        ),
        Setting(
            name="port",
            flag="--port",
            type=click.IntRange(0, 65535),
            default=None,
            help="Port on this machine: short for --bind-address 127.0.0.1:PORT.",
        ),
        Setting(
            name="title",
            flag="--title",
            default="numakube",
            help="What the pages are headed with, such as the name of the cluster.",
        ),
        *serving_settings(PORT),
        *CONNECTION,
        *LOGS,
    )
)

HELP: Final = """Serve pages that show a cluster by NUMA zone.

Open the address that it prints. Only this machine can reach it, unless --bind-address says
otherwise; then it needs a certificate, and readers need a token.
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
