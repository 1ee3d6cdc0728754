"""Control groups of lab nodes come and go with pods, as on a real node."""

from __future__ import annotations

import pytest
from packages.placement.tests.enforcer.enforced import NODE, enforced_lab

from numakube.node.cgroups.group_files import CPUS
from numakube.node.cgroups.group_scan import scan

pytestmark = pytest.mark.timeout(300)


async def test_groups_come_and_go_with_containers() -> None:
    """A pod has one, its sandbox, and each container; all begin with nothing of their own."""
    async with enforced_lab() as world:
        tree = world.tree()
        pod = await world.create("a", containers=("x", "y"))
        (groups,) = scan(tree.files, "kubepods.slice", nested=False).values()
        assert len(groups.containers) == 3
        assert await world.group("a", "x") in groups.containers.values()
        assert tree.cpus(await world.group("a", "x")) == ""
        assert await world.cpus("a", "x") == "0-7"

        # A kubelet that starts again writes everything again, and nothing is lost.
        tree.files.write(await world.group("a", "x"), CPUS, "1")
        await world.cluster.pool.restart(NODE)
        assert tree.cpus(await world.group("a", "x")) == ""

        await world.delete("a")
        assert scan(tree.files, "kubepods.slice", nested=False) == {}
        assert pod.metadata.uid.replace("-", "_") not in " ".join(tree.groups())


async def test_a_static_cpu_manager_writes_what_it_gives_out() -> None:
    """Exclusive CPUs, or its shared pool."""
    async with enforced_lab(kubelet="policy=none,cpu=static,memory=None") as world:
        await world.create("pinned", cpus="2")
        await world.create("shared")
        tree = world.tree()
        pinned = tree.cpus(await world.group("pinned"))
        assert pinned == "1-2"
        assert tree.cpus(await world.group("shared")) == "0,3-7"
