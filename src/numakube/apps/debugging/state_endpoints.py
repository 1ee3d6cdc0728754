"""A scheduler's state over HTTP: beliefs and reservations, recorded attempts, and a second look.

GET /debug/cache[?node=NAME]         each node: report, fingerprints, differences, zones
GET /debug/reservations[?node=NAME]  each pod that a node's report does not contain yet
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from aiohttp import web

from numakube.api.pod import has_ended
from numakube.apps.debugging.documents import JSON, json_answer
from numakube.apps.node_reports import read_topology
from numakube.apps.node_state_metrics import state_of
from numakube.errors import NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.resource_types import ObjectKey
from numakube.scheduling.numa.caches.debug_view import Examination, examine, mode_of
from numakube.scheduling.numa.caches.known_pods import scheduled_at, stage_of
from numakube.scheduling.recorder import flight_recorder as notes
from numakube.scheduling.recorder.flight_documents import (
    flight_document,
    summary_document,
    use_document,
)
from numakube.scheduling.recorder.flight_documents import node_of as last_node_of
from numakube.values.resources import quantities_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.flight_recording import Recording
    from numakube.apps.host.endpoint_access import Access
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock
    from numakube.scheduling.recorder.flight_recorder import Flight
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief

    Document = dict[str, Any]


_AT_A_TIME: Final = 50
"""Nodes written before others get their turn."""


class Caches:
    """The endpoints of one mirror."""

    def __init__(
        self, mirror: Mirror, recording: Recording, speaker: Speaker, clock: Clock
    ) -> None:
        self._mirror = mirror
        self._recording = recording
        self._speaker = speaker
        self._clock = clock

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the routes, open only to those who may."""
        return [
            web.get("/debug/cache", access.guarded(self._cache)),
            web.get("/debug/reservations", access.guarded(self._reservations)),
        ]

    def document(self, node: NodeInfo) -> Document:
        """Return what is believed of one node."""
        shown: Document = {
            "name": node.name,
            "state": state_of(node.numa).value,
            "pods": len(node.pods),
            "requested": quantities_of(node.requested),
            "allocatable": quantities_of(node.allocatable),
            "numa": None,
        }
        if node.numa is not None and node.numa.topology is not None:
            shown["numa"] = self._numa(node, node.numa)
        return shown

    def _chosen(self, request: web.Request) -> list[NodeInfo]:
        wanted = request.query.get("node")
        nodes = [node for node in self._mirror.cluster.nodes() if wanted in (None, node.name)]
        if wanted is not None and not nodes:
            raise web.HTTPNotFound(text=f"there is no node {wanted}")
        return nodes

    async def _cache(self, request: web.Request) -> web.StreamResponse:
        nodes = self._chosen(request)
        response = web.StreamResponse(headers={"Content-Type": JSON})
        await response.prepare(request)
        mode = mode_of(self._mirror.cache)
        unusable = self._unusable()
        trouble = self._mirror.topology_trouble()
        document = self._speaker.document(
            "NodeCacheList", mode=mode, topologyTrouble=trouble, unusable=unusable
        )
        head = msgspec.json.encode(document)
        await response.write(head[:-1] + b',"nodes":[')
        for first in range(0, len(nodes), _AT_A_TIME):
            part = nodes[first : first + _AT_A_TIME]
            texts = [msgspec.json.encode(self.document(node)) for node in part]
            await response.write((b"," if first else b"") + b",".join(texts))
            await asyncio.sleep(0)
        await response.write(b"]}")
        await response.write_eof()
        return response

    def _unusable(self) -> list[Document]:
        """Return the objects that count for nothing because of what they say."""
        aside = self._mirror.cluster.aside.items()
        reasons = {f"{part} {name}": reason for (name, part), reason in aside}
        reasons |= self._mirror.unusable.reasons
        return [{"object": name, "reason": reason} for name, reason in sorted(reasons.items())]

    async def _reservations(self, request: web.Request) -> web.Response:
        items = [item for node in self._chosen(request) for item in self._held_on(node)]
        return json_answer(self._speaker.document("ReservationList", items=items))

    def _numa(self, node: NodeInfo, belief: NumaBelief) -> Document:
        topology = belief.topology
        assert topology is not None  # noqa: S101 - the caller has looked
        found = examine(belief, node.pods.values())
        came = self._mirror.reported_at.get(node.name)
        latest = self._mirror.reports.get(ObjectKey("", node.name))
        prints = found.fingerprints
        return {
            "policy": topology.policy.value,
            "scope": topology.scope.value,
            "producer": topology.producer.value,
            "exact": topology.report is not None,
            "whyInexact": topology.why_inexact,
            "orphaned": topology.orphaned,
            "blocked": belief.blocked,
            "stale": topology.stale_reason or "",
            "problems": list(topology.problems),
            "report": {
                "resourceVersion": topology.resource_version,
                "latestResourceVersion": latest.metadata.resource_version if latest else "",
                "generation": topology.generation,
                "serial": found.serial,
                "ageSeconds": None if came is None else round(self._clock.monotonic() - came, 3),
            },
            "fingerprint": {
                "reported": prints.reported,
                "method": prints.method,
                "computed": prints.computed,
                "matched": prints.matched,
            },
            "podsOnlyHere": [pod.key for pod in found.only_here],
            "podsOnlyInReport": list(found.only_reported),
            "reservations": list(self._reserved(node, found)),
            "zones": [
                {
                    "id": zone.id,
                    "available": quantities_of(free),
                    "reported": quantities_of(zone.available),
                    "allocatable": quantities_of(zone.allocatable),
                }
                for zone, free in zip(topology.zones, belief.available, strict=True)
            ],
        }

    def _held_on(self, node: NodeInfo) -> Iterator[Document]:
        if node.numa is not None:
            found = examine(node.numa, node.pods.values())
            for item in self._reserved(node, found):
                yield {"node": node.name, **item}

    def _reserved(self, node: NodeInfo, found: Examination) -> Iterator[Document]:
        for uid, held in found.held.items():
            pod = node.pods.get(uid)
            yield {
                "pod": pod.key if pod is not None else "",
                "uid": uid,
                "stage": _stage(pod, assumed=self._mirror.is_assumed(uid)),
                "since": self._since(uid, pod),
                "held": use_document(held),
            }

    def _since(self, uid: str, pod: PodInfo | None) -> str | None:
        """Return when a pod was booked, if we did it; else when it was bound."""
        flight = self._recording.recorder.get(uid)
        last = None if flight is None else flight.last
        for note in reversed(last.notes if last is not None else ()):
            if isinstance(note, notes.ReservedNote):
                return self._recording.wall().text(note.at)
        return (scheduled_at(pod.pod) or None) if pod is not None else None


