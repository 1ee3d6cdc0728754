"""What a scheduler lets people see of itself, for debugging.

GET /configz                    the configuration in force
GET /debug/queue                every waiting pod, where it waits and why
GET /debug/cache[?node=NAME]    what is believed of each node
GET /debug/pods/NAMESPACE/NAME  one pod: its place in the queue, its last attempts in full
GET /debug/attempts             the last attempts of all pods (`numakube.apps.debugging.attempts`)
PUT /debug/flags/v[?for=60s]    the level of the log, by klog's verbosity or by name
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from numakube.apps.debugging.attempts import Attempts
from numakube.apps.debugging.documents import Speaker, json_answer
from numakube.apps.loglevel import LEVELS, SWITCH, level_of_verbosity
from numakube.errors import InvalidValue
from numakube.values.durations import SECOND, parse_duration
from numakube.values.resources import quantities_of

if TYPE_CHECKING:
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.access import Access
    from numakube.apps.scheduler.scheduler import Scheduler
    from numakube.kube.clock import Clock
    from numakube.scheduling.queue.entries import QueuedPod
    from numakube.scheduling.snapshot.nodes import NodeInfo

_LONGEST_BODY: Final = 32


class Endpoints:
    """The debugging endpoints of one scheduler."""

    def __init__(
        self,
        scheduler: Scheduler,
        config: KubeSchedulerConfiguration,
        clock: Clock,
        identity: str = "",
    ) -> None:
        self._scheduler = scheduler
        self._config = config
        self._clock = clock
        self._speaker = Speaker("scheduler", identity, lambda: scheduler.leads)
        self._attempts = Attempts(scheduler.recording, self._speaker)

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the routes, open only to those who may."""
        return [
            web.get("/configz", access.guarded(self._configz)),
            web.get("/debug/queue", access.guarded(self._queue)),
            web.get("/debug/cache", access.guarded(self._cache)),
            web.get("/debug/pods/{namespace}/{name}", access.guarded(self._pod)),
            web.put("/debug/flags/v", access.guarded(self._set_level)),
            *self._attempts.routes(access),
        ]

    async def _configz(self, _: web.Request) -> web.Response:
        return json_answer({"kubescheduler.config.k8s.io": self._config})

    async def _queue(self, _: web.Request) -> web.Response:
        queue = self._scheduler.queue
        now = self._clock.monotonic()
        counts = {place.value: count for place, count in queue.counts().items()}
        return json_answer({"counts": counts, "pods": [_entry(entry, now) for entry in queue]})

    async def _cache(self, request: web.Request) -> web.Response:
        cluster = self._scheduler.mirror.cluster
        wanted = request.query.get("node")
        nodes = [node for node in cluster.nodes() if wanted in (None, node.name)]
        if wanted is not None and not nodes:
            raise web.HTTPNotFound(text=f"there is no node {wanted}")
        return json_answer({"nodes": [_node(node) for node in nodes]})

    async def _pod(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        key = f"{namespace}/{name}"
        where = self._where(key)
        flights = self._attempts.of_pod(namespace, name)
        if where is None and not flights:
            raise web.HTTPNotFound(text=f"there is no pod {key} that waits, runs or is remembered")
        document = self._speaker.document(
            "PodAttempts", pod=key, recorder=self._attempts.head(), flights=flights
        )
        return json_answer({**document, **(where or {})})

    def _where(self, key: str) -> dict[str, Any] | None:
        """Return where a pod waits, or the node that it is on; ``None`` if neither."""
        now = self._clock.monotonic()
        for entry in self._scheduler.queue:
            if entry.pod.key == key:
                return {"queue": _entry(entry, now)}
        for node in self._scheduler.mirror.cluster.nodes():
            for pod in node.pods.values():
                if pod.key == key:
                    assumed = self._scheduler.mirror.is_assumed(pod.uid)
                    return {"node": node.name, "assumed": assumed}
        return None

    async def _set_level(self, request: web.Request) -> web.Response:
        word = (await request.text()).strip()[:_LONGEST_BODY]
        if word.isdecimal():
            level = level_of_verbosity(int(word))
        elif word in LEVELS:
            level = word
        else:
            names = ", ".join(LEVELS)
            raise web.HTTPBadRequest(text=f"{word!r} is neither a verbosity nor one of {names}")
        duration = request.query.get("for")
        if duration is None:
            SWITCH.set(level)
            return web.Response(text=f"logging from {level} on\n")
        try:
            seconds = parse_duration(duration) / SECOND
        except InvalidValue as error:
            raise web.HTTPBadRequest(text=f"for: {error}") from None
        if seconds <= 0:
            raise web.HTTPBadRequest(text=f"for: {duration} is not a while")
        SWITCH.set_for(level, seconds, self._clock)
        return web.Response(text=f"logging from {level} on for {duration}\n")


def _entry(entry: QueuedPod, now: float) -> dict[str, Any]:
    return {
        "pod": entry.pod.key,
        "uid": entry.uid,
        "place": entry.place.value,
        "priority": entry.pod.priority,
        "attempts": entry.attempts,
        "waitingSeconds": round(now - entry.added_at, 3),
        "retryInSeconds": round(max(entry.retry_at - now, 0.0), 3),
        "refusedBy": sorted(entry.refused_by),
        "gate": entry.gate.message,
        "message": entry.message,
    }


def _node(node: NodeInfo) -> dict[str, Any]:
    belief = node.numa
    shown: dict[str, Any] = {
        "name": node.name,
        "pods": len(node.pods),
        "requested": quantities_of(node.requested),
        "allocatable": quantities_of(node.allocatable),
    }
    topology = None if belief is None else belief.topology
    if belief is not None and topology is not None:
        shown["numa"] = {
            "policy": topology.policy,
            "scope": topology.scope,
            "exact": topology.report is not None,
            "blocked": belief.blocked,
            "zones": [
                {"id": zone.id, "available": quantities_of(free)}
                for zone, free in zip(topology.zones, belief.available, strict=True)
            ],
        }
    return shown
