"""What is believed of nodes and what is held for pods, over HTTP.

GET /debug/cache[?node=NAME]         each node: report, fingerprints, differences, zones
GET /debug/reservations[?node=NAME]  each pod that a node's report does not contain yet
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from numakube.apps.debugging.documents import JSON, json_answer
from numakube.apps.node_state_metrics import state_of
from numakube.kube.resource_types import ObjectKey
from numakube.scheduling.numa.caches.debug_view import Examination, examine, mode_of
from numakube.scheduling.numa.caches.known_pods import scheduled_at, stage_of
from numakube.scheduling.recorder import flight_notes as notes
from numakube.scheduling.recorder.flight_documents import use_document
from numakube.values.resources import quantities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.flight_recording import Recording
    from numakube.apps.host.endpoint_access import Access
    from numakube.kube.clock import Clock
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
        nodes = [one for one in self._mirror.cluster.nodes() if wanted in (None, one.name)]
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
            if isinstance(note, notes.Reserved):
                return self._recording.wall().text(note.at)
        return (scheduled_at(pod.pod) or None) if pod is not None else None


def _stage(pod: PodInfo | None, *, assumed: bool) -> str:
    if pod is None:
        return "unknown"
    return "reserved" if assumed else stage_of(pod.pod).name.lower()
