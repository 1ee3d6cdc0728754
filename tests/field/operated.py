"""A cluster that the operator looks after, and how its scenarios change and watch it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.apps.operator.test_on_the_lab import (
    IMAGE,
    NAMESPACE,
    conditions,
    create,
    in_state,
    wanted_exporters,
    wanted_scheduler,
)

from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.kube.catalog import DAEMON_SETS, NODES, PODS
from numakube.kube.client import Client, merge_patch
from numakube.kube.resource_types import Document
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.operator import OperatorManifest
from numakube.testing import until
from numakube_lab.testing import SiteOptions, lab_site, uniform_plans

EXPORTERS = "numaresourcesoperator"
SCHEDULER = "numaresourcesscheduler"
ALL = ("node-0", "node-1", "node-2")


@contextlib.asynccontextmanager
async def operated_lab() -> AsyncIterator[Client]:
    """Run three nodes with an operator, exporters and a scheduler."""
    plans = uniform_plans(3, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with lab_site(SiteOptions(plans=plans, exporters=False, rbac=True)) as lab:
        for document in OperatorManifest(namespace=NAMESPACE, image=IMAGE).objects():
            await create(lab.client, document)
        await want_exporters(lab.client)
        await lab.client.create(SCHEDULERS.raw, wanted_scheduler())
        await in_state(lab.client, OPERATORS, "Available")
        await in_state(lab.client, SCHEDULERS, "Available")
        yield lab.client


async def want_exporters(client: Client, **config: Any) -> None:
    """Create the object that asks for exporters on all nodes."""
    wanted = wanted_exporters(nodeSelector={"matchLabels": {}}, config=config)
    await client.create(OPERATORS.raw, wanted)


async def change(client: Client, name: str, spec: dict[str, Any]) -> None:
    """Change the spec of one of the two objects."""
    resource = OPERATORS if name == EXPORTERS else SCHEDULERS
    await client.patch(resource.raw, name, merge_patch({"spec": spec}))


async def configure(client: Client, **config: Any) -> None:
    """Configure the exporters of all nodes."""
    group = {"nodeSelector": {"matchLabels": {}}, "config": config}
    await change(client, EXPORTERS, {"nodeGroups": [group]})


async def settled(client: Client, name: str) -> Document:
    """Wait until one of the two objects is available as it is now, and return it."""
    resource = OPERATORS if name == EXPORTERS else SCHEDULERS

    async def ask() -> Document | None:
        found = await client.get(resource.raw, name)
        told = found.get("status", {}).get("conditions", [])
        seen = {entry["observedGeneration"] for entry in told} == {found["metadata"]["generation"]}
        return found if seen and conditions(found).get("Available") == "True" else None

    found: Document = await until(ask)
    return found


async def exporters(client: Client) -> dict[str, str]:
    """Return the exporters that run and stay: the uids of their pods, by node."""
    found = await client.list(PODS, namespace=NAMESPACE, labels="name=resource-topology")
    return {
        pod.spec.node_name: pod.metadata.uid
        for pod in found.items
        if pod.status and pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
    }


async def daemon_set(client: Client) -> Document:
    """Return the DaemonSet of the exporters as soon as it is there."""

    async def ask() -> Document | None:
        sets = (await client.list(DAEMON_SETS, namespace=NAMESPACE)).items
        return sets[0] if sets else None

    found: Document = await until(ask)
    return found


async def until_on(
    client: Client,
    *nodes: str,
    left: int = 0,
    tolerations: list[dict[str, str]] | None = None,
) -> dict[str, str]:
    """Wait until exporters run on just these nodes, and return their pods.

    Args:
        client: of the cluster.
        nodes: the nodes.
        left: how many of the exporters are there only because nobody has sent them away.
        tolerations: what they put up with, if that is to be waited for.
    """

    async def ask() -> dict[str, str] | None:
        found, document = await exporters(client), await daemon_set(client)
        is_so = found.keys() == set(nodes) and _is_settled(document, len(nodes), left)
        template = document["spec"]["template"]["spec"]
        if tolerations is not None:
            is_so = is_so and template.get("tolerations", []) == tolerations
        return found if is_so else None

    found: dict[str, str] = await until(ask)
    return found


def _is_settled(document: Document, count: int, left: int) -> bool:
    """Tell whether a DaemonSet has all pods that it wants, all of them new, and *left* besides."""
    status = document.get("status", {})
    wanted = dict.fromkeys(("desiredNumberScheduled", "updatedNumberScheduled"), count - left)
    wanted |= {"numberReady": count - left, "numberMisscheduled": left}
    wanted["observedGeneration"] = document["metadata"]["generation"]
    return {name: status.get(name, 0) for name in wanted} == wanted


@contextlib.asynccontextmanager
async def tainted(client: Client, node: str, *taints: dict[str, str]) -> AsyncIterator[None]:
    """Give a node taints for a while; in the end it has none."""
    await taint(client, node, *taints)
    try:
        yield
    finally:
        await taint(client, node)


async def taint(client: Client, node: str, *taints: dict[str, str]) -> None:
    """Give a node these taints and no others."""
    await client.patch(NODES, node, merge_patch({"spec": {"taints": list(taints)}}))
