"""A webhook that runs, its certificate, and an API server that is told of both."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
from tests.sites.bare import BareServer

from kube_lab_server import Authority
from numakube.apps.host.http_serving import Elsewhere
from numakube.apps.host.process_life import Surroundings
from numakube.kube.catalog import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from numakube.kube.catalog import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from numakube.manifests.rbac_rules import cluster_role, service_account
from numakube_lab.replay.run_case import TOKENS
from numakube_placement.manifests.webhook import DEFINITION, NAME, WebhookManifest, cluster_rules
from numakube_placement.webhook.process import PROGRAM


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate for loopback, its key and its authority."""

    folder: Path

    @classmethod
    def write(cls, folder: Path) -> Files:
        """Make all three."""
        authority = Authority.create(datetime.now(UTC))
        certificate, key = authority.issue(["localhost", "127.0.0.1"], datetime.now(UTC))
        (folder / "tls.crt").write_bytes(certificate)
        (folder / "tls.key").write_bytes(key)
        (folder / "ca.crt").write_bytes(authority.certificate)
        return cls(folder)

    @property
    def bundle(self) -> str:
        """The authority as it stands in a configuration."""
        return base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()

    @property
    def trust(self) -> ssl.SSLContext:
        """What a client needs."""
        return ssl.create_default_context(cafile=self.folder / "ca.crt")

    @property
    def arguments(self) -> list[str]:
        """What the webhook is told of them."""
        return [
            "--bind-address=127.0.0.1:0",
            f"--tls-cert-file={self.folder / 'tls.crt'}",
            f"--tls-key-file={self.folder / 'tls.key'}",
        ]


@contextlib.asynccontextmanager
async def webhook(*arguments: str) -> AsyncIterator[str]:
    """Run the webhook; return where it serves."""
    stop, serving = asyncio.Event(), asyncio.Event()
    places: list[str] = []

    def announce(_: int, url: str) -> None:
        places.append(url)
        serving.set()

    around = Surroundings(env={}, elsewhere=Elsewhere(move=False, announce=announce))
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(PROGRAM.perform(arguments, around, stop))
        await serving.wait()
        try:
            yield places[0]
        finally:
            stop.set()
    assert task.result() == 0


@contextlib.asynccontextmanager
async def client(files: Files) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a client that trusts the webhook's authority and nobody else."""
    connector = aiohttp.TCPConnector(ssl=files.trust)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session


@contextlib.asynccontextmanager
async def registered(
    server: BareServer, files: Files, tmp_path: Path, *, converts: bool = False
) -> AsyncIterator[tuple[str, BareServer]]:
    """Run a webhook with the rights of its manifest that an API server is told of by its URL."""
    kubeconfig = tmp_path / "kubeconfig"
    server.write_kubeconfig(kubeconfig, TOKENS["alice"])
    role, binding = cluster_role(
        NAME, cluster_rules(converts=converts), service_account(NAME, "numakube")
    )
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
    await server.client.create(CLUSTER_ROLES, role)
    await server.client.create(CLUSTER_ROLE_BINDINGS, {**binding, "subjects": [subject]})
    arguments = (
        *files.arguments,
        f"--kubeconfig={kubeconfig}",
        f"--ca-file={files.folder / 'ca.crt'}",
        "--registration-interval=100ms",
        *([f"--definition={DEFINITION}"] if converts else []),
    )
    async with webhook(*arguments) as url:
        configuration = WebhookManifest(url=url).configuration()
        await server.client.create(CONFIGURATIONS, configuration)
        try:
            yield url, server
        finally:
            await server.client.delete(CONFIGURATIONS, NAME)
