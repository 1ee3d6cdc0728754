"""What a test may expect of a cluster, whoever serves its API."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from numakube.kube.client import Client
from numakube.kube.clock import Clock
from numakube_lab.cluster_parts import Crew
from numakube_lab.faults import Faults
from numakube_lab.nodes.plan import NodePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """What a cluster is to be.

    Attributes:
        plans: its nodes.
        exporters: whether every node has an exporter.
        rbac: whether rights count; on a real server they always do.
    """

    plans: tuple[NodePlan, ...] = ()
    exporters: bool = True
    rbac: bool = False


class Site(Protocol):
    """A cluster: an API server over HTTP, and the lab's nodes, controllers and exporters on it."""

    @property
    def client(self) -> Client:
        """A client with all rights that no fault befalls."""
        ...

    @property
    def crew(self) -> Crew:
        """The nodes, and who else lives there; no fault befalls them either."""
        ...

    @property
    def faults(self) -> Faults:
        """What befalls requests of clients that `connect` has returned."""
        ...

    @property
    def folder(self) -> Path:
        """A folder for files."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """How a program reaches the server, as its administrator."""
        ...

    def connect(self, *, clock: Clock | None = None, token: str = "") -> Client:
        """Return a client over HTTP: of the administrator, or of whoever has *token*."""
        ...

    async def drop_watches(self) -> None:
        """Break off all watches of those who use the kubeconfig."""
        ...

    async def expire_history(self) -> None:
        """Make the server forget the past, so that watches from there are answered with 410."""
        ...


Opener: TypeAlias = Callable[[SiteOptions], AbstractAsyncContextManager[Site]]
"""What opens a cluster for the length of a context."""
