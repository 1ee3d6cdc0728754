"""What surrounds a process, so that it can run elsewhere than on a host of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numakube.kube.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.apps.host.http_serving import Elsewhere, Listen


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment of a process, in the lab, in tests and in earnest.

    Attributes:
        env: the environment.
        root: the root of the file system.
        locate: where a path of the options really is.
        clock: the time.
        serve: whether to serve health and metrics.
        elsewhere: where a server really is, if not where the options say.
        echo: prints a line, or several, for the user.
        on_hangup: has a function called at every SIGHUP, where there are signals.
    """

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    locate: Callable[[str], Path] = Path
    clock: Clock = field(default_factory=SystemClock)
    serve: bool = True
    elsewhere: Elsewhere | None = None
    echo: Callable[[str], None] = lambda text: click.echo(text.rstrip("\n"))
    on_hangup: Callable[[Callable[[], None]], None] = lambda act: None

    def placed(self, listen: Listen) -> Listen:
        """Return *listen* with where it really is."""
        return replace(listen, elsewhere=self.elsewhere)
