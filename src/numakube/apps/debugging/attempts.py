"""What the flight recorder knows, over HTTP.

GET /debug/attempts[?full=true][&namespace=NAME][&node=NAME][&limit=N]   all pods, newest first

The whole recorder can be tens of megabytes: it is written pod by pod, and others get their turn in
between. `Attempts.of_pod` is the part of ``/debug/pods`` that every program has.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from numakube.apps.debugging.documents import JSON
from numakube.scheduling.recorder.documents import flight_document, node_of, summary_document

if TYPE_CHECKING:
    from numakube.apps.access import Access
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.recording import Recording
    from numakube.scheduling.recorder.recorder import Flight

    Document = dict[str, Any]

_AT_A_TIME: Final = 20
"""Pods written before others get their turn: a millisecond or two."""


class Attempts:
    """The endpoint of one recorder."""

    def __init__(self, recording: Recording, speaker: Speaker) -> None:
        self._recording = recording
        self._speaker = speaker

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the route, open only to those who may."""
        return [web.get("/debug/attempts", access.guarded(self._list))]

    def of_pod(self, namespace: str, name: str) -> list[Document]:
        """Return what is kept of all pods that had that name, newest first."""
        wall = self._recording.wall()
        found = self._recording.recorder.called(namespace, name)
        return [flight_document(flight, wall) for flight in found]

    def head(self) -> Document:
        """Return how much is kept, and since when."""
        recorder, wall = self._recording.recorder, self._recording.wall()
        return {
            "recordingSince": wall.text(self._recording.since),
            "bytes": recorder.bytes,
            "limitBytes": recorder.limit_bytes,
            "pods": len(recorder),
            "podsDropped": recorder.evicted,
        }

    async def _list(self, request: web.Request) -> web.StreamResponse:
        chosen = self._chosen(request)
        full = request.query.get("full", "false") == "true"
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_compression()
        await response.prepare(request)
        document = self._speaker.document("PodAttemptsList", recorder=self.head())
        await response.write(msgspec.json.encode(document)[:-1] + b',"items":[')
        shown, wall = flight_document if full else summary_document, self._recording.wall()
        for first in range(0, len(chosen), _AT_A_TIME):
            part = chosen[first : first + _AT_A_TIME]
            texts = [msgspec.json.encode(shown(flight, wall)) for flight in part]
            await response.write((b"," if first else b"") + b",".join(texts))
            await asyncio.sleep(0)
        await response.write(b"]}")
        await response.write_eof()
        return response

    def _chosen(self, request: web.Request) -> list[Flight]:
        namespace, node = request.query.get("namespace"), request.query.get("node")
        text = request.query.get("limit", "")
        if text and not text.isdecimal():
            raise web.HTTPBadRequest(text=f"limit: {text!r} is not a number")
        wanted = (
            flight
            for flight in self._recording.recorder
            if namespace in (None, flight.subject.namespace) and node in (None, node_of(flight))
        )
        return list(islice(wanted, int(text) if text else None))
