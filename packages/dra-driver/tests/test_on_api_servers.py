"""The claim writer as API servers ask it, with the rights of its manifest; and what they accept."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
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
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    resource_of,
)
from numakube.manifests.rbac_rules import cluster_role, service_account
from numakube.node.pci.fake_pci import FakePci, vf_address
from numakube.node.pci.host_scan import SurveyOptions
from numakube.node.pci.pci_discovery import Host
from numakube.testing import until
from numakube_dra_driver.claims.claim_writing import POLICY, WRITER
from numakube_dra_driver.claims.manifest import ClaimWriterManifest, cluster_rules
from numakube_dra_driver.claims.process import PROGRAM
from numakube_dra_driver.device_classes import class_documents, pool_classes
from numakube_dra_driver.devices import DRIVER
from numakube_dra_driver.manifest import own_slices
from numakube_dra_driver.metrics import DraMetrics
from numakube_dra_driver.pci_functions import FunctionReader
from numakube_dra_driver.slices import SLICES, SlicePublisher
from numakube_lab.replay.run_case import TOKENS

__all__ = ["bare_servers", "shared_server"]  # fixtures
pytestmark = pytest.mark.timeout(200)
POOL = {"resourceName": "sriov", "selectors": {"drivers": ["iavf"]}}


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


def large_host(folder: Path) -> FunctionReader:
    """Return a host of eight cards, behind switches, with 64 virtual functions each."""
    pci = FakePci(folder / "sys")
    for card in range(8):
        address = f"0000:{0x10 + card:02x}:00.0"
        pci.pf(address, interface=f"enp{card}s0f0np0", numa_node=card % 2)
        for number in range(64):
            bridges = (f"0000:0{card}:01.0", f"0000:0{card}:02.0", f"0000:0{card}:03.0")
            pci.place(vf_address(address, number), f"pci0000:0{card}", *bridges)
        pci.vfs(address, 64)
    file = folder / "pools.json"
    file.write_text(json.dumps({"resourceList": [POOL]}))
    host = Host(sysfs=folder / "sys", dev=folder / "dev", proc=folder / "proc")
    return FunctionReader(file, host, prefix="intel.com", options=SurveyOptions())


async def test_api_servers_keep_what_is_said_of_the_functions_of_a_large_node(
    bare_servers: BareOpener, tmp_path: Path
) -> None:
    """512 functions in four slices, and the class for those who ask for the plugin's resource."""
    functions = large_host(tmp_path).look({}, 0.0).by_name.values()
    devices = [one.device for one in functions]
    assert len(devices) == 512
    async with bare_servers() as server:
        client = server.client
        await client.create(NODES.raw, {"metadata": {"name": "n1"}})
        publisher = SlicePublisher(
            client,
            driver=DRIVER,
            node="n1",
            pool="n1/pci",
            metrics=DraMetrics(CollectorRegistry()),
        )
        await publisher.publish(devices)
        stored = sorted((await client.list(SLICES)).items, key=lambda one: one.metadata.name)
        assert [one for piece in stored for one in piece.spec.devices] == devices
        assert len(stored) == 4
        versions = {one.metadata.resource_version for one in stored}
        await publisher.publish(devices)
        again = (await client.list(SLICES)).items
        assert {one.metadata.resource_version for one in again} == versions
        (document,) = pool_classes([POOL])
        await client.create(DEVICE_CLASSES, document)
