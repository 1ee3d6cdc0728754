"""``GET .../pods/<name>/log``: what containers of the lab have printed.

Containers that only exist in the simulation have a log of one line that says so. Refusals are the
kubelet's.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from numakube.values.times import parse_time
from numakube_lab.api.wire.refusals import bad_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from datetime import datetime

    from numakube.kube.clock import Clock
    from numakube_lab.api.handling.server_state import LogOptions
    from numakube_lab.kinds import Json
    from numakube_lab.processes.container_output import Output
    from numakube_lab.processes.process_runtime import ProcessRuntime

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
    output: Output, options: LogOptions, since: datetime | None
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
    images = {one["name"]: one["image"] for one in every}
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
        for one in status.get(kind) or ():
            if one["name"] == container:
                return dict(one)
    return None
