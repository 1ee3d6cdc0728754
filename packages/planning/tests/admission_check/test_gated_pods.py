"""Pods lose our scheduling gate when all that wait with them fit."""

from __future__ import annotations

from typing import Any

from packages.planning.tests.admission_check.conftest import checking

from numakube.kube.catalog import CORE_EVENTS
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster
from numakube_planning.admission_check.waiting_work import GATE, Work, next_to_ask

GPUS = "2 sockets, 4 cores, smt 1, 16Gi, nvidia.com/gpu 2"


def gated(name: str, group: str = "", least: int = 2, **more: Any) -> dict[str, Any]:
    """Return a pod that takes most of a NUMA node once it is let in."""
    labels = {NAME_LABEL: group, MIN_LABEL: str(least)} if group else {}
    gates = [{"name": GATE}]
    return pod_document(
        name, more.pop("cpu", "3"), metadata={"labels": labels}, schedulingGates=gates, **more
    )


async def reasons(world: LabCluster) -> dict[str, str]:
    """Return what events say of pods that do not fit."""
    events = (await world.client.list(CORE_EVENTS)).items
    found = [event for event in events if event.reason == "DoesNotFit"]
    return {event.involved_object.name: event.message for event in found}


async def test_a_group_is_let_in_as_a_whole(world: LabCluster) -> None:
    """An event says how many fit; others that fit by themselves need not wait for it."""
    await world.create(*(pod_document(name, "3") for name in "xyz"))
    await world.runs("x", "y", "z")
    async with checking(world):
        await world.create(gated("a", "g"), gated("b", "g"))
        await world.until(lambda: _is_said(world, "a", "1 of 2 needed pods fit; "))
        await world.create(gated("small", cpu="1"))
        await world.runs("small")
        assert not any(world.pod(name).spec.node_name for name in "ab")

        await world.delete("x")

        await world.runs("a", "b")


async def test_a_group_waits_until_there_are_enough_of_it(world: LabCluster) -> None:
    """One of two could run at once, and must not."""
    async with checking(world):
        await world.create(gated("a", "g"))
        await world.until(lambda: _is_said(world, "a", "there are 1 of 2 needed pods"))

        await world.create(gated("b", "g"))

        await world.runs("a", "b")


async def test_jobs_wait_on_a_full_cluster_with_a_free_gpu_in_every_numa_node(
    sites: Opener,
) -> None:
    """Two free GPUs of a node cannot be aligned: no pod fails on a kubelet, none is half-placed."""
    async with lab_cluster(2, shape=GPUS, on=sites) as world:
        await world.start()
        one, two = {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}
        await world.create(*(pod_document(f"r{number}", "3", also=one) for number in range(4)))
        await world.runs(*(f"r{number}" for number in range(4)))
        async with checking(world):
            await world.create(*(gated(name, "job", cpu="1", also=two) for name in "ab"))
            await world.until(lambda: _is_said(world, "a", "0 of 2 needed pods fit; "))
            await world.delete("r0")
            await world.until(lambda: _is_said(world, "a", "1 of 2 needed pods fit; "))

            await world.delete("r1")

            await world.runs("a", "b")
        assert not world.by_phase("Failed")


def test_room_that_is_kept_is_asked_for_before_what_waits() -> None:
    """Then those that have waited longest for an answer, the most important ones first."""
    work = [
        Work(hold="asked", pods=(), seconds=1),
        Work(hold="new", pods=(), seconds=1),
        Work(hold="important", pods=(), seconds=1, priority=5),
        Work(hold="kept", pods=(), seconds=1, admitted=True),
    ]

    found = next_to_ask(work, {"asked": 7.0, "kept": 8.0}, 2)

    assert [work.hold for work in found] == ["kept", "important", "new"]


async def _is_said(world: LabCluster, name: str, words: str) -> bool:
    return words in (await reasons(world)).get(name, "")
