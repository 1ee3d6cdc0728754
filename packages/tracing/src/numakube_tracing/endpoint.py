"""Follows what a program records, and hands finished attempts to OpenTelemetry.

Nothing is imported of OpenTelemetry, and nothing followed, unless the environment names a
collector. The recorder bounds what is kept of pods, and the SDK's queue what waits to be sent: a
collector that is slow or gone costs spans and never scheduling.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import web

from numakube.apps.debugging.annex_endpoints import Endpoints
from numakube.values.safe_text import reason_of
from numakube_tracing.attempt_spans import is_over, spans_of
from numakube_tracing.collector import NAMES_A_COLLECTOR, is_wanted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from numakube.apps import Recording
    from numakube.apps.debugging.annex_endpoints import DecidingProgram, ServingProgram
    from numakube.apps.host import Access
    from numakube.kube.clock import Clock
    from numakube.scheduling.recorder import Flight, FlightSubject
    from numakube_tracing.attempt_spans import Span
    from numakube_tracing.collector import SpanExporter

_LOOK_SECONDS: Final = 1.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def make(program: ServingProgram) -> Endpoints:
    """Return what tracing adds to the server of *program*."""
    return Traces(program, env=os.environ)


@dataclass(frozen=True, slots=True)
class Finished:
    """An attempt of which nothing more is to come."""

    subject: FlightSubject
    span: Span


class Follower:
    """Finds attempts that are over, each once."""

    def __init__(self, recording: Recording, clock: Clock) -> None:
        self._recording = recording
        self._clock = clock
        self._done: dict[str, int] = {}
        """The last attempt of each pod that was handed on."""
        self._open: set[str] = set()
        self._seen_at = clock.monotonic()

    def finished(self) -> Iterator[Finished]:
        """Yield what has ended since the last call.

        Flights that nothing has happened to since then are not looked at, unless an attempt of
        theirs was not over: a recorder keeps tens of thousands.
        """
        recorder, now = self._recording.recorder, self._clock.monotonic()
        changed = {flight.subject.uid for flight in self._changed()}
        self._seen_at = now
        still_open = set()
        for uid in changed | self._open:
            flight = recorder.get(uid)
            if flight is None:
                continue
            for attempt in flight.attempts:
                if attempt.number <= self._done.get(uid, 0):
                    continue
                if attempt is flight.last and not is_over(attempt, now):
                    still_open.add(uid)
                    continue
                self._done[uid] = attempt.number
                if attempt.notes:
                    yield Finished(flight.subject, spans_of(flight.subject, attempt))
        self._open = still_open
        if len(self._done) > 2 * len(recorder) + 1000:
            self._done = {uid: number for uid, number in self._done.items() if uid in recorder}

    def _changed(self) -> Iterator[Flight]:
        """Yield flights with news since the last look; the recorder has the latest first."""
        for flight in self._recording.recorder:
            last = flight.last
            if last is None:
                continue
            news = last.notes[-1].at if last.notes else last.queued.at
            # Clocks of notes are read before they are written down, some a little later.
            if news < self._seen_at - _LOOK_SECONDS and flight.subject.uid not in self._open:
                return
            yield flight


class Traces(Endpoints):
    """Exports the ways of pods while its program serves."""

    def __init__(
        self,
        program: ServingProgram,
        *,
        env: Mapping[str, str],
        exporter: Callable[[ServingProgram], SpanExporter] | None = None,
    ) -> None:
        self._program = program
        self._wanted = is_wanted(env) and program.decides is not None
        self._make = exporter or _exporter
        self._exporter: SpanExporter | None = None
        self._exported = 0

    def routes(self, access: Access) -> Iterable[web.RouteDef]:
        """Return where one can ask whether traces are exported."""
        return (web.get("/debug/traces", access.guarded(self._answer)),)

    async def _answer(self, _: web.Request) -> web.Response:
        return web.json_response(self.document())

    def document(self) -> dict[str, Any]:
        """Return what ``/debug/traces`` says."""
        if not self._wanted:
            return {"kind": "Traces", "exported": None, "to": f"set {NAMES_A_COLLECTOR[0]}"}
        to = self._exporter.endpoint if self._exporter is not None else ""
        return {"kind": "Traces", "exported": self._exported, "to": to}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Follow and export until the program stops serving; send what is left at the end."""
        decides = self._program.decides
        if not self._wanted or decides is None:
            yield
            return
        # Imported in a thread: the SDK takes a few hundred milliseconds.
        exporter = self._exporter = await asyncio.to_thread(self._make, self._program)
        _log.info("traces_exported", to=exporter.endpoint)
        task = asyncio.create_task(self._follow(decides, exporter))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await asyncio.to_thread(exporter.close)

    async def _follow(self, decides: DecidingProgram, exporter: SpanExporter) -> None:
        clock = self._program.client.clock
        follower = Follower(decides.recording, clock)
        while True:
            try:
                self._export(follower, decides.recording, exporter)
            except Exception as error:
                # Who watches must not stumble for those who work.
                _log.error("traces_failed", error=reason_of(error), exc_info=error)
            await clock.sleep(_LOOK_SECONDS)

    def _export(self, follower: Follower, recording: Recording, exporter: SpanExporter) -> None:
        wall = recording.wall()
        offset = wall.now.timestamp() - wall.seconds
        for finished in follower.finished():
            exporter.export(finished.subject.uid, finished.span, offset)
            self._exported += 1


def _exporter(program: ServingProgram) -> SpanExporter:
    from numakube_tracing.otlp import OtlpExporter

    decides = program.decides
    return OtlpExporter(instance="" if decides is None else decides.speaker.identity)
