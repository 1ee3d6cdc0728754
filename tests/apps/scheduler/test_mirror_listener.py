"""What the scheduler makes of the pods that the server tells of."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.apps.scheduler.parts import Parts

from numakube.api.pod import PodStatus
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.scheduling.scheduling_queue import Place
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, bound, pod, turns

GANG = {NAME_LABEL: "g", MIN_LABEL: "2"}


@pytest.fixture
def parts() -> Parts:
    """A scheduler of one node."""
    world = World()
    world.add_node("n0")
    return Parts(world)


def deleted(one: Any) -> Any:
    """Return a pod that is being deleted."""
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(one, metadata=meta)


@pytest.mark.parametrize("why", ["another scheduler's", "being deleted"])
def test_a_pod_that_is_not_ours_any_more_is_forgotten(parts: Parts, why: str) -> None:
    """By the queue, and by its gang."""
    one = pod("a", labels=GANG)
    parts.waits(one)
    assert parts.place_of("a") is Place.GATED
    assert len(parts.members) == 1
    if why == "being deleted":
        parts.waits(deleted(one))
    else:
        spec = msgspec.structs.replace(one.spec, scheduler_name="another")
        parts.waits(msgspec.structs.replace(one, spec=spec))
    assert "a" not in parts.queue
    assert len(parts.members) == 0


async def test_a_pod_that_another_has_placed_leaves_the_queue(parts: Parts) -> None:
    """One that is being bound here leaves it when the answer has come."""
    parts.waits(pod("a"))
    parts.listener.pod_placed(PodInfo(bound(pod("a"), "n0")))
    assert "a" not in parts.queue

    parts.gate.open.clear()
    async with asyncio.TaskGroup() as tasks:
        parts.bindings.start(parts.placement(pod("b")), tasks)
        await turns(5)
        parts.listener.pod_placed(PodInfo(bound(pod("b"), "n0")))
        assert "b" in parts.queue
        parts.gate.open.set()
    assert "b" not in parts.queue


@pytest.mark.parametrize(("node", "woken"), [("n0", 0), ("elsewhere", 1)])
def test_room_that_was_kept_for_a_placed_pod_is_free_unless_it_is_there(
    parts: Parts, node: str, woken: int
) -> None:
    """Pods that wait are woken only for room that has become free."""
    entry = parts.taken(pod("waits"))
    parts.queue.refused(entry, frozenset({"NodeResourcesFit"}), "no room")
    parts.engine.nominations.nominate(parts.waits(pod("a")), "n0")
    parts.listener.pod_placed(PodInfo(bound(pod("a"), node)))
    assert parts.engine.nominations.node_of("a") is None
    assert parts.queue.handle_events() == woken


def test_a_pod_that_is_gone_is_forgotten_by_all(parts: Parts) -> None:
    """The queue, its gang, users, and the room that was kept for it."""
    one = parts.waits(pod("a", labels=GANG))
    parts.engine.nominations.nominate(one, "n0")
    parts.listener.pod_gone(one, deleted=True)
    assert "a" not in parts.queue
    assert len(parts.members) == 0
    assert parts.engine.nominations.node_of("a") is None
    assert parts.told.of("forget") == [("a",)]


def test_a_member_that_has_succeeded_goes_on_counting_until_it_is_deleted(parts: Parts) -> None:
    """It has had its turn: the gang needs one pod less."""
    status = PodStatus(phase="Succeeded")
    one = PodInfo(msgspec.structs.replace(bound(pod("a", labels=GANG), "n0"), status=status))
    parts.listener.pod_gone(one, deleted=False)
    assert parts.members.of(one).running == 1
    parts.listener.pod_gone(one, deleted=True)
    assert len(parts.members) == 0
