"""``numakube lab up --detach``: a lab that goes on in the background, and how far its start is.

What the lab commands share: the name of the lab, and a way to talk to it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import click

from numakube.cli.shared.output_option import make_console
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import BufferedRandom, FileIO
    from types import TracebackType

    from numakube_lab.run_folder import LabInfo, RunDir


LINE_SECONDS: Final = 10.0
"""How often a line is written where none can change; a short start writes none."""


class Progress:
    """Shows texts to who waits; use it as a context.

    Attributes:
        moved_at: when the text last changed, by *clock*.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._console = make_console(stderr=True)
        self._status = self._console.status("starting") if self._console.is_terminal else None
        self._text = ""
        self._written_at = self.moved_at = clock()

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal to others."""
        if self._status is not None:
            self._status.stop()

    def show(self, text: str) -> None:
        """Show *text* instead of what was shown before."""
        if text == self._text:
            return
        now = self._clock()
        self._text, self.moved_at = text, now
        if self._status is not None:
            self._status.update(text)
        elif now - self._written_at >= LINE_SECONDS:
            self._written_at = now
            self._console.print(text)


PATIENCE_SECONDS: Final = 120.0
"""How long a start may go on without getting any further."""

_POLL_SECONDS: Final = 0.05


def detach(folder: RunDir, claim: FileIO, run: Callable[[], None]) -> LabInfo:
    """Let *run* go on in a process of its own; return as soon as the lab is up.

    Raises:
        ConfigError: it could not start; its last words are in the message.
    """
    with folder.log.open("a+b") as log:
        child = os.fork()
        if not child:
            _become_daemon(claim, log)
            # What follows is the child's: its errors are printed as any command's are.
            run()
            sys.exit(0)
        claim.close()
        try:
            return _await_child(folder, child, log)
        except KeyboardInterrupt:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
            raise


def _await_child(folder: RunDir, child: int, log: BufferedRandom) -> LabInfo:
    with Progress() as progress:
        while True:
            info = folder.info()
            if info is not None:
                return info
            if os.waitpid(child, os.WNOHANG)[0]:
                _lament(log)
            progress.show(folder.progress())
            if time.monotonic() - progress.moved_at > PATIENCE_SECONDS:
                raise ConfigError(
                    f"the lab gets no further since {PATIENCE_SECONDS:.0f} s "
                    f"({folder.progress() or 'nothing is started'}); see {folder.log}, and end it "
                    f"with: numakube lab down --name {folder.path.name}"
                )
            time.sleep(_POLL_SECONDS)


def _lament(log: BufferedRandom) -> NoReturn:
    """Raise the error that a lab ended with; its log is gone by name, but still open."""
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").split("\n") if line.strip()]
    # Libraries may warn after the error, while the interpreter ends.
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    last = (errors or lines or ["it said nothing"])[-1]
    raise ConfigError(f"the lab could not start: {last}")


def _become_daemon(claim: FileIO, log: BufferedRandom) -> None:
    """Leave the terminal; what is printed goes to the log."""
    os.setsid()
    claim.seek(0)
    claim.truncate()
    claim.write(str(os.getpid()).encode())
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)


name_option = click.option(
    "--name", default="lab", show_default=True, help="Name of the lab; several can run."
)


def run_dir(name: str) -> RunDir:
    """Return the folder of the lab called *name*."""
    from numakube_lab.run_folder import RunDir

    return RunDir.of(name, os.environ)


def no_such_lab(name: str) -> ConfigError:
    """Return the error for a name that no lab has."""
    return ConfigError(f"no lab called {name!r} is running; start one with: numakube lab up")


def ask_lab(
    name: str, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Send a request to the running lab called *name*."""
    from numakube_lab.control_socket import ControlClient

    folder = run_dir(name)
    if folder.info() is None:
        if folder.owner() is None:
            raise no_such_lab(name)
        raise ConfigError(f"the lab {name!r} is still starting: {folder.progress()}")
    return asyncio.run(ControlClient(folder.control_socket).call(method, path, body))
