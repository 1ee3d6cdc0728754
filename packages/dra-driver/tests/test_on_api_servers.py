"""The claim writer as API servers ask it, with the rights of its manifest; and what they accept."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from test_claim_writer import Certificate, plain
from test_claim_writing import BURSTABLE, container
from tests.sites.bare import BareOpener, BareServer
from tests.sites.plugin import bare_servers, shared_server

from numakube.apps.host.http_serving import Elsewhere
from numakube.apps.host.process_life import Surroundings
from numakube.errors import Invalid
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEVICE_CLASSES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    resource_of,
)
from numakube.manifests.rbac_rules import cluster_role, service_account
from numakube.testing import until
from numakube_dra_driver.claims.claim_writing import POLICY, WRITER
from numakube_dra_driver.claims.manifest import ClaimWriterManifest, cluster_rules
from numakube_dra_driver.claims.process import PROGRAM
from numakube_dra_driver.device_classes import class_documents
from numakube_dra_driver.manifest import own_slices
from numakube_lab.replay.run_case import TOKENS

__all__ = ["bare_servers", "shared_server"]  # fixtures
pytestmark = pytest.mark.timeout(200)


@contextlib.asynccontextmanager
async def asked(server: BareServer, folder: Path) -> AsyncIterator[None]:
    """Run a writer with its own rights, which the server is told of by its URL."""
    kubeconfig, certificate = folder / "kubeconfig", Certificate.make()
    server.write_kubeconfig(kubeconfig, TOKENS["alice"])
    role, binding = cluster_role(WRITER, cluster_rules(), service_account(WRITER, "numakube"))
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
    await server.client.create(CLUSTER_ROLES, role)
    await server.client.create(CLUSTER_ROLE_BINDINGS, {**binding, "subjects": [subject]})
    for document in class_documents()[:2]:
        await server.client.create(DEVICE_CLASSES, document)
    stop, serving = asyncio.Event(), asyncio.Event()
    places: list[str] = []

    def announce(_: int, url: str) -> None:
        places.append(url)
        serving.set()

    arguments = (
        "--bind-address=127.0.0.1:0",
        f"--kubeconfig={kubeconfig}",
        *certificate.write(folder),
        f"--ca-file={folder / 'ca.crt'}",
        "--registration-interval=100ms",
    )
    around = Surroundings(env={}, elsewhere=Elsewhere(move=False, announce=announce))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(PROGRAM.perform(arguments, around, stop))
        await serving.wait()
        configuration = ClaimWriterManifest(url=places[0]).configuration()
        await server.client.create(MUTATING_WEBHOOK_CONFIGURATIONS, configuration)

        async def registered() -> bool:
            found = await server.client.get(MUTATING_WEBHOOK_CONFIGURATIONS, WRITER)
            bundles = {hook["clientConfig"].get("caBundle") for hook in found["webhooks"]}
            return bundles == {certificate.bundle}

        await until(registered)
        try:
            yield
        finally:
            await server.client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, WRITER)
            stop.set()


def asking(name: str, policy: str, *containers: dict[str, Any]) -> Any:
    """Return a pod that says something itself."""
    tree = plain(name, *containers)
    tree["metadata"] = {"name": name, "annotations": {POLICY: policy}}
    return tree


async def test_a_real_api_server_gives_pods_claims(
    bare_servers: BareOpener, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """By a label and by an annotation; other pods are none of the writer's business."""
    if request.node.callspec.params["bare_servers"] == "lab":
        pytest.skip("the lab's API server calls no webhooks")
    async with bare_servers() as server, asked(server, tmp_path):
        client = server.client
        for name, labels in (("shop", {POLICY: "single-numa-node"}), ("bar", {})):
            await client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})

        async def claims(tree: Any, space: str, *, dry_run: bool = False) -> list[Any]:
            tree["metadata"].pop("namespace", None)
            made = await client.create(PODS.raw, tree, namespace=space, dry_run=dry_run)
            return list(made["spec"].get("resourceClaims") or ())

        whole = container(cpu="2", memory="64Mi")

        async def by_label() -> list[Any]:
            """Wait: servers hear of a new webhook after a moment."""
            return await claims(plain("dry", whole), "shop", dry_run=True)

        assert await until(by_label)
        templates = (await client.list(RESOURCE_CLAIM_TEMPLATES, namespace="shop")).items
        assert not templates
        (claim,) = await claims(plain("a", whole), "shop")
        assert await claims(plain("b", BURSTABLE), "shop") == []
        assert await claims(asking("c", "false", whole), "shop") == []
        assert await claims(plain("d", whole), "bar") == []
        assert await claims(asking("e", "socket", whole), "bar")
        with pytest.raises(Invalid, match="none of single-numa-node, socket, none, false"):
            await claims(asking("f", "singel", whole), "bar")

        async def made() -> set[str]:
            found = (await client.list(RESOURCE_CLAIM_TEMPLATES, namespace="shop")).items
            return {one["metadata"]["name"] for one in found}

        await until(made, lambda names: names == {claim["resourceClaimTemplateName"]})


async def test_api_servers_accept_the_policy_for_slices(bare_servers: BareOpener) -> None:
    async with bare_servers() as server:
        for document in own_slices("numakube", "numakube-dra-driver"):
            await server.client.create(resource_of(document), document, dry_run=True)
