"""A mixed cluster: a node for each way in which a kubelet aligns, and nodes whose kubelet does not.

Everything runs as deployed: scheduler and enforcers as pods with their rights, exporters beside the
kubelets. A machine has two NUMA nodes of eight CPUs without hyper-threads.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from packages.placement.tests.enforcer.enforced import EnforcedCluster

from numakube.api.codec import decode
from numakube.api.koordinator import keys
from numakube.api.koordinator.pod_annotations import ResourceStatus
from numakube.api.pod import Pod
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from numakube.kube.client import merge_patch
from numakube.kubelet.config_from_words import UNALIGNED, lab_configuration, parse_kubelet_options
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import Choices
from numakube.testing import refusal_of, until
from numakube.values.cpuset import CpuSet
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.testing import lab_cluster

POLICIES = {
    "BestEffort": "best-effort",
    "Restricted": "restricted",
    "SingleNUMANode": "single-numa-node",
}
SCOPES = ("pod", "container")
PLAIN = ("plain-0", "plain-1")
"""Nodes whose kubelet aligns nothing."""
NUMA_CPUS = (CpuSet.parse("0-7"), CpuSet.parse("8-15"))
LSR = {keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"}


def kubelet_node(policy: str, scope: str) -> str:
    """Return the node whose kubelet aligns by that policy and scope."""
    return f"{POLICIES[policy]}-{scope}"


KUBELETS = tuple(kubelet_node(policy, scope) for policy in POLICIES for scope in SCOPES)


def numa_nodes(cpus: CpuSet) -> tuple[int, ...]:
    """Return the NUMA nodes that have any of *cpus*."""
    return tuple(node for node, all_cpus in enumerate(NUMA_CPUS) if cpus & all_cpus)


@asynccontextmanager
async def mixed_cluster() -> AsyncIterator[Mixed]:
    """Run the cluster with all its components."""
    async with lab_cluster(plans=_plans(), rbac=True, enforcers=True) as cluster:
        mixed = Mixed(EnforcedCluster(cluster))
        await mixed.world.deploy("scheduler")
        await mixed.reported()
        yield mixed


def _plans() -> tuple[NodePlan, ...]:
    words = dict.fromkeys(PLAIN, UNALIGNED) | {
        kubelet_node(policy, scope): f"policy={POLICIES[policy]},scope={scope}"
        for policy in POLICIES
        for scope in SCOPES
    }
    machine = from_shape("2 sockets, 8 cores, 32Gi")
    return tuple(
        NodePlan(
            name=name,
            machine=machine,
            config=lab_configuration(machine, parse_kubelet_options(text)),
            kubernetes="1.35",
        )
        for name, text in words.items()
    )


@dataclass(frozen=True)
class Mixed:
    """The cluster, and what one does with it."""

    world: EnforcedCluster

    async def reported(self) -> None:
        """Wait until every node has told of its zones."""

        async def told() -> bool:
            found = (await self.world.cluster.client.list(NODE_RESOURCE_TOPOLOGIES)).items
            return len(found) == len(PLAIN) + len(KUBELETS)

        await until(told)

    async def create(
        self,
        name: str,
        cpus: Sequence[int],
        *,
        spec: Mapping[str, Any] | None = None,
        node: str = "",
        labels: Mapping[str, str] | None = None,
        extra: Sequence[Mapping[str, Any]] = (),
        annotations: Mapping[str, str] | None = None,
        selector: Mapping[str, str] | None = None,
    ) -> None:
        """Create a pod with a container for each of *cpus*, which wants *spec*, for one node."""
        wanted = {} if spec is None else {keys.NUMA_TOPOLOGY_SPEC: json.dumps(spec)}
        document = {
            "metadata": {
                "name": name,
                "labels": dict(LSR if labels is None else labels),
                "annotations": {**wanted, **(annotations or {})},
            },
            "spec": {
                "schedulerName": Choices().scheduler_name,
                "nodeSelector": ({"kubernetes.io/hostname": node} if node else {})
                | dict(selector or {}),
                "containers": [
                    *(_container(f"c{index}", count) for index, count in enumerate(cpus)),
                    *extra,
                ],
            },
        }
        await self.world.cluster.client.create(PODS.raw, document, namespace="default")

    async def runs(self, name: str) -> Pod:
        """Wait until a pod runs."""
        return await self.world.running(name)

    async def refused(self, name: str, words: str = "") -> str:
        """Wait until it is said in these words why a pod is not scheduled; return all of them."""

        async def said() -> str:
            return refusal_of(await self.world.get(name))

        return await until(said, lambda text: text and words in text)

    async def given(self, name: str) -> ResourceStatus | None:
        """Return what the scheduler wrote on a pod; ``None`` if nothing."""
        text = (await self.world.get(name)).metadata.annotations.get(keys.RESOURCE_STATUS)
        return None if text is None else decode(ResourceStatus, text)

    async def pinned(self, name: str, *, container: str = "c0") -> CpuSet:
        """Return the CPUs that the kubelet has given a container."""
        node = (await self.world.get(name)).spec.node_name
        (found,) = [
            other.cpu_ids
            for pod in self.world.cluster.pool.kubelet(node).pod_resources()
            for other in pod.containers
            if (pod.name, other.name) == (name, container)
        ]
        return CpuSet.of(found)

    async def confined(self, name: str, cpus: CpuSet, *, container: str = "c0") -> None:
        """Wait until the control group of a container has just *cpus*."""
        node = (await self.world.get(name)).spec.node_name
        await self.world.runs_on(name, str(cpus), container=container, node=node)

    async def label(self, node: str, **labels: str | None) -> None:
        """Set or remove labels of a node, by the ends of their keys."""
        change = {
            f"node.koordinator.sh/{name.replace('_', '-')}": value for name, value in labels.items()
        }
        patch = merge_patch({"metadata": {"labels": change}})
        await self.world.cluster.client.patch(NODES, node, patch)

    async def clear(self) -> None:
        """Delete all pods of tests, and the labels of nodes."""
        for node in PLAIN:
            await self.label(node, numa_topology_policy=None, numa_topology_scope=None)
        found = (await self.world.cluster.client.list(PODS, namespace="default")).items
        for pod in found:
            await self.world.delete(pod.metadata.name)


def _container(name: str, cpus: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    return {
        "name": name,
        "image": "registry.example/app:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
