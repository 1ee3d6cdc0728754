"""Pods with claims on a lab: a scheduler chooses the NUMA node, and the driver makes it true."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from kube_lab_server.kinds.all_kinds import GATES
from numakube.apps.deployer.apply_and_remove import DeployEngine
from numakube.errors import ApiError, NotFound
from numakube.kube import ObjectKey, request_token
from numakube.kube.catalog import (
    DAEMON_SETS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from numakube.kubelet.config_from_words import UNALIGNED
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import Choices, objects_of
from numakube.testing import until
from numakube.values.cpuset import CpuSet, union
from numakube_dra_driver.manifest import NAME, DraManifest
from numakube_lab.nodes.node_cgroups import group_of, group_of_container
from numakube_lab.testing import LabCluster, lab_cluster, uniform_plans

NODE = "node-0"
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
pytestmark = pytest.mark.timeout(230)


@dataclass
class World:
    """A lab with the driver as it is deployed."""

    cluster: LabCluster
    compatible: bool = False
    pools: tuple[dict[str, Any], ...] = ()

    async def deploy(self) -> None:
        """Deploy the driver; wait until it is ready and its slices are there."""
        documents = objects_of(["dra"], Choices(pools=self.pools))
        if self.compatible:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "numakube"}}
            documents = [namespace, *DraManifest(compatible=True).objects()]
        engine = DeployEngine(client=self.cluster.client, tell=lambda _: None)
        await engine.deploy(documents)
        assert await engine.wait_ready(documents, 120.0, lambda _: None) == ""
        await until(self.devices)

    async def devices(self) -> list[str]:
        """Return the names of the devices that are offered."""
        slices = (await self.cluster.client.list(RESOURCE_SLICES)).items
        return [device["name"] for entry in slices for device in entry["spec"].get("devices", ())]

    async def pod(self, name: str, cpus: str, **more: Any) -> None:
        """Create a pod with a claim of so many CPUs, and of what else is in *more*."""
        devices = {"requests": [asked("cpus", "numa-cpus", cpu=cpus)], **more}
        template = {
            "metadata": {"name": f"of-{name}", "namespace": "default"},
            "spec": {"spec": {"devices": devices}},
        }
        await self.cluster.client.create(RESOURCE_CLAIM_TEMPLATES, template)
        pod = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "resourceClaims": [{"name": "mine", "resourceClaimTemplateName": f"of-{name}"}],
                "containers": [
                    {"name": "app", "image": "i", "resources": {"claims": [{"name": "mine"}]}}
                ],
            },
        }
        await self.cluster.client.create(PODS.raw, pod)

    async def plain(self, name: str) -> None:
        """Create a pod without claims on the node."""
        container = {"name": "app", "image": "i"}
        pod = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": NODE, "containers": [container]},
        }
        await self.cluster.client.create(PODS.raw, pod)

    async def runs_on(self, name: str, cpus: str) -> None:
        """Wait until a pod runs, its container on *cpus*."""
        await self.where(name, lambda seen: seen == cpus)

    async def where(self, name: str, holds: Callable[[str], bool] = bool) -> CpuSet:
        """Wait until a pod runs, and its CPUs are as they should be; return them."""
        kubelet = self.cluster.pool.kubelet(NODE)
        assert kubelet.cgroups is not None
        tree = kubelet.cgroups.tree

        async def found() -> str:
            pod = await self.cluster.client.get(PODS, name, namespace="default")
            if pod.status is None or pod.status.phase != "Running":
                return ""
            own = tree.cpus(group_of_container(pod, "app"))
            return own or tree.cpus(group_of(pod))

        return CpuSet.parse(await until(found, holds))

    async def cpus_of(self, name: str) -> dict[str, str]:
        """Return the CPUs of each container of a pod."""
        kubelet = self.cluster.pool.kubelet(NODE)
        assert kubelet.cgroups is not None
        pod = await self.cluster.client.get(PODS, name, namespace="default")
        if pod.status is None or pod.status.phase != "Running":
            return {container.name: "" for container in pod.spec.containers}
        tree = kubelet.cgroups.tree
        names = [container.name for container in pod.spec.containers]
        return {name: tree.cpus(group_of_container(pod, name)) for name in names}

    async def gone(self, name: str) -> None:
        """Delete a pod, and wait until it and its claims are gone."""
        await self.cluster.client.delete(PODS, name, namespace="default")

        async def left() -> int:
            claims = (await self.cluster.client.list(RESOURCE_CLAIMS)).items
            try:
                await self.cluster.client.get(PODS, name, namespace="default")
            except NotFound:
                return sum(name in claim["metadata"]["name"] for claim in claims)
            return -1

        await until(left, lambda count: count == 0)


def asked(name: str, device_class: str, **amounts: str) -> dict[str, Any]:
    """Return a request of a claim."""
    exactly: dict[str, Any] = {"deviceClassName": device_class}
    if wanted := {f"numakube.dev/{what}": text for what, text in amounts.items() if text}:
        exactly["capacity"] = {"requests": wanted}
    return {"name": name, "exactly": exactly}


@asynccontextmanager
async def dra_lab(
    gates: frozenset[str] = GATES,
    *,
    shape: str = SHAPE,
    compatible: bool = False,
    functions: int = 0,
    pools: tuple[dict[str, Any], ...] = (),
) -> AsyncIterator[World]:
    """Run a lab in which rights count, with the driver; cards have so many virtual *functions*."""
    (plan,) = uniform_plans(1, from_shape(shape), UNALIGNED, "1.36")
    plans = (replace(plan, virtual_functions=functions),)
    async with lab_cluster(plans=plans, rbac=True, exporters=False, gates=gates) as cluster:
        world = World(cluster, compatible, pools)
        await world.deploy()
        yield world


async def test_a_pod_with_a_claim_has_its_cpus_and_nobody_else() -> None:
    async with dra_lab() as world:
        assert (await world.devices())[:2] == ["cpu-numa0", "cpu-numa1"]
        await world.plain("other")
        await world.pod("a", "4")
        await world.runs_on("a", "1-2,9-10")

        async def told() -> list[Any]:
            (claim,) = (await world.cluster.client.list(RESOURCE_CLAIMS)).items
            return [device["data"] for device in claim["status"].get("devices", ())]

        await until(told, lambda data: [one["cpus"] for one in data] == ["1-2,9-10"])
        await world.runs_on("other", "0,3-8,11-15")
        await world.pod("b", "8")
        await world.runs_on("b", "4-7,12-15")
        await world.runs_on("other", "0,3,8,11")
        await world.gone("a")
        await world.runs_on("other", "0-3,8-11")


async def test_cpus_memory_and_hugepages_of_a_claim_are_of_one_numa_node() -> None:
    """NUMA node 0 has CPUs for both pods, and hugepages for one."""
    shape = "2 sockets, 8 cores, smt 2, 16Gi, hugepages-2Mi 512"
    numa_node = {"matchAttribute": "resource.kubernetes.io/numaNode"}
    bundle = {
        "opaque": {
            "driver": "numakube.dev",
            "parameters": {
                "apiVersion": "numakube.dev/v1alpha1",
                "kind": "ClaimParameters",
                "bundle": True,
            },
        }
    }
    async with dra_lab(shape=shape) as world:
        cgroups = world.cluster.pool.kubelet(NODE).cgroups
        assert cgroups is not None
        for name, cpus, node in (("a", "1-2,17-18", "0"), ("b", "8-9,24-25", "1")):
            await world.pod(
                name,
                "4",
                requests=[
                    asked("c0", "numa-cpus", cpu="4"),
                    asked("c0-mem", "numa-memory", memory="4Gi"),
                    asked("c0-huge", "numa-hugepages-2mi", hugepages="600Mi"),
                ],
                constraints=[numa_node],
                config=[bundle],
            )
            await world.runs_on(name, cpus)
            pod = await world.cluster.client.get(PODS, name, namespace="default")
            group = group_of_container(pod, "app")
            await until(partial(is_on, cgroups.tree, group, node))


def is_on(tree: Any, group: str, node: str) -> bool:
    """Tell whether a container may use memory of that NUMA node alone."""
    return bool(tree.mems(group) == node)


def as_before(name: str, cpus: str) -> dict[str, Any]:
    """Return a request as it is written for dra-driver-cpu."""
    amount = {"requests": {"dra.cpu/cpu": cpus}}
    return {"name": name, "exactly": {"deviceClassName": "dra.cpu", "capacity": amount}}


async def test_pods_that_are_written_for_dra_driver_cpu() -> None:
    """CPUs of their own, everybody else elsewhere, and back when they end."""
    async with dra_lab(shape="2 sockets, 8 cores, smt 2, 16Gi", compatible=True) as world:
        offered = {"cpudevnuma000", "cpudevnuma001", "memory-numa0", "memory-numa1"}
        await until(world.devices, lambda names: set(names) == offered)
        await world.plain("older")
        names = [f"p{number}" for number in range(5)]
        for name in names:
            await world.pod(name, "", requests=[as_before("cpus", "2")])
        taken = [await world.where(name) for name in names]
        assert [len(cpus) for cpus in taken] == [2] * 5
        claimed = CpuSet(union(cpus.mask for cpus in taken))
        assert len(claimed) == 10
        rest = str(CpuSet.parse("0-31") - claimed)
        await world.plain("newer")
        for name in ("older", "newer"):
            await world.runs_on(name, rest)
        for name in names:
            await world.gone(name)
        # Those that run get everything back, not only those that start.
        for name in ("older", "newer"):
            await world.where(name, lambda seen: seen in ("", "0-31"))
        await world.pod("two", "", requests=[as_before("one", "1"), as_before("other", "1")])
        assert len(await world.where("two")) == 2


async def test_where_claims_cannot_share_devices_cores_are_offered() -> None:
    """As with API servers 1.34 and 1.35."""
    async with dra_lab(frozenset()) as world:
        await until(world.devices, lambda names: "core-0001" in names)
        await world.pod("a", "")
        await world.runs_on("a", "1,9")


async def test_a_kubelet_that_starts_again_gets_the_slices_back_and_leaves_pods_alone() -> None:
    async with dra_lab() as world:
        await world.pod("a", "4")
        await world.runs_on("a", "1-2,9-10")
        (before,) = (await world.cluster.client.list(RESOURCE_SLICES)).items
        await world.cluster.pool.restart(NODE)

        async def again() -> list[str]:
            slices = (await world.cluster.client.list(RESOURCE_SLICES)).items
            return [item["metadata"]["uid"] for item in slices]

        await until(again, lambda uids: uids and before["metadata"]["uid"] not in uids)
        await world.runs_on("a", "1-2,9-10")
        await world.pod("b", "4")
        await world.runs_on("b", "4-5,12-13")


async def test_claims_keep_their_cpus_while_the_driver_is_away() -> None:
    """Its pod comes back with the same ledger; a pod that comes meanwhile waits."""
    async with dra_lab() as world:
        await world.pod("a", "4")
        await world.runs_on("a", "1-2,9-10")
        client = world.cluster.client
        await client.delete(DAEMON_SETS, NAME, namespace="numakube", propagation="Foreground")

        async def drivers() -> int:
            return len((await client.list(PODS, namespace="numakube")).items)

        await until(drivers, lambda count: count == 0)
        await world.pod("b", "4")
        await world.runs_on("a", "1-2,9-10")
        await world.deploy()
        await world.runs_on("b", "4-5,12-13")
        await world.runs_on("a", "1-2,9-10")


async def test_a_driver_may_write_the_slices_of_its_own_node_alone() -> None:
    """The API server refuses those of others, whatever the account may do."""
    async with dra_lab() as world:
        client = world.cluster.client
        (found,) = (await client.list(RESOURCE_SLICES)).items
        pods = (await client.list(PODS, namespace="numakube")).items
        (driver,) = [pod for pod in pods if pod.metadata.name.startswith(NAME)]
        account = ObjectKey("numakube", NAME)
        token = await request_token(
            client, account, pod=ObjectKey("numakube", driver.metadata.name)
        )
        async with world.cluster.site.connect(token=token.token) as its:
            for change, words in (
                ({"nodeName": "node-9"}, "a driver on node node-0 may not write slices of node"),
                ({"driver": "gpu.example"}, "only slices of driver numakube.dev may be written"),
            ):
                metadata = {"name": "foreign"}
                with pytest.raises(ApiError, match=words):
                    await its.create(
                        RESOURCE_SLICES, {"metadata": metadata, "spec": {**found["spec"], **change}}
                    )
            await its.delete(RESOURCE_SLICES, found["metadata"]["name"])
