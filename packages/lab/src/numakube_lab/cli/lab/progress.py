"""How far the start of a lab is: one changing line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self

from numakube.cli.shared.output_option import make_console

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

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
