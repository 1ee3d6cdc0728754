"""What all requests share: the store, the resources, the clock and the source of chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube_lab.api.catalogue.openapi import OpenApi
from numakube_lab.api.store.store import Key
from numakube_lab.api.verbs.watching import Feeds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from random import Random

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube_lab.api.access.authentication import Authenticator
    from numakube_lab.api.access.authorization import Authorizer
    from numakube_lab.api.catalogue.resources import Resource
    from numakube_lab.api.catalogue.rules import Rules
    from numakube_lab.api.catalogue.served_resources import Registry
    from numakube_lab.api.store.store import Store, Stored
    from numakube_lab.api.subresources.pod_logs import LogSource
    from numakube_lab.api.subresources.tokens import Signer
    from numakube_lab.api.verbs.admitting import Admission
    from numakube_lab.kinds import GVK


async def _nothing_to_wait_for() -> None:
    """Changes that are kept in memory are where they will ever be."""


@dataclass
class State:
    """The parts of a server that handlers work with."""

    store: Store
    registry: Registry
    admission: Admission
    authenticator: Authenticator
    authorizer: Authorizer
    signer: Signer
    now: Callable[[], datetime]
    rng: Random
    address: str = ""
    openapi: OpenApi = field(default_factory=OpenApi)
    feeds: Feeds = field(default_factory=Feeds)
    logs: list[LogSource] = field(default_factory=list)
    """Who keeps the output of containers; asked in turn."""
    kubelet_configs: list[Callable[[str], KubeletConfiguration | None]] = field(
        default_factory=list
    )
    """Who knows with which configuration a node's kubelet runs; asked in turn."""
    pod_servers: list[Callable[[str, int], str]] = field(default_factory=list)
    """Who knows at which URL a port of a pod, given by its uid, is served; asked in turn."""
    settled: Callable[[], Awaitable[None]] = _nothing_to_wait_for
    """Waits until every change so far is where it survives a restart, if there is such a place."""
    after_request: list[Callable[[], None]] = field(default_factory=list)
    """Called after each request, for what follows from it."""

    def rules_of(self, kind: GVK) -> Rules:
        """Return the rules of a built-in kind, served by a path of its own or not."""
        return self.registry.rules_of(kind)

    def find(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """Return the stored object of *resource* with that name."""
        return self.store.get(Key(resource.shelf, namespace, name))
