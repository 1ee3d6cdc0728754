"""A fleet of equal nodes as API objects with exact topology reports, without any kubelet."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODES
from numakube.kube.client import merge_patch
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of
from numakube.topology.model_report import nrt_of
from numakube_lab.exporters import install_definition
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.nodes.node_documents import NodeOffer, base_offer, node_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document
    from numakube_lab.nodes.node_documents import NodePlan

_AT_ONCE = 16


def plans_of(count: int, shape: str, kubelet: str) -> tuple[NodePlan, ...]:
    """Return plans of *count* nodes."""
    return uniform_plans(count, from_shape(shape), kubelet, "1.35")


def kubelet_of(plan: NodePlan) -> KubeletNode:
    """Return the model of the node's kubelet, without pods."""
    return KubeletNode(plan.machine, settings_of(plan.config, plan.machine))


async def create_fleet(
    client: Client, plans: tuple[NodePlan, ...], pods: Mapping[str, Sequence[Pod]] | None = None
) -> None:
    """Create the objects of all nodes, whose reports have *pods* by node."""
    await install_definition(client)
    idle = nrt_of("", kubelet_of(plans[0]))

    def report_of(plan: NodePlan) -> NodeResourceTopology:
        if pods is None:
            return msgspec.structs.replace(
                idle, metadata=msgspec.structs.replace(idle.metadata, name=plan.name)
            )
        kubelet = kubelet_of(plan)
        for pod in pods.get(plan.name, ()):
            assert isinstance(kubelet.admit(pod), Admitted)
        return nrt_of(plan.name, kubelet)

    waiting = iter(plans)
    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(_create(client, waiting, report_of))


async def _create(
    client: Client,
    plans: Iterator[NodePlan],
    report_of: Callable[[NodePlan], NodeResourceTopology],
) -> None:
    now = datetime.now(UTC)
    for plan in plans:
        base = base_offer(plan)
        devices = {name: len(members) for name, members in plan.machine.devices.items()}
        offer = NodeOffer({**base.capacity, **devices}, {**base.allocatable, **devices})
        document = node_document(plan, offer, address="10.0.0.1", cidr="10.1.0.0/24", now=now)
        await create_node(client, document)
        await client.create(NODE_RESOURCE_TOPOLOGIES, report_of(plan))


async def create_node(client: Client, document: Document) -> None:
    """Create a node that takes pods."""
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", **document})
    # New nodes are tainted until a controller sees that they are ready; there is none here.
    name = document["metadata"]["name"]
    await client.patch(NODES, name, merge_patch({"spec": {"taints": None}}))
