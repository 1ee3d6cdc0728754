"""What a scheduler lets people see of itself, for debugging.

GET /configz                    the configuration in force
GET /debug/queue                every waiting pod, where it waits and why
GET /debug/cache, /debug/reservations, POST /debug/resync
                                see `numakube.apps.debugging`
GET /debug/pods/NAMESPACE/NAME  one pod: its place in the queue, its last attempts in full
GET /debug/attempts             the last attempts of all pods
GET, PUT, DELETE /debug/flags/v what is logged
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from numakube.apps.debugging.documents import Speaker, json_answer
from numakube.apps.debugging.loglevel_endpoint import Levels
from numakube.apps.debugging.state_endpoints import Attempts, Caches, Resync, node_of
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.scheduling_queue import Place

if TYPE_CHECKING:
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.host.endpoint_access import Access
    from numakube.apps.scheduler.scheduler_parts import SchedulerParts
    from numakube.kube.client import Client
    from numakube.scheduling.scheduling_queue import QueuedPod


class SchedulerEndpoints:
    """The debugging endpoints of one scheduler."""

    def __init__(
        self,
        parts: SchedulerParts,
        config: KubeSchedulerConfiguration,
        client: Client,
        identity: str = "",
    ) -> None:
        self._parts = parts
        self._config = config
        self._clock = clock = client.clock
        self._speaker = Speaker("scheduler", identity, lambda: parts.queue.leads)
        self._attempts = Attempts(parts.recording, self._speaker, self._where)
        self._levels = Levels(self._speaker, clock)
        mirror = parts.mirror
        self._caches = Caches(mirror, parts.recording, self._speaker, clock)
        self._resync = Resync(client, mirror, self._caches, self._speaker)

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the routes, open only to those who may."""
        return [
            web.get("/configz", access.guarded(self._configz)),
            web.get("/debug/queue", access.guarded(self._queue)),
            *self._levels.routes(access),
            *self._attempts.routes(access),
            *self._caches.routes(access),
            *self._resync.routes(access),
        ]

    async def _configz(self, _: web.Request) -> web.Response:
        return json_answer({"kubescheduler.config.k8s.io": self._config})

    async def _queue(self, _: web.Request) -> web.Response:
        queue = self._parts.queue.waiting
        now = self._clock.monotonic()
        counts = {place.value: count for place, count in queue.counts().items()}
        pods = [self._entry(entry, now) for entry in queue]
        return json_answer(self._speaker.document("QueuedPodList", counts=counts, pods=pods))

    def _where(self, key: str) -> dict[str, Any] | None:
        """Return where a pod waits, or the node that it is on; ``None`` if neither."""
        now = self._clock.monotonic()
        for entry in self._parts.queue.waiting:
            if entry.pod.key == key:
                return {"queue": self._entry(entry, now)}
        return node_of(self._parts.mirror, key)

    def _entry(self, entry: QueuedPod, now: float) -> dict[str, Any]:
        return {
            "pod": entry.pod.key,
            "uid": entry.uid,
            "place": entry.place.value,
            "priority": entry.pod.priority,
            "attempts": entry.attempts,
            "waitingSeconds": round(now - entry.added_at, 3),
            "retryInSeconds": round(max(entry.retry_at - now, 0.0), 3),
            "refusedBy": sorted(entry.refused_by),
            "wokenBy": entry.woken_by,
            "wakesOn": self._wakes_on(entry),
            "gate": self._gate(entry),
            **({"gang": gang} if (gang := self._parts.gang_view.document(entry.pod)) else {}),
            "message": entry.message,
        }

    def _gate(self, entry: QueuedPod) -> str:
        """Return what keeps a pod from being tried; how many pods a gang has, changes meanwhile."""
        if entry.place is not Place.GATED:
            return ""
        return self._parts.gang_view.gate_of(entry).message or entry.gate.message

    def _wakes_on(self, entry: QueuedPod) -> list[str]:
        """Return the events that would have the pod tried again."""
        runtime = self._parts.engine.runtimes.get(entry.pod.scheduler_name)
        if runtime is None or entry.place is not Place.UNSCHEDULABLE:
            return []
        plugins = runtime.profile.plugins()
        kinds = EventKind(0)
        for name in entry.refused_by & plugins.keys():
            kinds |= plugins[name].wakes_on
        return kinds.names()
