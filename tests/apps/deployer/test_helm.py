"""The chart installed, changed and removed by the real helm, on the lab and on a real server."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.apps.operator.test_on_the_lab import remove_definition

from numakube.api.crds import OPERATOR_CRD, crd
from numakube.kube.catalog import (
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NODE_RESOURCE_TOPOLOGIES,
)
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
CHART = Path(__file__).parents[3] / "deploy" / "chart"
NAMESPACE = "numakube"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(HELM is None, reason="helm is not on the PATH"),
]


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of two nodes that knows no topologies."""
    plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False)) as site:
        await remove_definition(site.client)
        yield site


async def helm(site: Site, *words: str) -> str:
    """Run helm as the administrator of a cluster, and return what it prints."""
    assert HELM is not None
    folders = {
        f"HELM_{name}_HOME": str(site.folder / f"helm-{name.lower()}")
        for name in ("CACHE", "CONFIG", "DATA")
    }
    told = ("--kubeconfig", str(site.kubeconfig), "--namespace", NAMESPACE)
    process = await asyncio.create_subprocess_exec(
        *(HELM, *told, *words),
        env={"PATH": os.environ["PATH"], "HOME": str(site.folder), **folders},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return out.decode()


async def test_the_chart_is_installed_changed_and_removed(site: Site) -> None:
    """Kinds stay, those of the operator only if it was there; nothing else does."""
    client = site.client
    waiting = ("--wait", "--timeout", "4m")
    notes = await helm(site, "install", "x", str(CHART), "--create-namespace", *waiting)
    assert "Pods with schedulerName numakube-scheduler are placed by NUMA topology." in notes

    async def reported() -> bool:
        found = await client.list(NODE_RESOURCE_TOPOLOGIES)
        return {report.metadata.name for report in found.items} == {"node-0", "node-1"}

    await until(reported)
    assert await operator_kinds(site) == 0
    lease = await client.get(LEASES.raw, "numakube-scheduler", namespace=NAMESPACE)
    more = ("--set", "scheduler.replicas=2", "--set", "operator.enabled=true")
    await helm(site, "upgrade", "x", str(CHART), *more, *waiting)
    same = await client.get(LEASES.raw, "numakube-scheduler", namespace=NAMESPACE)
    assert same["metadata"]["uid"] == lease["metadata"]["uid"]
    found = (await client.list(DEPLOYMENTS, namespace=NAMESPACE)).items
    ready = {item["metadata"]["name"]: item["status"]["readyReplicas"] for item in found}
    assert ready == {"numakube-scheduler": 2, "numaresources-controller-manager": 1}

    await helm(site, "uninstall", "x", *waiting)
    left = [*(await client.list(DEPLOYMENTS)).items, *(await client.list(DAEMON_SETS)).items]
    roles = (await client.list(CLUSTER_ROLES)).items
    assert left == []
    assert [role for role in roles if "numa" in role["metadata"]["name"]] == []
    assert not (await client.list(LEASES.raw, namespace=NAMESPACE)).items
    assert await operator_kinds(site) == 2


async def test_what_others_have_made_is_no_obstacle(site: Site) -> None:
    """Neither a lease nor a kind, and both stay."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "numakube-scheduler", "namespace": "default"},
    }
    await site.client.create(LEASES.raw, lease, namespace="default")
    await site.client.create(CUSTOM_RESOURCE_DEFINITIONS, crd(OPERATOR_CRD))
    told = ("--namespace", "default", "--set", "operator.enabled=true")
    await helm(site, "install", "x", str(CHART), *told)
    assert await operator_kinds(site) == 2
    await helm(site, "uninstall", "x", *told[:2])
    assert await operator_kinds(site) == 2
    names = [
        lease["metadata"]["name"]
        for lease in (await site.client.list(LEASES.raw, namespace="default")).items
    ]
    assert names == ["numakube-scheduler"]


async def operator_kinds(site: Site) -> int:
    """Return how many of the operator's kinds there are."""
    kinds = (await site.client.list(CUSTOM_RESOURCE_DEFINITIONS)).items
    return len([kind for kind in kinds if "numa" in str(kind["spec"]["names"])])
