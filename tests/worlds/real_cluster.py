"""A real control plane that worlds are played on, one after the other.

kube-apiserver with etcd, kube-controller-manager, and kube-scheduler for the pods of the default
scheduler. They take seconds to start, so many worlds share them: after each of them everything
that it has left is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from tests.real.kube_scheduler import GATES, kube_scheduler
from tests.sites.sweeping import Sweeper
from tests.sites.unreliable import Wire
from tests.vm.control_plane import ControlPlane, control_plane
from tests.worlds.manifests import fixtures

from numakube.errors import AlreadyExists
from numakube.kube.catalog import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, SERVICE_ACCOUNTS
from numakube.kube.client import Client
from numakube.testing import until
from numakube_lab.exporters import established

NEEDED: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The programs of which the control plane is made."""
_NAMESPACES: Final = 4
"""Those that every cluster has; kube-controller-manager fills them with what pods need."""
_SWEEPS: Final = 40


@dataclass(frozen=True, slots=True)
class RealCluster:
    """A control plane without nodes.

    Attributes:
        kubeconfig: how to reach the server by the wire.
        wire: what lies between the server and all that is of the lab or ours; it can be cut.
    """

    plane: ControlPlane
    kubeconfig: Path
    wire: Wire
    _sweeper: Sweeper

    async def clean(self) -> None:
        """Remove what has come since the start; controllers may still make more of it."""
        for _ in range(_SWEEPS):
            if not await self._sweeper.sweep():
                return
        raise AssertionError("what a world has left cannot be removed")


@contextlib.asynccontextmanager
async def real_cluster(folder: Path) -> AsyncIterator[RealCluster]:
    """Run a control plane in *folder*; it knows the kinds of gangs, and priorities."""
    async with control_plane(folder / "plane") as plane, Wire(plane.server.url) as wire:
        config = _scheduler_configuration(folder / "scheduler.yaml", plane.kubeconfig)
        gates = f"--feature-gates={GATES}"
        async with kube_scheduler(folder, f"--config={config}", gates):
            await _prepare(plane.client)
            await until(lambda: _is_furnished(plane.client))
            sweeper = Sweeper(plane.client)
            await sweeper.look()
            kubeconfig = plane.server.write_kubeconfig(folder / "wire", url=wire.url)
            yield RealCluster(plane, kubeconfig, wire, sweeper)


async def _prepare(client: Client) -> None:
    for resource, document in fixtures():
        with contextlib.suppress(AlreadyExists):
            await client.create(resource, document)
        if resource.plural == CUSTOM_RESOURCE_DEFINITIONS.plural:
            await established(client, document["metadata"]["name"])


async def _is_furnished(client: Client) -> bool:
    """Tell whether every namespace has what kube-controller-manager gives to each."""
    accounts, maps = await asyncio.gather(client.list(SERVICE_ACCOUNTS), client.list(CONFIG_MAPS))
    names = Counter(account["metadata"]["name"] for account in (*accounts.items, *maps.items))
    return names["default"] == names["kube-root-ca.crt"] == _NAMESPACES


def _scheduler_configuration(file: Path, kubeconfig: Path) -> Path:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    file.write_text(yaml.safe_dump(configuration))
    return file
