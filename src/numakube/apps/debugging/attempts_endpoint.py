"""What the flight recorder knows, over HTTP.

GET /debug/attempts[?full=true][&namespace=NAME][&node=NAME][&limit=N]   all pods, newest first
GET /debug/pods/NAMESPACE/NAME                                           one pod in full

The whole recorder can be tens of megabytes: it is written pod by pod, and others get their turn in
between.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from numakube.apps.debugging.documents import JSON, json_answer
from numakube.scheduling.recorder.flight_documents import flight_document, summary_document
from numakube.scheduling.recorder.flight_documents import node_of as last_node_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.flight_recording import Recording
    from numakube.apps.host.endpoint_access import Access
    from numakube.scheduling.recorder.flight_recorder import Flight

    Document = dict[str, Any]

_AT_A_TIME: Final = 20
_DIGITS: Final = 9
"""A longer number is more than there are."""
"""Pods written before others get their turn: a millisecond or two."""


class Attempts:
    """The endpoints of one recorder."""

    def __init__(
        self,
        recording: Recording,
        speaker: Speaker,
        where: Callable[[str], Document | None],
    ) -> None:
        """Prepare the endpoints; *where* tells where a pod waits or is, if it does or is."""
        self._recording = recording
        self._speaker = speaker
        self._where = where

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the routes, open only to those who may."""
        return [
            web.get("/debug/attempts", access.guarded(self._list)),
            web.get("/debug/pods/{namespace}/{name}", access.guarded(self._pod)),
        ]

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

    async def _pod(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        key = f"{namespace}/{name}"
        where, flights = self._where(key), self.of_pod(namespace, name)
        if where is None and not flights:
            raise web.HTTPNotFound(text=f"there is no pod {key} that waits, runs or is remembered")
        document = self._speaker.document(
            "PodAttempts", pod=key, recorder=self.head(), flights=flights
        )
        return json_answer({**document, **(where or {})})

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
        if text and not (text.isascii() and text.isdecimal()):
            raise web.HTTPBadRequest(text=f"limit: {text!r} is not a number")
        limit = int(text) if 0 < len(text) <= _DIGITS else None
        wanted = (
            flight
            for flight in self._recording.recorder
            if namespace in (None, flight.subject.namespace)
            and node in (None, last_node_of(flight))
        )
        return list(islice(wanted, limit))


def node_of(mirror: Mirror, key: str) -> Document | None:
    """Return the node that a pod is counted on; ``None`` if on none."""
    for node in mirror.cluster.nodes():
        for pod in node.pods.values():
            if pod.key == key:
                return {"node": node.name, "assumed": mirror.is_assumed(pod.uid)}
    return None
