"""Whose turn it is: nobody is passed over, and nobody who fits nowhere keeps others waiting."""

from __future__ import annotations

import pytest
from tests.apps.scheduler.invariants import Ledger, assert_invariants

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.kube.catalog import PRIORITY_CLASSES
from numakube.testing import pod_document, refusal_of, until
from numakube_lab.testing import LabCluster, Opener, RunningScheduler, lab_cluster

SHAPE = "1 socket, 8 cores, smt 1, 32Gi"
IMPOSSIBLE = 40
CROWD = 10_000
MINUTES = 1000.0


@pytest.mark.timeout(180)
async def test_everybody_gets_a_turn(sites: Opener) -> None:
    """Each time that room appears, one of those who wait gets it at once, until all have run."""
    async with lab_cluster(1, shape=SHAPE, on=sites) as world:
        ledger = Ledger.of(world)
        await world.start()
        names = [f"p{number}" for number in range(5)]
        for name in names:
            await world.create(pod_document(name, "6"))
        deleted = set()
        left = set(names)
        while left:
            await world.until(lambda: len(world.by_phase("Running") & left) == 1)
            (name,) = world.by_phase("Running") & left
            left.remove(name)
            await world.until(lambda: refused(world) == left)
            deleted.add(world.pod(name).metadata.uid)
            await world.delete(name)
        await assert_invariants(world, ledger, deleted=deleted)


def refused(world: LabCluster) -> set[str]:
    """Return the names of the pods that were told that they do not fit."""
    return {pod.metadata.name for pod in world.pods.store if refusal_of(pod)}


@pytest.mark.timeout(180)
async def test_the_urgent_who_fit_nowhere_keep_nobody_waiting(sites: Opener) -> None:
    """They are tried first, and then let others pass, time and again."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        await world.start()
        await world.create(
            *(
                pod_document(f"huge{number}", "60", priorityClassName="urgent")
                for number in range(IMPOSSIBLE)
            )
        )
        deleted: set[str] = set()
        ledger = Ledger.of(world)
        for number in range(8):
            name = f"small{number}"
            await world.create(pod_document(name, "2"))
            await world.until(lambda name=name: name in world.by_phase("Running"))  # type: ignore[misc]
            deleted.add(world.pod(name).metadata.uid)
            await world.delete(name)
        await assert_invariants(world, ledger, deleted=deleted)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_ten_thousand_pods_that_fit_nowhere_keep_nobody_waiting() -> None:
    """Once they have been refused, what fits is placed before they are tried again."""
    async with lab_cluster(10, shape=SHAPE) as world:
        running = await world.start()
        for start in range(0, CROWD, 500):
            await world.create(*(pod_document(f"huge{start + n}", "60") for n in range(500)))
        await until(lambda: attempts(running), lambda seen: seen >= CROWD, within=MINUTES)
        most = 0.0
        for number in range(20):
            name, before = f"small{number}", attempts(running)
            await world.create(pod_document(name, "2"))
            await world.until(lambda name=name: bool(world.pod(name).spec.node_name))  # type: ignore[misc]
            most = max(most, attempts(running) - before)
        assert most < CROWD / 10


def attempts(running: RunningScheduler) -> float:
    """Return how often a scheduler has tried to place somebody."""
    metric = "scheduler_schedule_attempts_total"
    results = [
        {"result": one, "profile": SCHEDULER_NAME}
        for one in ("scheduled", "unschedulable", "error")
    ]
    registry = running.process.registry
    return sum(registry.get_sample_value(metric, labels) or 0.0 for labels in results)
