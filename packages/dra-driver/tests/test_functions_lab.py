"""Pods that ask for CPUs, memory and a virtual function, and get them of one NUMA node by claim."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_claim_writer import asking, writing
from test_claim_writing import container
from test_lab import NODE, World, dra_lab, is_on
from tests.real.kube_scheduler import kube_scheduler, needs_sharing_scheduler
from tests.sites.plugin import shared_server, sites

from kube_lab_server.kinds.all_kinds import GATES
from numakube.api.resource_slices import DeviceClass
from numakube.apps.deployer.apply_and_remove import DeployEngine
from numakube.errors import AlreadyExists
from numakube.kube.catalog import (
    DAEMON_SETS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from numakube.kubelet.config_from_words import UNALIGNED
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import Choices, objects_of
from numakube.node.pci.fake_pci import FakePci
from numakube.testing import until
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.claims.claim_writing import Wish, Written, write_claims
from numakube_dra_driver.claims.served_resources import serving_of
from numakube_dra_driver.manifest import NAME
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.nodes.node_cgroups import group_of_container
from numakube_lab.testing import Opener, SiteOptions
from numakube_sriov.manifest import NAME as SRIOV
from numakube_sriov.manifest import SriovManifest

__all__ = ["shared_server", "sites"]  # fixtures

pytestmark = pytest.mark.timeout(230)
VF = "intel.com/sriov"
POOLS = ({"resourceName": "sriov", "selectors": {"drivers": ["iavf"]}},)
SHAPE = "2 sockets, 8 cores, smt 2, 16Gi"


async def functions(world: World) -> list[str]:
    """Return the functions that are offered."""
    return sorted(name for name in await world.devices() if name.startswith("pci-"))


async def allocated(world: World, user: str) -> list[str]:
    """Return the devices that the claims of a pod have."""
    claims = (await world.cluster.client.list(RESOURCE_CLAIMS)).items
    return sorted(
        result["device"]
        for claim in claims
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", ())
        if any(one["name"] == user for one in claim["status"].get("reservedFor", ()))
    )


def fake_pci(world: World) -> FakePci:
    """Return the PCI bus of the node."""
    sockets = world.cluster.pool.sockets(NODE)
    assert sockets is not None
    return FakePci(sockets.registry.parent / "sys")


async def test_one_annotation_gives_cpus_memory_and_a_function_of_one_numa_node(
    tmp_path: Path,
) -> None:
    """Four pods, two a NUMA node; nothing of them is left to the device plugins of the kubelet."""
    async with dra_lab(shape=SHAPE, functions=2, pools=POOLS) as world:
        await until(lambda: functions(world), lambda names: len(names) == 4)
        cgroups = world.cluster.pool.kubelet(NODE).cgroups
        assert cgroups is not None
        nodes = []
        async with writing(world, tmp_path) as admission:
            for number in range(4):
                name = f"p{number}"
                amounts = {"cpu": "4", "memory": "2Gi", VF: "1"}
                await admission.create(asking(name, container("app", **amounts)))
                cpus = await world.where(name)
                assert len(cpus) == 4
                node = 0 if cpus <= CpuSet.parse("0-7,16-23") else 1
                nodes.append(node)
                devices = await allocated(world, name)
                (function,) = [one for one in devices if one.startswith("pci-")]
                assert function.startswith(f"pci-0000-1{node}-")
                assert {f"cpu-numa{node}", f"memory-numa{node}"} < set(devices)
                made = await world.cluster.client.get(PODS, name, namespace="default")
                group = group_of_container(made, "app")
                await until(partial(is_on, cgroups.tree, group, str(node)))
                resources = made.spec.containers[0].resources
                assert resources is not None
                assert VF not in {**resources.requests, **resources.limits}
        assert sorted(nodes) == [0, 0, 1, 1]
        await world.gone("p0")
        assert len(await functions(world)) == 4


async def test_a_pod_that_asks_for_the_plugins_resource_gets_a_function_by_claim() -> None:
    """It is not changed, and nobody writes a claim for it but the scheduler."""
    async with dra_lab(shape=SHAPE, functions=1, pools=POOLS) as world:
        await until(lambda: functions(world), lambda names: len(names) == 2)
        await world.cluster.client.create(PODS.raw, with_function("old"))

        async def told() -> list[str]:
            claims = (await world.cluster.client.list(RESOURCE_CLAIMS)).items
            devices = [one for claim in claims for one in claim["status"].get("devices", ())]
            return [device["data"]["deviceID"] for device in devices]

        await until(told, lambda ids: len(ids) == 1 and ids[0].startswith("0000:1"))
        assert len(await allocated(world, "old")) == 1

        await until(partial(_runs, world, "old"))


async def test_a_function_that_goes_leaves_the_slices_and_comes_back() -> None:
    async with dra_lab(shape=SHAPE, functions=1, pools=POOLS) as world:
        await until(lambda: functions(world), lambda names: len(names) == 2)
        pci = fake_pci(world)
        pci.interface("0000:10:00.0", "ens0f0", operstate="down")
        await until(lambda: functions(world), lambda names: names == ["pci-0000-11-01-0"])
        pci.interface("0000:10:00.0", "ens0f0", operstate="up")
        await until(lambda: functions(world), lambda names: len(names) == 2)
        slices = (await world.cluster.client.list(RESOURCE_SLICES)).items
        pools = {one["spec"]["pool"]["name"] for one in slices}
        assert pools == {f"{NODE}/compute", f"{NODE}/pci"}


async def test_a_node_with_the_device_plugin_has_nothing_twice_and_can_change_over() -> None:
    """What the plugin offers, and what a pod still has through it, is in no slice of the driver."""
    async with dra_lab(shape=SHAPE, functions=1) as world:
        client = world.cluster.client
        engine = DeployEngine(client=client, tell=lambda _: None)
        plugin = SriovManifest(pools=POOLS).objects()
        await engine.deploy(plugin)
        assert await engine.wait_ready(plugin, 120.0, lambda _: None) == ""

        async def by_plugin() -> str:
            node = await client.get(NODES, NODE)
            return str(node.status.allocatable.get(VF, "0"))

        await until(by_plugin, lambda count: count == "2")
        await client.create(PODS.raw, with_function("old"))
        await until(partial(_runs, world, "old"))
        world.pools = POOLS
        await world.deploy()
        slices = (await client.list(RESOURCE_SLICES)).items
        assert {one["spec"]["pool"]["name"] for one in slices} == {f"{NODE}/compute", f"{NODE}/pci"}
        assert await functions(world) == []
        await client.delete(DAEMON_SETS, SRIOV, namespace="numakube", propagation="Foreground")
        # One function is the older pod's until it ends.
        await until(lambda: functions(world), lambda names: len(names) == 1)
        await world.gone("old")
        await until(lambda: functions(world), lambda names: len(names) == 2)


async def test_a_device_plugin_that_comes_later_leaves_what_claims_have() -> None:
    async with dra_lab(shape=SHAPE, functions=1, pools=POOLS) as world:
        client = world.cluster.client
        await until(lambda: functions(world), lambda names: len(names) == 2)
        await client.create(PODS.raw, with_function("claims"))
        await until(partial(_runs, world, "claims"))
        plugin = SriovManifest(pools=POOLS).objects()
        engine = DeployEngine(client=client, tell=lambda _: None)
        await engine.deploy(plugin)

        async def by_plugin() -> tuple[str, str]:
            status = (await client.get(NODES, NODE)).status
            return str(status.capacity.get(VF, "")), str(status.allocatable.get(VF, ""))

        # The kubelet knows both, and may give out one; and so the driver offers none.
        await until(by_plugin, lambda counts: counts == ("2", "1"))
        held = await allocated(world, "claims")
        await until(lambda: functions(world), lambda names: names == held)


async def test_functions_stay_with_their_pods_while_driver_and_kubelet_start_again() -> None:
    async with dra_lab(shape=SHAPE, functions=1, pools=POOLS) as world:
        client = world.cluster.client
        await until(lambda: functions(world), lambda names: len(names) == 2)
        await client.create(PODS.raw, with_function("a"))
        await until(partial(_runs, world, "a"))
        await client.delete(DAEMON_SETS, NAME, namespace="numakube", propagation="Foreground")

        async def drivers() -> int:
            return len((await client.list(PODS, namespace="numakube")).items)

        await until(drivers, lambda count: count == 0)
        await client.create(PODS.raw, with_function("b"))
        await world.cluster.pool.restart(NODE)
        await world.deploy()
        await until(partial(_runs, world, "b"))
        assert await _runs(world, "a")
        held = [*await allocated(world, "a"), *await allocated(world, "b")]
        assert sorted(held) == ["pci-0000-10-01-0", "pci-0000-11-01-0"]
        # What ends is given to the next one, and nothing else.
        await client.create(PODS.raw, with_function("c"))
        await world.gone("a")
        await until(partial(_runs, world, "c"))
        assert await allocated(world, "c") == held[:1]


def with_function(name: str) -> dict[str, Any]:
    """Return a plain pod that asks for a function as for one of a device plugin."""
    spec = {"containers": [container("app", cpu="1", **{VF: "1"})]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def _runs(world: World, name: str) -> bool:
    made = await world.cluster.client.get(PODS, name, namespace="default")
    return made.status is not None and made.status.phase == "Running"


@pytest.mark.parametrize(
    "is_stock", [False, pytest.param(True, marks=needs_sharing_scheduler)], ids=["ours", "stock"]
)
async def test_any_scheduler_gives_plain_pods_what_is_of_one_numa_node(
    sites: Opener, tmp_path: Path, request: pytest.FixtureRequest, *, is_stock: bool
) -> None:
    """CPUs, memory and a function, on the lab's API server and on a real one."""
    if is_stock and request.node.callspec.params["sites"] == "lab":
        pytest.skip("the lab's API server is too old for a stock scheduler that shares devices")
    (plan,) = uniform_plans(1, from_shape(SHAPE), UNALIGNED, "1.36")
    plans = (replace(plan, virtual_functions=2),)
    options = SiteOptions(
        plans=plans, exporters=False, rbac=True, gates=GATES, default_scheduler=not is_stock
    )
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(sites(options))
        if is_stock:
            flags = (f"--kubeconfig={site.kubeconfig}", "--leader-elect=false")
            await stack.enter_async_context(kube_scheduler(tmp_path, *flags))
        client = site.client
        documents = objects_of(["dra"], Choices(pools=POOLS))
        engine = DeployEngine(client=client, tell=lambda _: None)
        await engine.deploy(documents)
        assert await engine.wait_ready(documents, 120.0, lambda _: None) == ""

        async def offered() -> int:
            slices = (await client.list(RESOURCE_SLICES)).items
            return sum(len(one["spec"].get("devices") or ()) for one in slices)

        # Two NUMA nodes with CPUs and memory, and four functions.
        await until(offered, lambda count: count == 8)
        classes = DEVICE_CLASSES.decoded_as(DeviceClass)
        serving = serving_of((await client.list(classes)).items)
        for number in range(4):
            written = write_claims(with_whole_cpus(f"p{number}"), Wish(), serving)
            assert isinstance(written, Written), written
            with contextlib.suppress(AlreadyExists):
                await client.create(RESOURCE_CLAIM_TEMPLATES, written.template)
            await client.create(PODS.raw, written.pod)

        async def places() -> list[list[str]]:
            claims = (await client.list(RESOURCE_CLAIMS)).items
            found = [claim.get("status", {}).get("devices") or () for claim in claims]
            return sorted(sorted(one["device"] for one in devices) for devices in found)

        wanted = sorted(
            [f"cpu-numa{node}", f"memory-numa{node}", f"pci-0000-1{node}-01-{vf}"]
            for node in range(2)
            for vf in range(2)
        )
        await until(places, lambda found: found == wanted)


def with_whole_cpus(name: str) -> dict[str, Any]:
    """Return a plain pod that asks for what a claim is written for."""
    spec = {"containers": [container("app", cpu="4", **{VF: "1"})]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
