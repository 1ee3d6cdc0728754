"""From an annotation to a control group: everything as it is deployed, in a lab."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from packages.placement.tests.enforcer.enforced import NODE, EnforcedCluster, enforced_lab

from numakube.node.cgroups.group_files import CPUS
from numakube.testing import until
from numakube.values.cpuset import CpuSet

pytestmark = pytest.mark.timeout(300)

EVERYTHING = "0-7"


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
async def any_world(request: pytest.FixtureRequest) -> AsyncIterator[EnforcedCluster]:
    """The same with control groups of either version."""
    async with enforced_lab(cgroups=request.param) as world:
        await world.deploy()
        yield world


@pytest.fixture
async def world() -> AsyncIterator[EnforcedCluster]:
    """A lab with one node of two NUMA nodes with four CPUs each, and the enforcer."""
    async with enforced_lab() as world:
        await world.deploy()
        yield world


async def test_a_bound_pod_has_its_cpus_for_itself_until_it_ends(
    any_world: EnforcedCluster,
) -> None:
    """Others move off, come back, and drift does not last."""
    world = any_world
    await world.create("shared")
    assert await world.cpus("shared") == EVERYTHING

    status = {
        "cpuset": "0-1",
        "numaNodeResources": [{"node": 0, "resources": {"cpu": "2", "memory": "64Mi"}}],
    }
    await world.create("bound", status=status, cpus="2")
    await world.runs_on("bound", "0-1")
    await world.runs_on("shared", "2-7")
    tree, group = world.tree(), await world.group("bound")
    await until(lambda: tree.mems(group), lambda mems: mems == "0")
    await until(lambda: tree.quota(group).split()[0], lambda quota: quota == tree.version.unlimited)

    # Somebody widens the container, then the kubelet starts again and writes everything again.
    tree.files.write(group, CPUS, EVERYTHING)
    await world.runs_on("bound", "0-1")
    await world.cluster.pool.restart(NODE)
    await world.runs_on("bound", "0-1")
    await world.runs_on("shared", "2-7")

    await world.delete("bound")
    await world.runs_on("shared", EVERYTHING)


async def test_each_container_gets_its_own(world: EnforcedCluster) -> None:
    """By its name; one that was not aligned runs near the others, off their CPUs."""
    own = [
        {"name": "a", "cpuset": "0-1", "numaNodeResources": [{"node": 0, "resources": {"cpu": 2}}]},
        {"name": "b", "cpuset": "4", "numaNodeResources": [{"node": 1, "resources": {"cpu": 1}}]},
    ]
    status = {
        "cpuset": "0-1,4",
        "numaNodeResources": [
            {"node": 0, "resources": {"cpu": 2}},
            {"node": 1, "resources": {"cpu": 1}},
        ],
        "containers": own,
    }
    await world.create("pod", status=status, containers=("a", "b", "side"))
    await world.runs_on("pod", "0-1", container="a")
    await world.runs_on("pod", "4", container="b")
    await world.runs_on("pod", "2-3,5-7", container="side")
    # Nobody asked before they started.
    assert "it has been set right" in await world.told("pod", "StartedUnpinned")


async def test_a_pod_without_cpus_of_its_own_stays_near_its_memory(world: EnforcedCluster) -> None:
    """It shares the pool of its NUMA node."""
    near = {"numaNodeResources": [{"node": 1, "resources": {"cpu": "2", "memory": "64Mi"}}]}
    await world.create("near", status=near)
    await world.create("bound", cpuset="6-7")
    await world.runs_on("near", "4-5")
    group = await world.group("near")
    await until(lambda: world.tree().mems(group), lambda mems: mems == "1")


async def test_what_cannot_be_read_is_told_and_left_alone(world: EnforcedCluster) -> None:
    """With the field, on the pod itself."""
    await world.create("bad", status={"cpuset": "0-x"})
    message = await world.told("bad", "InvalidAllotment")
    assert "scheduling.koordinator.sh/resource-status" in message
    assert "cpuset" in message
    await world.create("bound", cpuset="0")
    await world.runs_on("bound", "0")
    assert await world.cpus("bad") == EVERYTHING


async def test_everything_is_put_back_when_the_enforcer_goes(any_world: EnforcedCluster) -> None:
    """And a new one begins where the old one ended."""
    world = any_world
    await world.create("bound", cpuset="0-1")
    await world.create("shared")
    await world.runs_on("bound", "0-1")
    await world.runs_on("shared", "2-7")

    await world.withdraw()
    tree = world.tree()
    assert await world.cpus("bound") == await world.cpus("shared") == EVERYTHING
    assert {tree.cpus(group) for group in tree.groups()} <= {"", EVERYTHING}

    await world.deploy()
    await world.runs_on("bound", "0-1")
    await world.runs_on("shared", "2-7")


async def test_a_lab_can_be_started_with_enforcers() -> None:
    """On every node, whose groups are its own."""
    async with enforced_lab(nodes=2, enforcers=True) as world:
        await world.create("here", cpuset="0-1")
        await world.create("there", cpuset="0-1", node="node-1")
        await world.create("shared", node="node-1")
        await world.runs_on("here", "0-1")
        await world.runs_on("there", "0-1", node="node-1")
        await world.runs_on("shared", "2-7", node="node-1")


async def test_a_wish_becomes_control_groups() -> None:
    """The scheduler decides for each container, the enforcer makes it true, others move off."""
    async with enforced_lab(shape="2 sockets, 4 cores, smt 2, 16Gi") as world:
        await world.deploy("api", "exporter", "scheduler")
        await world.create("shared")
        await world.wish(
            "pod",
            spec={"numaTopologyPolicy": "SingleNUMANode", "numaTopologyScope": "container"},
            containers=("a", "b"),
            cpus="4",
        )
        given = await world.allotted("pod")
        assert given.keys() == {"a", "b"}
        for name, cpus in given.items():
            await world.runs_on("pod", cpus, container=name)
            assert len({cpu % 8 // 4 for cpu in CpuSet.parse(cpus)}) == 1
        bound = CpuSet.parse(given["a"]) | CpuSet.parse(given["b"])
        assert len(bound) == 8
        await world.runs_on("shared", str(CpuSet(0xFFFF) - bound))


async def test_a_static_kubelets_pods_are_left_alone() -> None:
    """What it has pinned stays pinned, and its shared pool is its own business."""
    async with enforced_lab(kubelet="policy=none,cpu=static,memory=None") as world:
        await world.deploy()
        await world.create("pinned", cpus="2")
        pinned = await world.cpus("pinned")
        assert pinned != EVERYTHING
        await world.create("shared")
        shared = await world.cpus("shared")
        await world.create("bound", cpuset="7")
        await world.runs_on("bound", "7")

        async def untouched() -> bool:
            return (await world.cpus("pinned"), await world.cpus("shared")) == (pinned, shared)

        await until(untouched)
