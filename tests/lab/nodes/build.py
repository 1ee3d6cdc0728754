"""What tests of the lab's nodes work with: a lab, and documents for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kube_lab_server import ApiServer
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.errors import NotFound
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.nodes.node_pool import NodePool


@dataclass
class Lab:
    """What tests work with."""

    server: ApiServer
    client: Client
    clock: ManualClock
    pool: NodePool

    async def settle(self) -> None:
        """Let everybody notice what has happened so far; no time passes."""
        for _ in range(3):
            await self.clock.advance(0)

    async def node(self, name: str = "n1", shape: str | None = None, **config: Any) -> str:
        """Add a node with static managers and single-numa-node."""
        await self.pool.add(plan(name, shape, **config))
        return name

    async def create(self, name: str, *, node: str = "n1", **options: Any) -> None:
        """Create a pod that is bound already."""
        await self.client.create(PODS, pod_document(name, node=node, **options))

    async def get(self, name: str) -> Any:
        """Return a pod as the API has it; untyped, as much of it is optional."""
        return await self.client.get(PODS, name, namespace="default")

    async def phase(self, name: str) -> str:
        """Return a pod's phase; empty if there is no such pod."""
        try:
            pod = await self.get(name)
        except NotFound:
            return ""
        return pod.status.phase if pod.status else ""

    async def reaches(self, name: str, phase: str) -> Any:
        """Wait until a pod has *phase*; empty means that it is gone."""
        await until(lambda: self.phase(name), lambda found: found == phase)
        return await self.get(name) if phase else None

    async def runs(self, name: str) -> Any:
        """Wait until a pod runs."""
        return await self.reaches(name, "Running")

    async def fails(self, name: str) -> tuple[str, str]:
        """Wait until a pod has failed; return reason and message."""
        pod = await self.reaches(name, "Failed")
        return pod.status.reason, pod.status.message

    def model(self, node: str = "n1") -> KubeletNode:
        """Return the model of a node that runs."""
        admission = self.pool.kubelet(node).admission
        assert admission is not None
        return admission.model

    def cpus(self, name: str, *, node: str = "n1", container: str = "main") -> tuple[int, ...]:
        """Return the exclusive CPUs of a pod's container."""
        for pod in self.pool.kubelet(node).pod_resources():
            if pod.name == name:
                return next(other.cpu_ids for other in pod.containers if other.name == container)
        return ()

    async def node_document(self, name: str = "n1") -> dict[str, Any]:
        """Return a node as the API has it."""
        return await self.client.get(NODES.raw, name)


SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"


def plan(
    name: str, shape: str | None = None, *, kubernetes: str = "1.35", **config: Any
) -> NodePlan:
    """Return a node with two NUMA nodes of four cores and the static managers."""
    settings: dict[str, Any] = {
        "cpu_manager_policy": "static",
        "topology_manager_policy": "single-numa-node",
        "reserved_system_cpus": "0,8",
    }
    return NodePlan(
        name=name,
        machine=from_shape(shape or SHAPE),
        config=KubeletConfiguration(**{**settings, **config}),
        kubernetes=kubernetes,
    )


def pod_document(
    name: str,
    *,
    node: str = "n1",
    cpu: str = "2",
    memory: str = "1Gi",
    annotations: dict[str, str] | None = None,
    restart: str = "Always",
    limits: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a guaranteed pod of one container."""
    resources = {"limits": {"cpu": cpu, "memory": memory, **(limits or {})}}
    lab = {f"lab.numakube.dev/{key}": text for key, text in (annotations or {}).items()}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": lab},
        "spec": {
            "nodeName": node,
            "restartPolicy": restart,
            "containers": [{"name": "main", "image": "registry/app:1", "resources": resources}],
            **spec,
        },
    }
