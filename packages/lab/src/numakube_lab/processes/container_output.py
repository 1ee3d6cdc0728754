"""What containers print, kept within bounds.

A container's log is that of its present run; that of the run before is kept beside it, and older
ones are gone, as on a node.
"""

from __future__ import annotations

import asyncio
import io
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from datetime import datetime
    from typing import TextIO

    from numakube.kube.clock import Clock

MAX_BYTES: Final = 1 << 20
MAX_LINES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and when it was printed."""

    number: int
    moment: datetime
    text: str


class Output:
    """The lines that one run of a container has printed; the oldest go first.

    Attributes:
        closed: nothing more will come.
    """

    def __init__(
        self, clock: Clock, *, max_bytes: int = MAX_BYTES, max_lines: int = MAX_LINES
    ) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._lines: deque[Line] = deque(maxlen=max_lines)
        self._bytes = 0
        self._count = 0
        self._news = asyncio.Event()
        self.closed = False

    def write(self, text: str) -> None:
        """Keep *text*, one line or more."""
        moment = self._clock.now()
        for line in text.splitlines() or [""]:
            if len(self._lines) == self._lines.maxlen:
                self._drop()
            self._lines.append(Line(self._count, moment, line))
            self._count += 1
            self._bytes += len(line)
            while self._bytes > self._max_bytes and len(self._lines) > 1:
                self._drop()
        self._tell()

    def close(self) -> None:
        """Let those who follow come to an end."""
        self.closed = True
        self._tell()

    def lines(self, *, since: int = 0) -> Iterator[Line]:
        """Return the lines that are kept, from number *since* on."""
        return (line for line in list(self._lines) if line.number >= since)

    async def follow(self, *, since: int = 0) -> AsyncGenerator[Line, None]:
        """Give the lines as they come, from number *since* on, until the run ends."""
        while True:
            news, closed = self._news, self.closed
            for line in self.lines(since=since):
                since = line.number + 1
                yield line
            if closed:
                return
            if news is self._news:
                await news.wait()

    def _drop(self) -> None:
        self._bytes -= len(self._lines.popleft().text)

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


CURRENT: ContextVar[Output | None] = ContextVar("container_output", default=None)
"""The output of the container whose task this is; tasks that it starts inherit it."""


class Routed(io.StringIO):
    """A stream for logs of the whole process: what a container writes goes to its own output."""

    def __init__(self, otherwise: TextIO) -> None:
        super().__init__()
        self._otherwise = otherwise

    def write(self, text: str) -> int:
        """Write *text* where it belongs."""
        output = CURRENT.get()
        if output is None:
            return self._otherwise.write(text)
        if text != "\n":  # `print` ends a line with a call of its own
            output.write(text)
        return len(text)

    def flush(self) -> None:
        """Let nothing wait."""
        self._otherwise.flush()
