"""The webhook over HTTPS, with an API server that is told of it and one that calls it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from packages.placement.tests.webhook.running import Files, client, registered, webhook
from tests.sites.bare import BareOpener, BareServer

from numakube.apps.host.process_life import Surroundings
from numakube.errors import ConfigError, Forbidden, Invalid
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
)
from numakube.kube.catalog import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.manifests.rbac_rules import cluster_role, rule, service_account
from numakube.testing import until
from numakube_lab.replay.run_case import TOKENS
from numakube_placement.manifests.webhook import NAME
from numakube_placement.webhook.process import PROGRAM

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
BAD = '{"numaTopologyPolicy": "strict"}'
GIVEN = "scheduling.koordinator.sh/resource-status"


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
        given = pod("{}") | {"metadata": {"annotations": {GIVEN: '{"cpuset": "1"}'}}}
        async with session.post(f"{url}/validate/allotments", json=review(given)) as response:
            assert not (await response.json())["response"]["allowed"]
        async with session.post(f"{url}/validate", data=b"{}") as response:
            assert response.status == 400
        async with session.post(f"{url}/validate", data=BytesIO(bytes(9 << 20))) as response:
            assert response.status == 413
        async with session.get(f"{url}/readyz") as response:
            assert response.status == 200
        async with session.get(f"{url}/metrics") as response:
            metrics = await response.text()
    assert 'numakube_webhook_reviews_total{answer="denied",kind="Pod"} 2.0' in metrics
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

        given = pod("{}")
        given["metadata"]["annotations"] = {GIVEN: '{"cpuset": "1"}'}
        await server.client.create(PODS, given, namespace="shop", dry_run=True)
        async with as_bob(server, tmp_path) as bob:
            with pytest.raises(Forbidden, match=r'"allotments\.numakube\.dev" denied the request'):
                await bob.create(PODS, given, namespace="shop", dry_run=True)
            await bob.create(PODS, right, namespace="shop", dry_run=True)


@contextlib.asynccontextmanager
async def as_bob(server: BareServer, folder: Path) -> AsyncIterator[Client]:
    """Connect as a user who may create pods, and not bind them."""
    role, binding = cluster_role(
        "bob", [rule("", ["pods"], ["create"])], service_account("bob", "shop")
    )
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}
    await server.client.create(CLUSTER_ROLES, role)
    await server.client.create(CLUSTER_ROLE_BINDINGS, {**binding, "subjects": [subject]})
    server.write_kubeconfig(folder / "bob", TOKENS["bob"])
    async with connect(load_config(kubeconfig=folder / "bob", env={}), rate=0) as client:
        yield client
