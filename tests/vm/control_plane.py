"""etcd, kube-apiserver and kube-controller-manager on loopback.

The controller manager is needed: without it a node keeps the taint of one that is not ready, and
pods of a DaemonSet never come to be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.real.api_server import RealServer
from tests.vm.programs import Program, asset

from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube_lab.exporters import install_definition


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane that runs.

    Attributes:
        server: etcd and API server.
        kubeconfig: how its administrator reaches it.
        client: has all rights.
    """

    server: RealServer
    kubeconfig: Path
    client: Client
    _controllers: Program

    async def restart(self) -> None:
        """Kill the API server; return when another one answers in its place."""
        self.server.kill()
        await asyncio.to_thread(self.server.start)


@contextlib.asynccontextmanager
async def control_plane(folder: Path) -> AsyncIterator[ControlPlane]:
    """Run a control plane with its files in *folder*; it knows NodeResourceTopology objects."""
    folder.mkdir(parents=True)
    server = RealServer(folder, accounts=True)
    async with contextlib.AsyncExitStack() as stack:
        await asyncio.to_thread(server.__enter__)
        stack.push_async_callback(asyncio.to_thread, server.__exit__)
        kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
        controllers = Program(_controller_arguments(server, kubeconfig), folder / "kcm.log")
        controllers.start()
        stack.push_async_callback(controllers.stop)
        client = connect(load_config(kubeconfig=kubeconfig, env={}), rate=0)
        await stack.enter_async_context(client)
        await install_definition(client)
        yield ControlPlane(server, kubeconfig, client, controllers)


def _controller_arguments(server: RealServer, kubeconfig: Path) -> list[str | Path]:
    return [
        asset("kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={server.service_account_key}",
        f"--root-ca-file={server.ca}",
        "--use-service-account-credentials=false",
        "--leader-elect=false",
        "--secure-port=0",
        # A kubelet that is restarted or starved must not lose its pods.
        "--node-monitor-grace-period=300s",
    ]
