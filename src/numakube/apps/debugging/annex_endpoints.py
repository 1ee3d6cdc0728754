"""Endpoints that annexes add to the servers of a scheduler, an extender and a lab.

An entry point in `numakube.annexes.Group.ENDPOINTS` is a function from a `ServingProgram` to
`Endpoints`. It reads what the program knows and changes nothing of it. Its routes have the access
rules of all endpoints here: each handler is wrapped by `Access.guarded` or `Access.for_readers`, or
by a gate of the annex's own that asks the same `Access`.

Where an annex of this repository is not installed, its paths answer with the extra that brings it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web

from numakube.annexes import Group, annexes, loaded, points
from numakube.scheduling.plugins.gang_scheduling import GangMembers
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.flight_recording import Recording
    from numakube.apps.host.endpoint_access import Access
    from numakube.apps.host.http_serving import Handler
    from numakube.insight.facts import ClusterFacts
    from numakube.kube.client import Client
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.scheduling_queue import QueuedPod
    from numakube.scheduling.snapshot.pods import PodInfo


class RoomHolder(Protocol):
    """Keeps room for pods that are still to come."""

    def missing(self, name: str, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Return those of *pods* that have not come yet and for which no room is kept."""
        ...

    def keep(self, name: str, seconds: float, places: Iterable[tuple[PodInfo, str]]) -> None:
        """Keep *places* besides those that are kept under that name."""
        ...

    def release(self, name: str) -> None:
        """Give back what is kept under that name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingProgram:
    """What a program knows that decides on pods: a scheduler or an extender.

    Attributes:
        mirror: the cluster as it sees it.
        engine: says whether pods would fit.
        speaker: who it is, for its documents.
        recording: what was decided.
        config: what it decides by, if it is a scheduler.
        queue: the pods that wait.
        gang_of: what ``/debug/queue`` tells of the gang of a pod.
        members: the members of gangs.
        holds: keeps room for pods that are still to come; an extender keeps none.
    """

    mirror: Mirror
    engine: Engine
    speaker: Speaker
    recording: Recording
    config: KubeSchedulerConfiguration | None = None
    queue: Iterable[QueuedPod] = ()
    gang_of: Callable[[PodInfo], Mapping[str, Any] | None] = lambda _: None
    members: GangMembers = field(default_factory=GangMembers)
    holds: RoomHolder | None = None

    def objects(self) -> ClusterObjects:
        """Return a copy of what decisions depend on besides nodes and pods."""
        copy = ClusterObjects()
        for kind in fields(ClusterObjects):
            mirrored = getattr(self.mirror.cluster.objects, kind.name)
            getattr(copy, kind.name).update(mirrored)
        return copy

    def facts(self, client: Client) -> ClusterFacts:
        """Return a copy of everything that it knows of the cluster, for the tools that explain."""
        # What explains brings much along; most programs are never asked.
        from numakube.insight.facts import ClusterFacts

        mirror = self.mirror
        return ClusterFacts(
            taken_at=format_time(client.clock.now()),
            nodes={node.metadata.name: node for node in mirror.nodes.store},
            pods=tuple(mirror.pods.store),
            topologies={report.metadata.name: report for report in mirror.reports},
            objects=self.objects(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingProgram:
    """A program to whose server endpoints are added.

    Attributes:
        client: the API server, which knows who may look.
        title: what it is called on pages.
        decides: what it knows besides the API server's objects, if it decides on pods.
    """

    client: Client
    title: str = "numakube"
    decides: DecidingProgram | None = None


class Endpoints(ABC):
    """What an annex adds to the server of one program.

    Attributes:
        called_by_tools: whether tools call it through the API server's proxy: then the extender has
            it on its health address too, where no client certificate is needed.
    """

    called_by_tools = False

    @abstractmethod
    def routes(self, access: Access) -> Iterable[web.RouteDef]:
        """Return the routes for a server whose callers *access* decides about."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Live while the routes are served; streams end here, for which the server would wait."""
        yield


class AnnexEndpoints:
    """The endpoints of all annexes in one program."""

    def __init__(self, program: ServingProgram) -> None:
        self._parts: list[Endpoints] = [make(program) for make in loaded(Group.ENDPOINTS).values()]

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return all routes, and those that say what is not installed."""
        found = [route for part in self._parts for route in part.routes(access)]
        return [*found, *_absent()]

    def routes_for_tools(self, access: Access) -> list[web.RouteDef]:
        """Return those that are called through the API server's proxy."""
        parts = [part for part in self._parts if part.called_by_tools]
        return [route for part in parts for route in part.routes(access)]

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Live while the routes are served: enter it after the server, so that it ends before."""
        async with AsyncExitStack() as stack:
            for part in self._parts:
                await stack.enter_async_context(part.served())
            yield


def _absent() -> Iterator[web.RouteDef]:
    """Yield a route for every path whose annex is not installed."""
    installed = points(Group.ENDPOINTS)
    for annex in annexes():
        for added in annex.endpoints:
            if added.name not in installed:
                answer = _saying(f"{added.path} needs: pip install 'numakube[{annex.extra}]'\n")
                yield web.route("*", added.path, answer)
                if added.path.endswith("/"):
                    yield web.route("*", added.path.rstrip("/"), answer)


def _saying(text: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=501, text=text)

    return answer
