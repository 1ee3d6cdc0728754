"""An exporter writes the report of its own node, and nobody else's: the API server sees to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from numakube.errors import Forbidden
from numakube.kube.catalog import (
    NODE_RESOURCE_TOPOLOGIES,
    NODE_RESOURCE_TOPOLOGY_UPDATES,
    PODS,
    resource_of,
)
from numakube.kube.client import Client, merge_patch
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import Choices, objects_of
from numakube.testing import until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = pytest.mark.timeout(240)
ACCOUNT = ObjectKey("numakube", "numakube-exporter")
REPORT = NODE_RESOURCE_TOPOLOGIES.raw
UPDATE = NODE_RESOURCE_TOPOLOGY_UPDATES.raw


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of two nodes with the exporter's rights and policies, and pods in its stead."""
    plans = uniform_plans(2, from_shape("1 socket, 4 cores, 8Gi"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=True)) as site:
        for document in objects_of(("api", "exporter"), Choices()):
            if document["kind"] != "DaemonSet":
                await site.client.apply(
                    resource_of(document),
                    document,
                    namespace=document["metadata"].get("namespace", ""),
                    field_manager="test",
                    force=True,
                )
        for name, node in (("mine", "node-0"), ("theirs", "node-1")):
            await site.client.create(PODS.raw, _pod(name, node), namespace="numakube")
        yield site


@pytest.fixture
async def exporter(site: Site) -> AsyncIterator[Client]:
    """A client with the token of the exporter on node-0."""
    token = await request_token(site.client, ACCOUNT, pod=ObjectKey("numakube", "mine"))
    async with site.connect(token=token.token) as client:
        # A policy takes effect a moment after it was stored.
        await until(lambda: _refused(client, "node-1"))
        yield client


async def test_an_exporter_writes_the_objects_of_its_own_node_alone(
    site: Site, exporter: Client
) -> None:
    """Report and update: neither new ones of other nodes, nor those that are there."""
    change = merge_patch({"metadata": {"annotations": {"a": "b"}}})
    mine = await exporter.create(UPDATE, _update("node-0"))
    await exporter.update(UPDATE, mine)
    await exporter.create(REPORT, _report("node-0"))
    await exporter.patch(REPORT, "node-0", change)

    why = r"ValidatingAdmissionPolicy 'numakube-exporter-own-node'.* \"node-0\", not \"node-1\""
    for kind, document in ((REPORT, _report("node-1")), (UPDATE, _update("node-1"))):
        with pytest.raises(Forbidden, match=why):
            await exporter.create(kind, document)
    await site.client.create(REPORT, _report("node-1"))
    theirs = await site.client.create(UPDATE, _update("node-1"))
    with pytest.raises(Forbidden, match=why):
        await exporter.patch(REPORT, "node-1", change)
    with pytest.raises(Forbidden, match=why):
        await exporter.update(UPDATE, theirs)


async def test_an_exporter_tells_the_readiness_of_its_own_pod_alone(
    site: Site, exporter: Client
) -> None:
    """Its rights are to all pods of the namespace. A token that no pod has writes nothing."""
    condition = {"type": "NodeTopologyUpdated", "status": "True"}
    change = merge_patch({"status": {"conditions": [condition]}})

    async def tell(name: str) -> None:
        await exporter.patch(PODS.raw, name, change, namespace="numakube", subresource="status")

    await tell("mine")
    with pytest.raises(Forbidden, match='"mine", not "theirs"'):
        await tell("theirs")
    token = await request_token(site.client, ACCOUNT)
    async with site.connect(token=token.token) as client:
        assert await _refused(client, "node-0")


async def _refused(client: Client, node: str) -> bool:
    try:
        await client.create(REPORT, _report(node), dry_run=True)
    except Forbidden as error:
        return "ValidatingAdmissionPolicy" in str(error)
    return False


def _report(node: str) -> dict[str, Any]:
    return {
        "apiVersion": REPORT.api_version,
        "kind": REPORT.kind,
        "metadata": {"name": node},
        "zones": [{"name": "node-0", "type": "Node"}],
    }


def _update(node: str) -> dict[str, Any]:
    return {
        "apiVersion": UPDATE.api_version,
        "kind": UPDATE.kind,
        "metadata": {"name": node},
        "report": "2026-01-01T00:00:00Z",
        "time": "2026-01-01T00:00:00Z",
        "exact": "{}",
    }


def _pod(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "serviceAccountName": ACCOUNT.name,
            "nodeName": node,
            "containers": [{"name": "main", "image": "registry.example/app"}],
        },
    }
