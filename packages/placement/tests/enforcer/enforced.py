"""A lab whose kubelets align nothing, with the enforcer as it is deployed.

async with enforced_lab() as world:
    await world.deploy()
    await world.create("a", cpuset="0-1")
    await world.runs_on("a", "0-1")
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from numakube.api.koordinator import keys
from numakube.api.pod import Pod
from numakube.apps.deployer.apply_and_remove import DeployEngine
from numakube.errors import NotFound
from numakube.kube.catalog import CORE_EVENTS, DAEMON_SETS, PODS
from numakube.kubelet.config_from_words import UNALIGNED
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import Choices, objects_of
from numakube.node.cgroups.fake_groups import FakeCgroups
from numakube.testing import until
from numakube_lab.nodes.node_cgroups import group_of_container
from numakube_lab.testing import LabCluster, lab_cluster, uniform_plans

NODE = "node-0"
SHAPE = "2 sockets, 4 cores, 16Gi"
LIMIT_SECONDS = 120.0


@asynccontextmanager
async def enforced_lab(
    *,
    nodes: int = 1,
    shape: str = SHAPE,
    kubelet: str = UNALIGNED,
    enforcers: bool = False,
    cgroups: int = 2,
) -> AsyncIterator[EnforcedCluster]:
    """Run a lab in which rights count."""
    plans = tuple(
        replace(plan, cgroup_version=cgroups)
        for plan in uniform_plans(nodes, from_shape(shape), kubelet, "1.35")
    )
    async with lab_cluster(plans=plans, rbac=True, exporters=False, enforcers=enforcers) as cluster:
        yield EnforcedCluster(cluster)


@dataclass(frozen=True)
class EnforcedCluster:
    """A cluster and what one does with it."""

    cluster: LabCluster

    def tree(self, node: str = NODE) -> FakeCgroups:
        """Return the control groups of a node."""
        cgroups = self.cluster.pool.kubelet(node).cgroups
        assert cgroups is not None
        return cgroups.tree

    async def deploy(self, *components: str) -> None:
        """Deploy the enforcer, and other components; wait until they are ready."""
        documents = objects_of(("enforcer", *components), Choices())
        engine = DeployEngine(client=self.cluster.client, tell=lambda _: None)
        await engine.deploy(documents)
        assert await engine.wait_ready(documents, LIMIT_SECONDS, lambda _: None) == ""

    async def withdraw(self) -> None:
        """Take the enforcer away; its pods are told to end."""
        await self.cluster.client.delete(
            DAEMON_SETS, "numakube-enforcer", namespace="numakube", propagation="Foreground"
        )

        async def gone() -> bool:
            pods = (await self.cluster.client.list(PODS, namespace="numakube")).items
            return not pods

        await until(gone)

    async def create(
        self,
        name: str,
        *,
        cpuset: str = "",
        status: Mapping[str, Any] | None = None,
        node: str = NODE,
        cpus: str = "",
        containers: tuple[str, ...] = ("app",),
    ) -> Pod:
        """Create a pod on a node with an allotment, and wait until it runs."""
        allotted = {"cpuset": cpuset} if cpuset else status
        annotations = {} if allotted is None else {keys.RESOURCE_STATUS: json.dumps(allotted)}
        amounts = {"cpu": cpus, "memory": "64Mi"} if cpus else {}
        document = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "nodeName": node,
                "containers": [
                    {
                        "name": container,
                        "image": "registry.example/app:1",
                        "resources": {"requests": amounts, "limits": amounts},
                    }
                    for container in containers
                ],
            },
        }
        await self.cluster.client.create(PODS.raw, document, namespace="default")
        return await self.running(name)

    async def wish(
        self,
        name: str,
        *,
        spec: Mapping[str, str],
        cpus: str,
        qos: str = "LSR",
        containers: tuple[str, ...] = ("app",),
    ) -> Pod:
        """Create a pod for numakube's scheduler, and wait until it runs."""
        amounts = {"cpu": cpus, "memory": "64Mi"}
        document = {
            "metadata": {
                "name": name,
                "labels": {keys.QOS_CLASS: qos},
                "annotations": {keys.NUMA_TOPOLOGY_SPEC: json.dumps(spec)},
            },
            "spec": {
                "schedulerName": "numakube-scheduler",
                "containers": [
                    {
                        "name": container,
                        "image": "registry.example/app:1",
                        "resources": {"requests": amounts, "limits": amounts},
                    }
                    for container in containers
                ],
            },
        }
        await self.cluster.client.create(PODS.raw, document, namespace="default")
        return await self.running(name)

    async def allotted(self, name: str) -> dict[str, str]:
        """Return the CPUs that a scheduler gave to each container of a pod."""
        status = json.loads((await self.get(name)).metadata.annotations[keys.RESOURCE_STATUS])
        return {container["name"]: container["cpuset"] for container in status["containers"]}

    async def get(self, name: str) -> Pod:
        """Return a pod."""
        return await self.cluster.client.get(PODS, name, namespace="default")

    async def running(self, name: str) -> Pod:
        """Wait until a pod runs; return it."""
        return await until(
            lambda: self.get(name),
            lambda pod: pod.status is not None and pod.status.phase == "Running",
        )

    async def delete(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        await self.cluster.client.delete(PODS, name, namespace="default")

        async def gone() -> bool:
            try:
                await self.get(name)
            except NotFound:
                return True
            return False

        await until(gone)

    async def group(self, name: str, container: str = "app") -> str:
        """Return the control group of a container."""
        return group_of_container(await self.get(name), container)

    async def cpus(self, name: str, container: str = "app", node: str = NODE) -> str:
        """Return the CPUs that a container can run on."""
        return self.tree(node).effective_cpus(await self.group(name, container))

    async def runs_on(
        self, name: str, cpus: str, *, container: str = "app", node: str = NODE
    ) -> None:
        """Wait until a container can run on just these CPUs."""
        await until(lambda: self.cpus(name, container, node), lambda found: found == cpus)

    async def told(self, name: str, reason: str) -> str:
        """Wait for an event about a pod; return its message."""

        async def said() -> list[str]:
            events = (await self.cluster.client.list(CORE_EVENTS, namespace="default")).items
            return [
                event.message
                for event in events
                if event.involved_object.name == name and event.reason == reason
            ]

        return (await until(said))[0]
