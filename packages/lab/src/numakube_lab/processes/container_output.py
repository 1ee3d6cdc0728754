"""What containers print, kept within bounds.

A container's log is that of its present run; that of the run before is kept beside it, and older
ones are gone, as on a node.

``GET .../pods/<name>/log``: what containers of the lab have printed. Containers that only exist
in the simulation have a log of one line that says so. Refusals are the kubelet's.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kube_lab_server import bad_request
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator
    from datetime import datetime
    from typing import TextIO

    from kube_lab_server import Json, LogOptions
    from numakube.kube import Clock
    from numakube_lab.processes.process_runtime import ProcessRuntime


MAX_BYTES: Final = 1 << 20
MAX_LINES: Final = 10_000


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line, and when it was printed."""

    number: int
    moment: datetime
    text: str


class ContainerOutput:
    """The lines that one run of a container has printed; the oldest go first.

    Attributes:
        closed: nothing more will come.
    """

    def __init__(
        self, clock: Clock, *, max_bytes: int = MAX_BYTES, max_lines: int = MAX_LINES
    ) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._lines: deque[OutputLine] = deque(maxlen=max_lines)
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
            self._lines.append(OutputLine(self._count, moment, line))
            self._count += 1
            self._bytes += len(line)
            while self._bytes > self._max_bytes and len(self._lines) > 1:
                self._drop()
        self._tell()

    def close(self) -> None:
        """Let those who follow come to an end."""
        self.closed = True
        self._tell()

    def lines(self, *, since: int = 0) -> Iterator[OutputLine]:
        """Return the lines that are kept, from number *since* on."""
        return (line for line in list(self._lines) if line.number >= since)

    async def follow(self, *, since: int = 0) -> AsyncGenerator[OutputLine, None]:
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


CURRENT: ContextVar[ContainerOutput | None] = ContextVar("container_output", default=None)
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


_STATUSES: Final = ("containerStatuses", "initContainerStatuses")


class ContainerLogs:
    """Keeps nothing itself: it reads what the runtime has."""

    def __init__(self, runtime: ProcessRuntime, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock

    def open_log(self, pod: Json, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """Return the output of a container of *pod*.

        Raises:
            Refusal: it has not run yet.
        """
        state = _state(pod, options)
        process = self._runtime.process(pod["metadata"]["uid"], options.container)
        if process is None:
            return _cut(_simulated(pod, state, options), options)
        output = process.output
        if options.previous and process.run.started is not None:
            output = process.previous
        since = self._since(options)
        return _cut(_once(()) if output is None else _read(output, options, since), options)

    def _since(self, options: LogOptions) -> datetime | None:
        if options.since_seconds is not None:
            return self._clock.now() - timedelta(seconds=options.since_seconds)
        return None if options.since_time is None else parse_time(options.since_time)


async def _read(
    output: ContainerOutput, options: LogOptions, since: datetime | None
) -> AsyncGenerator[bytes, None]:
    """Give the lines that are wanted."""
    kept = [line for line in output.lines() if since is None or line.moment >= since]
    if options.tail_lines is not None:
        kept = kept[len(kept) - min(len(kept), options.tail_lines) :]
    following = 1 + max((line.number for line in output.lines()), default=-1)
    for line in kept:
        yield _rendered(line.moment, line.text, options)
    if options.follow:
        async with contextlib.aclosing(output.follow(since=following)) as lines:
            async for line in lines:
                yield _rendered(line.moment, line.text, options)


async def _cut(
    chunks: AsyncGenerator[bytes, None], options: LogOptions
) -> AsyncGenerator[bytes, None]:
    """Give no more bytes than are wanted."""
    left = options.limit_bytes
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            yield chunk[:left]
            left = None if left is None else left - len(chunk)
            if left is not None and left <= 0:
                return


async def _once(chunks: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk


def _simulated(pod: Json, state: Json, options: LogOptions) -> AsyncGenerator[bytes, None]:
    every = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
    images = {entry["name"]: entry["image"] for entry in every}
    text = f"simulated by the lab: {images.get(options.container)} does not really run"
    if options.tail_lines == 0:
        return _once(())
    return _once((_rendered(parse_time(state["startedAt"]), text, options),))


def _rendered(moment: datetime, text: str, options: LogOptions) -> bytes:
    stamp = f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z " if options.timestamps else ""
    return f"{stamp}{text}\n".encode()


def _state(pod: Json, options: LogOptions) -> Json:
    """Return the state of the run whose output is wanted, as a kubelet chooses it."""
    container, name = options.container, pod["metadata"]["name"]
    status = _status(pod, container)
    if status is None:
        raise bad_request(f'container "{container}" in pod "{name}" is not available')
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    if options.previous:
        if last is None:
            message = f'previous terminated container "{container}" in pod "{name}" not found'
            raise bad_request(message)
        return dict(last)
    found = state.get("running") or state.get("terminated") or last
    if found is None:
        reason = (state.get("waiting") or {}).get("reason", "")
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    return dict(found)


def _status(pod: Json, container: str) -> Json | None:
    status = pod.get("status") or {}
    for kind in _STATUSES:
        for entry in status.get(kind) or ():
            if entry["name"] == container:
                return dict(entry)
    return None
