"""``POST /v1/fit`` of a scheduler in the same process: its handler, without sockets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web
from tests.worlds.virtual_lab import Lab, RunningScheduler

from numakube.apps.debugging.documents import Speaker
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Handler
from numakube_planning.fit_endpoint import FitEndpoint


@dataclass(frozen=True, slots=True)
class _Question:
    """As much of a request as the handler reads."""

    body: bytes

    async def read(self) -> bytes:
        """Return what was sent."""
        return self.body


class _Open:
    """Lets everybody in."""

    def guarded(self, handler: Handler) -> Handler:
        """Return the same handler."""
        return handler


async def asked_to_fit(
    lab: Lab, running: RunningScheduler, question: dict[str, Any]
) -> dict[str, Any]:
    """Return what a scheduler answers."""
    process = running.process
    if process.identity not in lab.services:
        scheduler = process.parts
        speaker = Speaker("scheduler", process.identity, lambda: process.leading)
        service = FitEndpoint(
            scheduler.engine, speaker, scheduler.holds, scheduler.members, clock=lab.clock
        )
        (route,) = service.routes(cast("Access", _Open()))
        lab.services[process.identity] = cast("Handler", route.handler)
    request = cast("web.Request", _Question(json.dumps(question).encode()))
    answer = await lab.services[process.identity](request)
    assert isinstance(answer, web.Response)
    told: dict[str, Any] = json.loads(cast("bytes", answer.body))
    return told
