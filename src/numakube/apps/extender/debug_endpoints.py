"""The debugging endpoints of the extender: all that a program with a mirror and a recorder has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.apps.debugging.attempts_endpoint import Attempts, node_of
from numakube.apps.debugging.caches_endpoint import Caches
from numakube.apps.debugging.fit_endpoint import Fit
from numakube.apps.debugging.loglevel_endpoint import Levels
from numakube.apps.debugging.resync_endpoint import Resync
from numakube.apps.host.endpoint_access import Access
from numakube.scheduling.plugins.gang_scheduling.gang_members import GangMembers

if TYPE_CHECKING:
    from aiohttp import web

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.debugging.documents import Speaker
    from numakube.apps.flight_recording import Recording
    from numakube.kube.client import Client
    from numakube.scheduling.assembly import Engine


class Debugging:
    """The endpoints."""

    def __init__(
        self,
        client: Client,
        mirror: Mirror,
        recording: Recording,
        speaker: Speaker,
        engine: Engine,
    ) -> None:
        self._client = client
        caches = Caches(mirror, recording, speaker, client.clock)
        self._parts = (
            Attempts(recording, speaker, lambda key: node_of(mirror, key)),
            caches,
            Resync(client, mirror, caches, speaker),
            Levels(speaker, client.clock),
            Fit(engine, speaker, None, GangMembers(), clock=client.clock),
        )

    def routes(self, host: str) -> list[web.RouteDef]:
        """Return the routes of a server on *host*, open only to those who may."""
        access = Access(self._client, host=host)
        return [route for part in self._parts for route in part.routes(access)]
