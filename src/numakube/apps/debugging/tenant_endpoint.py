"""Explanations for people who may read a pod, but not the cluster.

GET /explain/NAMESPACE/NAME   why a pod is nowhere, for users who may get it (`Access.for_readers`)

The scheduler decides once more, in a thread and one pod at a time, and tells what
`numakube.insight.explain.tenant_view` lets through. Tenants can ask as often as they like, so an
answer stands for a while, and what would help is only looked for in small clusters.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from numakube.apps.debugging.documents import json_answer
from numakube.kube.resource_types import ObjectKey

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.apps.debugging.annex_endpoints import DecidingProgram
    from numakube.apps.host.endpoint_access import Access
    from numakube.kube.client import Client

REMEMBERED_SECONDS: Final = 5.0
UNASKED_NODES: Final = 100
"""In clusters of so many nodes it is looked for what would help."""
_MOST_REMEMBERED: Final = 1000


class Tenants:
    """The endpoint of one scheduler."""

    def __init__(self, client: Client, program: DecidingProgram) -> None:
        self._client = client
        self._program = program
        self._one_at_a_time = asyncio.Lock()
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the route, open to those who may read the pod."""
        return [web.get("/explain/{namespace}/{name}", access.for_readers(self._answer))]

    async def _answer(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        pod = self._program.mirror.pods.store.get(ObjectKey(namespace, name))
        if pod is None:
            raise web.HTTPNotFound(text=f"there is no pod {namespace}/{name}")
        async with self._one_at_a_time:
            return json_answer(await self._document(pod))

    async def _document(self, pod: Pod) -> dict[str, Any]:
        now = self._client.clock.monotonic()
        known = self._known.get(pod.metadata.uid)
        if known is None or known[0] < now:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            known = self._known[pod.metadata.uid] = (
                now + REMEMBERED_SECONDS,
                await self._explained(pod),
            )
        return known[1]

    async def _explained(self, pod: Pod) -> dict[str, Any]:
        # Explaining brings all plugins along; most schedulers are never asked.
        from numakube.insight.explain.tenant_view import tenant_document
        from numakube.insight.explain.workload_explanation import explained

        program = self._program
        few = len(program.mirror.nodes.store) <= UNASKED_NODES
        facts = program.facts(self._client)
        found = await asyncio.to_thread(explained, facts, program.config, pod, changes=few)
        return tenant_document(found)
