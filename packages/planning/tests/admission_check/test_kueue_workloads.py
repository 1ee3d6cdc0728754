"""Workloads of Kueue start when all of their pods fit, and find their room."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from packages.planning.tests.admission_check.conftest import Kueue, checking
from tests.apps.scheduler.served import served
from yarl import URL

from numakube.api.fit_question import HOLD
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster


def template(cpu: str = "3") -> dict[str, Any]:
    """Return the pods of a job, each of which needs most of a NUMA node."""
    document = pod_document("unnamed", cpu)
    return {"metadata": {"labels": {"job": "j"}}, "spec": document["spec"]}


def of_job(name: str, value: str) -> dict[str, Any]:
    """Return a pod as Kueue lets it be created."""
    return pod_document(name, "3", metadata={"annotations": {HOLD: value}})


async def test_a_workload_stays_queued_until_all_of_its_pods_fit(
    world: LabCluster, kueue: Kueue
) -> None:
    """The check says how many do and why the next does not; then their room is kept."""
    await world.create(*(pod_document(name, "3") for name in "ab"))
    await world.runs("a", "b")
    async with checking(world):
        await kueue.queue("job", template(), 3)
        check = await kueue.says("job", "Pending", "2 of 3 pods fit: 0/2 nodes are available")
        assert check["lastTransitionTime"] == "2026-01-01T00:00:00Z"

        await world.delete("a")

        check = await kueue.says("job", "Ready")
        (update,) = check["podSetUpdates"]
        value = update["annotations"][HOLD]
        await world.create(pod_document("late", "3"))
        await world.refuses("late", "0/2 nodes are available")
        await world.create(*(of_job(name, value) for name in ("j0", "j1", "j2")))
        await world.runs("j0", "j1", "j2")
        assert not world.pod("late").spec.node_name


async def test_room_is_given_back_when_a_workload_loses_its_quota(
    world: LabCluster, kueue: Kueue
) -> None:
    """Kueue has evicted it before its pods came."""
    async with checking(world):
        await kueue.queue("job", template(), 4)
        await kueue.says("job", "Ready")
        await world.create(pod_document("a", "3"))
        await world.refuses("a", "0/2 nodes are available")

        await kueue.reserve("job", quota=False)

        await world.runs("a")


async def test_a_workload_that_waits_for_long_lets_others_try(
    world: LabCluster, kueue: Kueue
) -> None:
    """Its quota has been reserved since January."""
    async with checking(world, patience=60.0, requeue=30.0):
        await kueue.queue("large", template(), 5)

        check = await kueue.says("large", "Retry", "4 of 5 pods fit")

        assert check["requeueAfterSeconds"] == 30
        await kueue.queue("small", template(), 4)
        await kueue.says("small", "Ready")


async def test_room_is_asked_for_again_when_the_scheduler_has_started_again(
    world: LabCluster, kueue: Kueue
) -> None:
    """The new one knows nothing of it until then."""
    async with AsyncExitStack() as stack:
        before = AsyncExitStack()
        url = await before.enter_async_context(served(world.running[-1]))
        await stack.enter_async_context(checking(world, url=url))
        await kueue.queue("job", template(), 4)
        await kueue.says("job", "Ready")
        await before.aclose()
        await world.running.pop().end()

        again = await world.start()
        await stack.enter_async_context(served(again, URL(url).port or 0))

        await until(lambda: len(again.process.parts.holds) == 4)
        await world.create(pod_document("late", "3"))
        await world.refuses("late", "0/2 nodes are available")


async def test_pods_are_asked_about_as_kueue_creates_them(world: LabCluster, kueue: Kueue) -> None:
    """On the nodes of the flavor that they were given, of which there are none."""
    flavor = {"metadata": {"name": "usual"}, "spec": {"nodeLabels": {"example.com/kind": "gpu"}}}
    await kueue.create("resourceflavors", flavor)
    async with checking(world):
        await kueue.queue("job", template(), 1)

        await kueue.says("job", "Pending", "didn't match Pod's node affinity/selector")


async def test_a_check_of_ours_is_active_in_the_older_version_too(world: LabCluster) -> None:
    """Kueue before 0.15 serves v1beta1 alone; its queues wait until a check is active."""
    kueue = Kueue(world, "v1beta1")
    await kueue.install()

    async def is_active() -> bool:
        check = await world.client.get(kueue.kind("admissionchecks"), "aligned")
        conditions = check.get("status", {}).get("conditions", [])
        return any(
            condition["type"] == "Active" and condition["status"] == "True"
            for condition in conditions
        )

    async with checking(world):
        await until(is_active)
        await kueue.queue("job", template(), 4)
        await kueue.says("job", "Ready")
