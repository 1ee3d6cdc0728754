"""Gangs are planned as a whole: what members are told, and what is done for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.apps.scheduler.parts import Parts
from tests.apps.scheduler.test_scheduling_loop import messages, scheduling

from numakube.api.pod import Pod
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL, REQUIRED_TOPOLOGY
from numakube.scheduling.scheduling_queue import Place
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, bound, pod, running, turns

RACK = "example.com/rack"
SHAPE = "1 socket, 8 cores, smt 1, 32Gi"


def world(nodes: int) -> World:
    """Return nodes of seven free CPUs, two in a rack."""
    made = World()
    for number in range(nodes):
        made.add_node(f"n{number}", machine=SHAPE, labels={RACK: f"r{number // 2}"})
    return made


def member(name: str, least: int, **more: Any) -> Pod:
    """Return a pod that takes most of a node, of a gang that needs *least*."""
    return pod(name, "6", labels={NAME_LABEL: "g", MIN_LABEL: str(least)}, **more)


def attempts(parts: Parts, result: str) -> float:
    """Return how often gangs came to *result*."""
    name = "numakube_gang_attempts_total"
    return parts.registry.get_sample_value(name, {"result": result}) or 0.0


async def test_a_gang_that_fits_is_bound_and_counted() -> None:
    """Members beyond what is needed that do not fit wait by themselves."""
    parts = Parts(world(2))
    for name in "abc":
        parts.waits(member(name, 2))
    async with scheduling(parts):
        assert len(parts.gate.bound) == 2
        assert {node for _, node in parts.gate.bound} == {"n0", "n1"}
        ((place, message),) = messages(parts).values()
        assert place is Place.UNSCHEDULABLE
        assert message.startswith("0/2 nodes are available")
        assert attempts(parts, "scheduled") >= 1.0


async def test_a_gang_that_does_not_fit_gives_up_the_room_that_was_kept_for_it() -> None:
    """Each member says how many fit, and waits for what may help any of them."""
    parts = Parts(world(1))
    for name in "ab":
        one = parts.waits(member(name, 2))
        parts.engine.nominations.nominate(one, "n0")
    async with scheduling(parts):
        assert {entry.place for entry in parts.scheduler.queue} == {Place.UNSCHEDULABLE}
        for entry in parts.scheduler.queue:
            assert entry.message.startswith("gang default/g: 1 of 2 needed pods fit; ")
            assert "GangScheduling" in entry.refused_by
        assert len(parts.engine.nominations) == 0
        assert attempts(parts, "unschedulable") >= 1.0
        node = parts.engine.cluster.node("n0")
        assert node is not None
        assert not node.pods


async def test_room_is_made_for_all_members_before_any_is_bound() -> None:
    """They wait for those that have to leave, with their places kept."""
    made = world(2)
    made.run(pod("in-the-way", "6"), "n0")
    parts = Parts(made)
    for name in "ab":
        parts.waits(member(name, 2, priority=10))
    async with scheduling(parts):
        assert parts.gate.bound == []
        assert {part.message for part in parts.scheduler.queue} == {
            "gang default/g: waiting for 1 evicted pods to leave"
        }
        kept = {parts.engine.nominations.node_of(name) for name in "ab"}
        assert kept == {"n0", "n1"}
        assert [part[0] for part in parts.told.of("preempted")] == ["in-the-way"]
        assert attempts(parts, "preempting") == 1.0
        deleted = [part for part in parts.wire.received if part.method == "DELETE"]
        assert [request.path.rpartition("/")[2] for request in deleted] == ["in-the-way"]

        parts.engine.cluster.remove_pod("in-the-way")
        gone = PodInfo(running(pod("in-the-way", "6"), "n0"))
        parts.mirror.apply(parts.engine.cache.pod_gone("in-the-way"))
        parts.listener.pod_gone(gone, deleted=True)
        assert {parts.place_of(name) for name in "ab"} == {Place.ACTIVE}


def test_people_see_how_many_members_there_are_and_where() -> None:
    """With the topology that is asked for, if one is."""
    parts = Parts(world(4))
    annotations = {REQUIRED_TOPOLOGY: RACK}
    one = parts.waits(member("a", 3, annotations=annotations))
    there = bound(member("b", 3, annotations=annotations), "n2")
    parts.engine.cluster.place(PodInfo(there), "n2")
    parts.listener.pod_placed(PodInfo(there))
    assert parts.gang_view.document(one) == {
        "name": "default/g",
        "needed": 3,
        "running": 1,
        "known": 2,
        "waiting": 1,
        "topology": RACK,
        "domains": ["r1"],
    }
    plain = parts.gang_view.document(PodInfo(member("c", 3)))
    assert plain is not None
    assert "topology" not in plain
    assert parts.gang_view.document(PodInfo(pod("alone"))) is None


def test_gangs_that_are_held_back_though_no_gate_is_closed_are_counted() -> None:
    """Once each, however many members; it is never to happen."""
    parts = Parts(world(1))
    for name in "ab":
        parts.waits(member(name, 3))
    assert {parts.place_of(name) for name in "ab"} == {Place.GATED}
    assert parts.gang_view.overlooked() == 0
    # A member that the queue has not been told of.
    parts.members.on_growth = lambda _: None
    parts.members.waits(PodInfo(member("c", 3)))
    assert parts.gang_view.overlooked() == 1


@pytest.mark.parametrize("others", ["none", "on its way"])
async def test_a_gang_that_runs_with_too_few_for_too_long_is_evicted(others: str) -> None:
    """Unless those that are missing are on their way to a node."""
    parts = Parts(world(3))
    for name in ("a", "b"):
        there = PodInfo(running(member(name, 2), "n0" if name == "a" else "n1"))
        parts.listener.pod_placed(there)
    task = asyncio.create_task(parts.incomplete_gangs.run())
    await parts.clock.advance(2)
    parts.listener.pod_gone(PodInfo(running(member("b", 2), "n1")), deleted=True)
    if others == "on its way":
        one = parts.waits(member("c", 2))
        parts.mirror.assume(one, "n2")
    await parts.clock.advance(5000)
    await turns(20)
    deleted = [
        part.path.rpartition("/")[2] for part in parts.wire.received if part.method == "DELETE"
    ]
    if others == "none":
        assert set(deleted) == {"a"}
        assert ("a", "default/g", 2) in parts.told.of("gang_released")
        assert attempts(parts, "released") >= 1.0
    else:
        assert deleted == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
