"""A virtual machine with a real kubelet, containerd, control groups and PCI devices."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio
from tests.vm.campaign import Campaign
from tests.vm.cluster import Cluster
from tests.vm.conftest import Settings, real_cluster
from tests.vm.containers import NUMAKUBE
from tests.vm.enforcing import NOTHING_ALIGNED, drift, running_pod, until_allowed
from tests.vm.kubelets import Choice
from tests.vm.plan import check_plan
from tests.vm.virtual import VirtualNode

from numakube.testing import elapse
from numakube.values.cpuset import CpuSet

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(3600),
    pytest.mark.asyncio(loop_scope="module"),
]

# gRPC and aiohttp alone are 44 MB in a process of their own; 60 in all is what we aim for.
MOST_BYTES = 72_000_000
REST_SECONDS = 60
# Each takes minutes by emulation; a long campaign has both.
DRIVERS = ("systemd", "cgroupfs") if os.environ.get("NUMAKUBE_VM_PODS") else ("systemd",)
CHOICES = (Choice(), Choice(policy="restricted", scope="pod"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(short_folder: Path, settings: Settings) -> AsyncIterator[Cluster]:
    """A cluster whose node is a virtual machine."""
    async with real_cluster("vm", settings.shape, short_folder, settings) as one:
        yield one


async def test_no_pod_is_misread(running: Cluster, settings: Settings) -> None:
    """Scheduler, model and report agree with the kubelet at all times."""
    campaign = Campaign(running, Random(settings.seed), stuck=True)
    pods, restarts = settings.pods // 5, settings.restarts // 5
    await check_plan(campaign, CHOICES, pods=pods, restarts=restarts)


async def test_an_exporter_at_rest_stays_small(running: Cluster) -> None:
    """CPU time is only printed: by emulation it is many times that of a real machine."""
    await running.delete_all()
    await running.settle()
    before, _ = await running.node.usage("exporter")
    await elapse(REST_SECONDS)
    after, size = await running.node.usage("exporter")
    share = (after - before) / REST_SECONDS
    print(f"exporter at rest in the guest: {share:.2%} of a core, {size / 1e6:.0f} MB")
    assert size <= MOST_BYTES


@pytest.mark.parametrize("driver", DRIVERS)
async def test_an_enforcer_pins_and_lets_go(running: Cluster, driver: str) -> None:
    """With drift, a crash, ``--restore``, the end of a pod and the end of the enforcer."""
    assert isinstance(running.node, VirtualNode)
    await running.delete_all()
    await running.node.use_driver(driver)
    await running.configure_kubelet(NOTHING_ALIGNED)
    machine = running.node.machine
    everything = CpuSet.of(
        cpu for node in machine.nodes for core in node.cores for cpu in core.threads
    )
    mine = CpuSet.of(machine.nodes[-1].cores[-1].threads)
    rest = str(CpuSet(everything.bits & ~mine.bits))
    numa = [{"node": machine.nodes[-1].id, "resources": {"cpu": str(len(mine)), "memory": "16Mi"}}]
    allotment = {"cpuset": str(mine), "numaNodeResources": numa}
    bound = await running.create(running_pod("bound", running.node.name, allotment=allotment))
    other = await running.create(running_pod("other", running.node.name))
    await until_allowed(running, other, cpus=str(everything), within=60)
    await running.node.start("enforcer")
    await until_allowed(running, bound, cpus=str(mine), within=60)
    await until_allowed(running, other, cpus=rest)

    await drift(running, bound, str(everything))
    await until_allowed(running, bound, cpus=str(mine))

    await running.node.kill("enforcer")
    await running.node.run("numakube enforcer --restore", within=60)
    await until_allowed(running, bound, cpus=str(everything))
    await until_allowed(running, other, cpus=str(everything))

    await running.node.start("enforcer")
    await until_allowed(running, other, cpus=rest, within=60)
    await running.delete("bound")
    await until_allowed(running, other, cpus=str(everything))

    again = await running.create(running_pod("again", running.node.name, allotment=allotment))
    await until_allowed(running, again, cpus=str(mine), within=60)
    await running.node.stop("enforcer")
    await until_allowed(running, again, cpus=str(everything))
    await until_allowed(running, other, cpus=str(everything))
    await running.delete_all()


async def test_an_exporter_works_as_a_pod_of_its_manifest(running: Cluster) -> None:
    """With no more rights than its role, in an image, beside a process that is not there."""
    node = running.node
    assert isinstance(node, VirtualNode)
    await node.stop("exporter")
    await running.configure_kubelet(Choice(scope="pod"))
    await node.load_numakube_image()
    async with running.default_scheduler():
        seen = len(running.watcher.versions)
        await running.deploy("exporter", image=NUMAKUBE)

        async def unpublished() -> str:
            return "" if len(running.watcher.versions) > seen else await node.pod_log("exporter")

        await running.until(unpublished, within=60)
        campaign = Campaign(running, Random(1), stuck=True)
        await campaign.adopt(Choice(scope="pod"))
        await campaign.one_by_one(3)
        assert not campaign.mistakes, "\n".join(campaign.details)
        await running.remove("exporter")
