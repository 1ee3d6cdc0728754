"""A cluster to test on: what tests may expect of it, and the lab as one.

The protocol is apart from the lab, so that the same tests can run on another API server.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from numakube.kube.client import Client
from numakube.kube.clock import Clock
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import UserConfig, load_config
from numakube.kube.log_lines import ensure_configured
from numakube_lab.cluster_parts import Crew
from numakube_lab.exporters.nrt_definition import install_definition
from numakube_lab.faults import Faults
from numakube_lab.lab_cluster import Lab, LabOptions
from numakube_lab.nodes.node_plan import NodePlan
from numakube_lab.run_folder import RunDir


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """What a cluster is to be.

    Attributes:
        plans: its nodes.
        exporters: whether every node has an exporter.
        rbac: whether rights count; on a real server they always do.
        enforcers: whether every node of a lab has the enforcer.
        default_scheduler: whether pods that name no scheduler are scheduled.
    """

    plans: tuple[NodePlan, ...] = ()
    exporters: bool = True
    rbac: bool = False
    enforcers: bool = False
    default_scheduler: bool = True


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
        """Return a client over HTTP: of the administrator, or of the user with *token*."""
        ...

    async def drop_watches(self) -> None:
        """Break off all watches of those who use the kubeconfig."""
        ...

    async def expire_history(self) -> None:
        """Make the server forget the past, so that watches from there are answered with 410."""
        ...


Opener: TypeAlias = Callable[[SiteOptions], AbstractAsyncContextManager[Site]]
"""What opens a cluster for the length of a context."""


@dataclass(frozen=True, slots=True)
class LabSite:
    """A lab of its own for every test."""

    lab: Lab
    directory: RunDir

    @property
    def client(self) -> Client:
        """A client inside of the lab."""
        return self.lab.client

    @property
    def crew(self) -> Crew:
        """Who lives there."""
        return self.lab.crew

    @property
    def faults(self) -> Faults:
        """The faults of the lab's server."""
        return self.lab.faults

    @property
    def folder(self) -> Path:
        """The folder of the lab."""
        return self.directory.path

    @property
    def kubeconfig(self) -> Path:
        """The lab's kubeconfig."""
        return self.directory.kubeconfig

    def connect(self, *, clock: Clock | None = None, token: str = "") -> Client:
        """Return a client over HTTP."""
        config = load_config(kubeconfig=self.kubeconfig, env={})
        if token:
            config = replace(config, user=UserConfig(token=token))
        return connect(config, clock=clock, rate=0)

    async def drop_watches(self) -> None:
        """Break off all watches."""
        await self.lab.drop_watches()

    async def expire_history(self) -> None:
        """Compact the lab's store."""
        await self.lab.expire_history()


@contextlib.asynccontextmanager
async def lab_site(options: SiteOptions) -> AsyncIterator[LabSite]:
    """Run a lab."""
    ensure_configured()
    # A program that is being ended in a pod may still write a file there.
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as path:
        folder = RunDir(Path(path) / "test")
        folder.create()
        told = LabOptions(
            name="test",
            plans=options.plans,
            exporters=options.exporters,
            rbac=options.rbac,
            enforcers=options.enforcers,
            default_scheduler=options.default_scheduler,
        )
        async with Lab(told, folder) as lab:
            await install_definition(lab.client)
            yield LabSite(lab, folder)
