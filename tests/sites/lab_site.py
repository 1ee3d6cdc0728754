"""The lab as a cluster to be tested on."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.sites.site import SiteOptions

from numakube.kube.client import Client
from numakube.kube.clock import Clock
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import UserConfig, load_config
from numakube_lab.cluster import Lab, LabOptions
from numakube_lab.cluster_parts import Crew
from numakube_lab.exporters.definition import install_definition
from numakube_lab.faults import Faults
from numakube_lab.rundir import RunDir


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
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "test")
        folder.create()
        told = LabOptions(
            name="test", plans=options.plans, exporters=options.exporters, rbac=options.rbac
        )
        async with Lab(told, folder) as lab:
            await install_definition(lab.client)
            yield LabSite(lab, folder)