def _stage(pod: PodInfo | None, *, assumed: bool) -> str:
    if pod is None:
        return "unknown"
    return "reserved" if assumed else stage_of(pod.pod).name.lower()


# What the flight recorder knows, over HTTP.
#
# GET /debug/attempts[?full=true][&namespace=NAME][&node=NAME][&limit=N]   all pods, newest first
# GET /debug/pods/NAMESPACE/NAME                                           one pod in full
#
# The whole recorder can be tens of megabytes: it is written pod by pod, and others get their turn
# in between.


_ATTEMPTS_AT_A_TIME: Final = 20
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
        for first in range(0, len(chosen), _ATTEMPTS_AT_A_TIME):
            part = chosen[first : first + _ATTEMPTS_AT_A_TIME]
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


# Reads a node's report again on request.
#
# POST /debug/resync[?node=NAME]
#
# The node's report is fetched from the API server and believed as it is, whatever doubts there
# were; pods that are on their way stay booked. The pods of the node are compared with the server's,
# and told if they differ: our copy of them is kept by a watch, which catches up by itself.


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


class Resync:
    """The endpoint of one mirror."""

    def __init__(self, client: Client, mirror: Mirror, caches: Caches, speaker: Speaker) -> None:
        self._client = client
        self._mirror = mirror
        self._caches = caches
        self._speaker = speaker

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the route, open only to those who may."""
        return [web.post("/debug/resync", access.guarded(self._resync))]

    async def _resync(self, request: web.Request) -> web.Response:
        wanted = request.query.get("node")
        names = [node.name for node in self._mirror.cluster.nodes() if wanted in (None, node.name)]
        if wanted is not None and not names:
            raise web.HTTPNotFound(text=f"there is no node {wanted}")
        try:
            items = [await self._node(name) for name in names]
        except NumakubeError as error:
            raise web.HTTPServiceUnavailable(text=f"the API server: {error}") from None
        return json_answer(self._speaker.document("ResyncList", items=items))

    async def _node(self, name: str) -> Document:
        before = self._state(name)
        report = await read_topology(self._client, name) or self._of_another_kind(name)
        pods = await self._client.list(PODS, fields=f"spec.nodeName={name}")
        mirror, cache = self._mirror, self._mirror.cache
        mirror.apply(cache.remove_report(name) if report is None else cache.set_report(report))
        mirror.apply(cache.trust(name))
        after = self._state(name)
        _log.info("resynced", node=name, before=before["blocked"], after=after["blocked"])
        alive = {
            pod.metadata.uid: f"{pod.metadata.namespace}/{pod.metadata.name}"
            for pod in pods.items
            if not has_ended(pod)
        }
        node = mirror.cluster.node(name)
        known = {} if node is None else {uid: pod.key for uid, pod in node.pods.items()}
        return {
            "node": name,
            "changed": before != after,
            "before": before,
            "after": after,
            "podsOnlyHere": sorted(
                key for uid, key in known.items() if uid not in alive and not mirror.is_assumed(uid)
            ),
            "podsOnlyOnServer": sorted(key for uid, key in alive.items() if uid not in known),
        }

    def _of_another_kind(self, name: str) -> NodeResourceTopology | None:
        """Return the report of a node without a NodeResourceTopology, by what is watched."""
        key = ObjectKey("", name)
        known = key in self._mirror.topologies.store
        return None if known else self._mirror.reports.get(key)

    def _state(self, name: str) -> Document:
        node = self._mirror.cluster.node(name)
        shown = {} if node is None else self._caches.document(node)
        numa = shown.get("numa") or {}
        return {
            "state": shown.get("state", "unknown"),
            "blocked": numa.get("blocked", ""),
            "resourceVersion": (numa.get("report") or {}).get("resourceVersion", ""),
            "available": [zone["available"] for zone in numa.get("zones") or ()],
            "reservations": [reservation["pod"] for reservation in numa.get("reservations") or ()],
        }
