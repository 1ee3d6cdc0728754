"""The webhook over HTTPS, with an API server that is told of it and one that calls it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.sites.bare import BareOpener, BareServer

from numakube.apps.host.serving import Elsewhere
from numakube.apps.host.surroundings import Surroundings
from numakube.apps.webhook.process import PROGRAM
from numakube.errors import ConfigError, Invalid
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
)
from numakube.kube.catalog import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from numakube.manifests.rbac_rules import cluster_role, service_account
from numakube.manifests.webhook import NAME, WebhookManifest, cluster_rules
from numakube.testing import until
from numakube_lab.api.access.certificate_authority import Authority
from numakube_lab.replay.run import TOKENS

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
BAD = '{"numaTopologyPolicy": "strict"}'


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


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A certificate, its key and its authority."""
    return Files.write(tmp_path)


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


def pod(text: str, name: str = "web") -> dict[str, Any]:
    """Return a pod with this annotation."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {SPEC: text}},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


def deployment(text: str) -> dict[str, Any]:
    """Return a deployment of such pods."""
    template = pod(text)
    labels = {"app": "web"}
    template["metadata"] = {**template["metadata"], "labels": labels}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


def review(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the question whether *obj* may be created."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u1", "operation": "CREATE", "object": obj},
    }


async def test_questions_are_answered_over_https(files: Files) -> None:
    """And counted; without an authority to register no cluster is needed."""
    async with webhook(*files.arguments) as url, client(files) as session:
        async with session.post(f"{url}/validate", json=review(pod(BAD))) as response:
            assert response.status == 200
            answer = (await response.json())["response"]
        assert (answer["uid"], answer["allowed"]) == ("u1", False)
        assert answer["status"]["details"]["causes"][0]["field"] == (
            f"metadata.annotations[{SPEC}].numaTopologyPolicy"
        )
        async with session.post(f"{url}/validate", data=b"{}") as response:
            assert response.status == 400
        async with session.post(f"{url}/validate", data=BytesIO(bytes(9 << 20))) as response:
            assert response.status == 413
        async with session.get(f"{url}/readyz") as response:
            assert response.status == 200
        async with session.get(f"{url}/metrics") as response:
            metrics = await response.text()
    assert 'numakube_webhook_reviews_total{answer="denied",kind="Pod"} 1.0' in metrics
    assert 'numakube_webhook_reviews_total{answer="unreadable",kind="other"} 1.0' in metrics


async def test_a_new_certificate_is_taken_up_without_a_restart(files: Files) -> None:
    """As mounted Secrets are replaced."""
    async with webhook(*files.arguments) as url:
        async with client(files) as session, session.get(f"{url}/livez") as response:
            assert response.status == 200
        Files.write(files.folder)
        async with client(files) as session, session.get(f"{url}/livez") as response:
            assert response.status == 200


async def test_plain_http_where_others_reach_it_must_be_meant() -> None:
    """API servers would not call it anyway."""
    arguments = ("--bind-address=0.0.0.0:0",)
    with pytest.raises(ConfigError, match="HTTPS"):
        await PROGRAM.perform(arguments, Surroundings(env={}), asyncio.Event())


@contextlib.asynccontextmanager
async def registered(
    server: BareServer, files: Files, tmp_path: Path
) -> AsyncIterator[tuple[str, BareServer]]:
    """Run a webhook with the rights of its manifest that an API server is told of by its URL."""
    kubeconfig = tmp_path / "kubeconfig"
    server.write_kubeconfig(kubeconfig, TOKENS["alice"])
    role, binding = cluster_role(NAME, cluster_rules(), service_account(NAME, "numakube"))
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
    await server.client.create(CLUSTER_ROLES, role)
    await server.client.create(CLUSTER_ROLE_BINDINGS, {**binding, "subjects": [subject]})
    arguments = (
        *files.arguments,
        f"--kubeconfig={kubeconfig}",
        f"--ca-file={files.folder / 'ca.crt'}",
        "--registration-interval=100ms",
    )
    async with webhook(*arguments) as url:
        configuration = WebhookManifest(client_config=(("url", f"{url}/validate"),)).configuration()
        await server.client.create(CONFIGURATIONS, configuration)
        try:
            yield url, server
        finally:
            await server.client.delete(CONFIGURATIONS, NAME)


async def test_api_servers_are_told_of_the_authority(
    bare_servers: BareOpener, files: Files, tmp_path: Path
) -> None:
    """Of all hooks, and again when it is replaced; until then the webhook is not ready."""
    async with bare_servers() as server, registered(server, files, tmp_path) as (url, _):

        async def known() -> bool:
            found = await server.client.get(CONFIGURATIONS, NAME)
            bundles = {hook["clientConfig"].get("caBundle") for hook in found["webhooks"]}
            return bundles == {files.bundle}

        await until(known)
        Files.write(files.folder)
        await until(known)

        async def ready() -> bool:
            async with client(files) as session, session.get(f"{url}/readyz") as response:
                return response.status == 200

        await until(ready)


async def test_a_webhook_that_is_not_registered_says_why(
    bare_servers: BareOpener, files: Files, tmp_path: Path
) -> None:
    """It answers all the same."""
    async with bare_servers() as server:
        kubeconfig = tmp_path / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        ca_file = f"--ca-file={files.folder / 'ca.crt'}"
        async with (
            webhook(*files.arguments, ca_file, f"--kubeconfig={kubeconfig}") as url,
            client(files) as session,
        ):

            async def says_why() -> bool:
                async with session.get(f"{url}/readyz") as response:
                    return response.status == 503 and "not found" in await response.text()

            await until(says_why)
            async with session.post(f"{url}/validate", json=review(pod(BAD))) as response:
                assert response.status == 200


async def test_a_real_api_server_refuses_what_the_webhook_refuses(
    bare_servers: BareOpener, files: Files, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Pods with mistakes, not those without; templates are let through."""
    if request.node.callspec.params["bare_servers"] == "lab":
        pytest.skip("the lab's API server calls no webhooks")
    async with bare_servers() as server, registered(server, files, tmp_path):
        await server.client.create(NAMESPACES, {"metadata": {"name": "shop"}})

        async def refused() -> str:
            try:
                await server.client.create(PODS, pod(BAD), namespace="shop", dry_run=True)
            except Invalid as error:
                return str(error)
            return ""

        refusal = await until(refused)
        assert 'admission webhook "pods.numakube.dev" denied the request' in refusal
        assert "numaTopologyPolicy: unknown word 'strict'" in refusal
        right = pod('{"numaTopologyPolicy": "Restricted"}')
        await server.client.create(PODS, right, namespace="shop", dry_run=True)
        await server.client.create(PODS, pod(BAD), namespace="kube-system", dry_run=True)
        await server.client.create(DEPLOYMENTS, deployment(BAD), namespace="shop", dry_run=True)
