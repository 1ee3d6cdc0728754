"""Reads a node's report again on request.

POST /debug/resync[?node=NAME]

The node's report is fetched from the API server and believed as it is, whatever doubts there were;
pods that are on their way stay booked. The pods of the node are compared with the server's, and
told if they differ: our copy of them is kept by a watch, which catches up by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from aiohttp import web

from numakube.api.pod import has_ended
from numakube.apps.debugging.documents import json_answer
from numakube.apps.node_reports import read_topology
from numakube.errors import NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.resource_types import ObjectKey

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.debugging.caches_endpoint import Caches
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.host.endpoint_access import Access
    from numakube.kube.client import Client

    Document = dict[str, Any]

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
        names = [one.name for one in self._mirror.cluster.nodes() if wanted in (None, one.name)]
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
            "reservations": [one["pod"] for one in numa.get("reservations") or ()],
        }
