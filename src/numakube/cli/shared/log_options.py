"""``--log-level`` and ``--log-format``, which every long-running command takes.

Logs go to standard error: a line an event, ``text`` for people or ``json`` for machines.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")


class _StandardError(io.StringIO):
    """Standard error as it is when something is written: loggers outlive a stream put in place."""

    def write(self, text: str) -> int:
        """Write *text*."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Let nothing wait."""
        sys.stderr.flush()


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare both options; the command passes their values to `configure_logs`."""
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default="warning",
        show_default=True,
        help="Minimum level of events to log.",
    )
    form = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="Format of the log.",
    )
    return level(form(command))


def configure_logs(level: str, form: str, *, stream: TextIO | None = None) -> None:
    """Send events of *level* and above to *stream*, or else standard error, in the given form."""
    from numakube.apps.host.common_settings import SWITCH
    from numakube.kube.log_lines import configure

    SWITCH.set(level)
    configure(
        form=form,
        stream=stream or _StandardError(),
        colors=sys.stderr.isatty(),
        first=(SWITCH,),
    )
