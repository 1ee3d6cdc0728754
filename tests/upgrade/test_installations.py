"""What an older version installed is taken over by this one, and back, by each way to install."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from tests.apps.deployer.test_helm import CHART, helm
from tests.apps.operator.test_on_the_lab import (
    kinds_served,
    label,
    remove_definition,
    wanted_exporters,
    wanted_scheduler,
)
from tests.upgrade.programs import Programs, Running, command

from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.kube import ObjectKey
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from numakube.kube.client import Client
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.release_image import IMAGE
from numakube.testing import pod_document, until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = [pytest.mark.upgrade, pytest.mark.timeout(600)]

INSTALLED = (DAEMON_SETS, DEPLOYMENTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES)
KEPT = (*INSTALLED, CONFIG_MAPS, SERVICE_ACCOUNTS, LEASES)
WAITING = ("--wait", "--timeout", "4m")
ELSEWHERE = "registry.example/elsewhere:1"
"""An image that nodes of a lab do not run: the operator is a process of its own version instead."""
OPERATOR = ObjectKey("numakube", "numaresources-controller-manager")
OPERATED = ("NUMAResourcesOperator", "NUMAResourcesScheduler")


@pytest.fixture
async def site(sites: Opener, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """A cluster of two workers that knows no topologies, and asks for rights if it can.

    Helm brings no token over plain HTTP, which a lab speaks here.
    """
    plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    rbac = "chart" not in request.node.name
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=rbac)) as site:
        await remove_definition(site.client)
        for node in ("node-0", "node-1"):
            await label(site.client, node, "node-role.kubernetes.io/worker")
        yield site


async def identities(client: Client) -> dict[str, str]:
    """Return the uids of all workloads and rights of ours, by kind and name."""
    return {
        f"{kind.plural}/{document['metadata']['name']}": document["metadata"]["uid"]
        for kind in INSTALLED
        for document in (await client.list(kind.raw)).items
        if "numa" in document["metadata"]["name"]
    }


async def left(client: Client) -> list[str]:
    """Return what there is of ours; what is being deleted counts."""
    return [
        f"{kind.plural}/{document['metadata']['name']}"
        for kind in KEPT
        for document in (await client.list(kind.raw)).items
        if "numa" in document["metadata"]["name"]
    ]


async def runs_aligned(client: Client, name: str, scheduler: str = "numakube-scheduler") -> str:
    """Create a pod, wait until it runs, and return its uid."""
    document = pod_document(name, "2", schedulerName=scheduler)
    await client.create(PODS.raw, document, namespace="default")

    async def runs() -> str:
        pod = await client.get(PODS, name, namespace="default")
        return pod.metadata.uid if pod.status and pod.status.phase == "Running" else ""

    return await until(runs)


async def run_on(client: Client, pods: dict[str, str]) -> bool:
    """Tell whether these pods still run, and reports of both nodes are there."""
    found = {pod.metadata.name: pod for pod in (await client.list(PODS, namespace="default")).items}
    reports = (await client.list(NODE_RESOURCE_TOPOLOGIES)).items
    running = {
        name: pod.metadata.uid
        for name, pod in found.items()
        if pod.status and pod.status.phase == "Running"
    }
    return running == pods and len(reports) == 2


def older_chart() -> Path:
    """Return the chart of the older release."""
    (chart,) = Path(os.environ["NUMAKUBE_OLDER_DIST"]).glob("numakube-[0-9]*.tgz")
    return chart


async def test_deploy_takes_over_and_gives_back(site: Site) -> None:
    """Objects keep their uids, pods run on, and whoever comes last removes all of it."""
    client, pods = site.client, {}
    await command(site, "older", "deploy", "--wait")
    first = await identities(client)
    for number, version in enumerate(("older", "this", "older", "this")):
        await command(site, version, "deploy", "--wait")
        assert (await identities(client)).items() >= first.items()
        pods[f"p{number}"] = await runs_aligned(client, f"p{number}")
        assert await run_on(client, pods)
    await command(site, "older", "deploy", "--wait")
    await command(site, "this", "remove", "--wait")
    assert await left(client) == []


async def test_the_chart_is_upgraded_and_rolled_back(site: Site) -> None:
    """With the kinds applied first, as the page on upgrades says."""
    client, pods = site.client, {}
    await helm(site, "install", "x", str(older_chart()), "--create-namespace", *WAITING)
    first = await identities(client)
    pods["a"] = await runs_aligned(client, "a")
    await helm(site, "upgrade", "x", str(CHART), *WAITING)
    pods["b"] = await runs_aligned(client, "b")
    await helm(site, "rollback", "x", "1", *WAITING)
    pods["c"] = await runs_aligned(client, "c")
    assert (await identities(client)).items() >= first.items()
    assert await run_on(client, pods)
    await helm(site, "uninstall", "x", *WAITING)
    assert await left(client) == []


async def test_the_operator_is_upgraded_and_rolled_back(site: Site) -> None:
    """What it made stays as it is, and each version goes on caring for it by its own role."""
    client, pods, first = site.client, {}, dict[str, str]()
    async with asyncio.TaskGroup() as tasks:
        programs = Programs(site, tasks)
        try:
            for number, version in enumerate(("older", "this", "older")):
                await command(site, version, "deploy", "operator", "--image", ELSEWHERE, "--wait")
                await kinds_served(client)
                operator = await programs.operate_with(version, OPERATOR, "--image-exporter", IMAGE)
                if not first:
                    await client.create(OPERATORS.raw, wanted_exporters(poolName="worker"))
                    await client.create(SCHEDULERS.raw, wanted_scheduler())
                await until(partial(is_content, operator))
                first = first or await identities(client)
                pods[f"p{number}"] = await runs_aligned(client, f"p{number}", "numa")
                assert await run_on(client, pods)
                assert (await identities(client)).items() >= first.items()
        finally:
            await programs.end()


async def is_content(operator: Running) -> bool:
    """Tell whether it has found both of its objects as they should be."""
    figures = await operator.metrics()
    available = 'numakube_operator_condition{condition="Available",kind="%s"}'
    return all(figures.get(available % kind) == 1 for kind in OPERATED)
