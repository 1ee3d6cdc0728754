"""The extender on a whole cluster, driven in the sequence of calls of a real kube-scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from tests.apps.extender.standin import KubeScheduler

from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.apps.host.http_serving import Listen
from numakube.kube.catalog import NAMESPACES, PRIORITY_CLASSES
from numakube.kubelet.admission_outcome import Rejected
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster

NAME = "numa-scheduler"
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Three nodes of two NUMA nodes with 16 CPUs each."""
    async with lab_cluster(3, on=sites) as world:
        await world.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        yield world


@contextlib.asynccontextmanager
async def extended(
    world: LabCluster, *, replicas: int = 1, names_only: bool = True
) -> AsyncIterator[tuple[KubeScheduler, list[ExtenderProcess]]]:
    """Run extenders and who calls them."""
    stop = asyncio.Event()
    options = ExtenderOptions.default(claims=replicas > 1)
    processes = [ExtenderProcess(options, world.connect()) for _ in range(replicas)]
    tasks = [asyncio.create_task(process.run(stop, Listen())) for process in processes]
    for process in processes:
        await process.serving.wait()
        await process.mirror.synced()
    client = world.connect()
    urls = tuple(process.url for process in processes)
    scheduler = KubeScheduler(client, urls, name=NAME, names_only=names_only)
    running = asyncio.create_task(scheduler.run())
    try:
        yield scheduler, processes
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        stop.set()
        await asyncio.gather(*tasks)


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    """Return a pod for kube-scheduler."""
    return pod_document(name, cpu, **{"schedulerName": NAME, **spec})


def would_fit(world: LabCluster, name: str) -> list[str]:
    """Return the nodes whose kubelets would take a pod now."""
    found = []
    for node, kubelet in world.pool.kubelets.items():
        assert kubelet.admission is not None
        outcome = kubelet.admission.model.clone().admit(world.pod(name))
        if not isinstance(outcome, Rejected):
            found.append(node)
    return found


@pytest.mark.parametrize(
    ("replicas", "names_only"), [(1, True), (1, False), (2, True)], ids=["names", "objects", "two"]
)
async def test_everything_that_fits_runs_and_no_kubelet_rejects_a_pod(
    world: LabCluster, replicas: int, names_only: bool
) -> None:
    """With bindings under way while the next pods are filtered."""
    async with extended(world, replicas=replicas, names_only=names_only) as (scheduler, _):
        await world.create(*(pod(f"p{number}", "6") for number in range(15)))
        await world.until(lambda: len(world.by_phase("Running")) == 12)
        await world.settled()
        assert world.by_phase("Failed") == set()
        for name in world.by_phase("Pending"):
            assert not would_fit(world, name)
            # One that lost the race for a zone is tried once more, and refused then.
            await world.refuses(name, "NUMA: cannot align container main (cpu)")
        # Texts are stable: nobody is tried without end.
        assert scheduler.log.calls["filter"] < 200


async def test_a_refused_pod_runs_soon_after_a_report_makes_it_fit(world: LabCluster) -> None:
    """Nothing that kube-scheduler watches tells it of the report."""
    async with extended(world) as (_, (extender,)):
        await world.create(*(pod(f"p{number}", "14") for number in range(6)))
        await world.until(lambda: len(world.by_phase("Running")) == 6)
        await world.create(pod("waits", "10"))
        await world.refuses("waits")
        await world.delete("p0")
        await world.runs("waits")
        assert world.by_phase("Failed") == set()
        await world.until(lambda: len(extender.waking) == 0)


async def test_an_important_pod_gets_a_zone_cleared_for_it(world: LabCluster) -> None:
    """Both of the pods on one zone go, and no other."""
    urgent = {"metadata": {"name": "urgent"}, "value": 1000}
    await world.client.create(PRIORITY_CLASSES, urgent)
    async with extended(world) as (scheduler, _):
        await world.create(*(pod(f"p{number}", "7") for number in range(12)))
        await world.until(lambda: len(world.by_phase("Running")) == 12)
        await world.create(pod("vip", "14", priorityClassName="urgent"))
        await world.runs("vip")
        assert len(scheduler.log.evicted) == 2
        assert world.by_phase("Failed") == set()


async def test_as_many_pods_run_as_with_our_own_scheduler(world: LabCluster) -> None:
    """The same workload, one after the other on the same nodes."""
    rng = Random(5)
    # Two of them fill a zone, in any combination: how many fit is no matter of luck.
    sizes = [rng.choice(["6", "7"]) for _ in range(16)]
    await world.start()
    await world.create(*(pod_document(f"own{n}", size) for n, size in enumerate(sizes)))
    await world.until(lambda: len(world.by_phase("Running")) == 12)
    await world.settled()
    ours = len(world.by_phase("Running"))
    assert world.by_phase("Failed") == set()
    await world.running[0].end()
    for name in [one.metadata.name for one in world.pods.store]:
        await world.delete(name)
    await world.until(lambda: not len(world.pods.store))
    async with extended(world, replicas=2):
        await world.create(*(pod(f"p{n}", size) for n, size in enumerate(sizes)))
        await world.settled()
        assert world.by_phase("Failed") == set()
        await world.until(lambda: len(world.by_phase("Running")) == ours)


async def test_whoever_waits_in_the_end_fits_nowhere(world: LabCluster) -> None:
    """Pods of all sizes, many at once, through two replicas."""
    rng = Random(7)
    async with extended(world, replicas=2):
        sizes = [rng.choice(["2", "3", "4", "6", "7"]) for _ in range(30)]
        await world.create(*(pod(f"p{n}", size) for n, size in enumerate(sizes)))
        await world.settled()
        await world.until(
            lambda: not any(would_fit(world, name) for name in world.by_phase("Pending"))
        )
        assert world.by_phase("Failed") == set()
