"""An API server on which nobody lives but the test: no nodes, no controllers."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tests.real.api_server import RealServer
from tests.sites.sweeping import Sweeper

from kube_lab_server import ApiServer
from numakube.api.yaml_text import dump_yaml
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.replay.run_case import TOKENS, USERS


@dataclass(frozen=True, slots=True)
class BareServer:
    """A server that knows topologies, and where rights count.

    Attributes:
        client: has all rights.
        connect: returns more clients like it; the server's context closes them.
        cluster: how a kubeconfig describes the server.
    """

    client: Client
    connect: Callable[[], Client]
    cluster: dict[str, str] = field(default_factory=dict)

    def write_kubeconfig(self, path: Path, token: str = TOKENS["admin"]) -> None:
        """Write how the administrator, or the user with *token*, reaches the server."""
        config = {
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": self.cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(dump_yaml(config), encoding="utf-8")


BareOpener: TypeAlias = Callable[[], AbstractAsyncContextManager[BareServer]]


@contextlib.asynccontextmanager
async def bare_lab() -> AsyncIterator[BareServer]:
    """Run the API server of the lab; its clients use no sockets."""
    async with ApiServer(users=USERS, rbac=True) as server:
        bare = BareServer(
            Client(InProcess(server), rate=0),
            lambda: Client(InProcess(server), rate=0),
            {"server": server.url},
        )
        await install_definition(bare.client)
        yield bare


@contextlib.asynccontextmanager
async def bare_real(server: RealServer) -> AsyncIterator[BareServer]:
    """Use a real server, and remove what was made meanwhile."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-")))
        config = load_config(kubeconfig=server.write_kubeconfig(folder / "kubeconfig"), env={})

        def another() -> Client:
            client = connect(config, rate=0)
            stack.push_async_callback(client.aclose)
            return client

        client = another()
        await install_definition(client)
        sweeper = Sweeper(client)
        await sweeper.look()
        stack.push_async_callback(sweeper.sweep)
        cluster = {"server": server.url, "certificate-authority": str(server.ca)}
        yield BareServer(client, another, cluster)
