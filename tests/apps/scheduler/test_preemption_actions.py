"""Room that is made for a pod: who goes, who is told, and when the pod is tried again."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.apps.scheduler.parts import Parts

from numakube.api.fit_question import STAND_IN
from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.scheduling.framework.plugins import Nomination
from numakube.scheduling.scheduling_queue import Place
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod

NODES = ("n0", "n1")


@pytest.fixture
def parts() -> Parts:
    """A scheduler of two nodes, each with two pods of no priority."""
    world = World()
    for node in NODES:
        world.add_node(node)
        for number in range(2):
            world.run(pod(f"{node}-{number}", "7"), node)
    return Parts(world)


def on(parts: Parts, node: str) -> tuple[PodInfo, ...]:
    """Return the pods of a node."""
    info = parts.engine.cluster.node(node)
    assert info is not None
    return tuple(info.pods.values())


def refused(parts: Parts, name: str, priority: int = 100) -> PodInfo:
    """Return a pod that fits nowhere, and waits."""
    entry = parts.taken(pod(name, "7", priority=priority))
    parts.queue.refused(entry, frozenset({"NodeResourcesFit"}), "no room")
    return entry.pod


async def follow(parts: Parts, one: PodInfo, nomination: Nomination | None) -> set[str]:
    """Make room for a pod; return who has to go."""
    async with asyncio.TaskGroup() as tasks:
        return parts.preemptions.follow(one, nomination, tasks)


async def test_a_pod_is_tried_again_when_the_last_of_its_victims_is_gone(parts: Parts) -> None:
    """Not when the first is."""
    one = refused(parts, "urgent")
    assert await follow(parts, one, Nomination("n0", on(parts, "n0"))) == {"n0-0", "n0-1"}
    parts.preemptions.victim_is_gone("n0-0")
    assert parts.place_of("urgent") is Place.UNSCHEDULABLE
    assert parts.preemptions.awaits_victims(one)
    parts.preemptions.victim_is_gone("n0-1")
    assert parts.place_of("urgent") is Place.ACTIVE
    entry = parts.queue.waiting.get("urgent")
    assert entry is not None
    assert entry.woken_by == "the last victim is gone"
    assert not parts.preemptions.awaits_victims(one)


async def test_a_pod_has_nobody_else_evicted_while_its_victims_are_still_there(
    parts: Parts,
) -> None:
    """It may be tried for another reason meanwhile; once an eviction has failed, it looks again."""
    one, victims = refused(parts, "urgent"), on(parts, "n0")
    await follow(parts, one, Nomination("n0", victims))
    assert parts.engine.nominations.leaving("urgent") == {"n0-0", "n0-1"}
    parts.wire.refuses = True
    await follow(parts, one, Nomination("n0", victims))
    assert parts.engine.nominations.leaving("urgent") == frozenset()


async def test_a_pod_whose_room_is_being_made_keeps_it_when_it_is_refused_again(
    parts: Parts,
) -> None:
    """One that waits for nobody gives its room up, and is told so."""
    one = refused(parts, "urgent")
    await follow(parts, one, Nomination("n0", on(parts, "n0")[:1]))
    assert await follow(parts, one, None) == set()
    assert parts.engine.nominations.node_of("urgent") == "n0"
    parts.preemptions.victim_is_gone("n0-0")
    assert await follow(parts, one, None) == set()
    assert parts.engine.nominations.node_of("urgent") is None
    assert parts.told.of("nominated")[-1] == ("urgent", "")


async def test_who_is_less_urgent_loses_room_on_the_same_node_alone(parts: Parts) -> None:
    """It is told so, unless it stands in for a pod that is still to come."""
    lesser, elsewhere = refused(parts, "lesser", 10), refused(parts, "elsewhere", 10)
    equal = refused(parts, "equal")
    stand_in = PodInfo(pod(f"{STAND_IN}1", "1"))
    for one, node in ((lesser, "n0"), (elsewhere, "n1"), (equal, "n0"), (stand_in, "n0")):
        parts.engine.nominations.nominate(one, node)
    await follow(parts, refused(parts, "urgent"), Nomination("n0", on(parts, "n0")[:1]))
    kept = {one: parts.engine.nominations.node_of(one) for one in ("lesser", "elsewhere", "equal")}
    assert kept == {"lesser": None, "elsewhere": "n1", "equal": "n0"}
    assert parts.engine.nominations.node_of(stand_in.uid) is None
    assert parts.told.of("nominated") == [("lesser", ""), ("urgent", "n0")]
    assert parts.told.of("preempted")[0][0] == "n0-0"


def test_room_that_a_scheduler_before_has_made_is_kept(parts: Parts) -> None:
    """But not if the pod has got room elsewhere since."""
    before = parts.waits(nominated("early", "n1"))
    assert parts.engine.nominations.node_of("early") == "n1"
    parts.engine.nominations.nominate(before, "n0")
    parts.waits(nominated("early", "n1"))
    assert parts.engine.nominations.node_of("early") == "n0"


@pytest.mark.parametrize("expected", ["n0", "n1"])
def test_a_pod_that_is_expected_somewhere_needs_no_other_room(parts: Parts, expected: str) -> None:
    """Its place is booked there; what was kept for it elsewhere is free for others."""
    one = refused(parts, "urgent")
    parts.preemptions.hold(one, "n0")
    assert parts.engine.nominations.node_of("urgent") == "n0"
    parts.preemptions.expect(one, expected)
    assert parts.engine.nominations.node_of("urgent") is None
    assert parts.told.of("nominated") == [("urgent", "n0"), ("urgent", expected)]
    parts.preemptions.expect_no_more(one)
    assert parts.told.of("nominated")[-1] == ("urgent", "")


def nominated(name: str, node: str) -> Pod:
    """Return a pod for which room was made on *node*."""
    one = pod(name, "7")
    return msgspec.structs.replace(one, status=PodStatus(nominated_node_name=node))


def evicted(name: str, node: str, priority: int) -> PodInfo:
    """Return a pod that another scheduler has evicted, and that is still there."""
    one = pod(name, "1", priority=priority)
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    target = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    spec = msgspec.structs.replace(one.spec, node_name=node)
    status = PodStatus(phase="Running", conditions=(target,))
    return PodInfo(msgspec.structs.replace(one, metadata=meta, spec=spec, status=status))


@pytest.mark.parametrize(
    ("node", "priority", "waits"), [("n0", 99, True), ("n0", 100, False), ("n1", 99, False)]
)
def test_a_pod_waits_for_those_that_a_scheduler_before_has_evicted_for_it(
    parts: Parts, node: str, priority: int, waits: bool
) -> None:
    """Those of lower priority on the node where it has room, beside others that stay."""
    one = refused(parts, "urgent")
    parts.engine.nominations.nominate(one, "n0")
    assert not parts.preemptions.awaits_victims(one)
    parts.engine.cluster.place(evicted("going", node, priority), node)
    assert parts.preemptions.awaits_victims(one) is waits
