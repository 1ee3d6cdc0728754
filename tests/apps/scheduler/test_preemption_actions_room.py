"""Room that is kept for pods that are still to come."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.apps.scheduler.parts import Parts

from numakube.api.fit_question import HOLD, STAND_IN
from numakube.api.pod import Pod, PodStatus
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, bound, pod


@pytest.fixture
def parts() -> Parts:
    """A scheduler of two nodes."""
    world = World()
    for node in ("n0", "n1"):
        world.add_node(node)
    return Parts(world)


def held(name: str, hold: str = "job") -> Pod:
    """Return a pod that asks for the room of a hold."""
    return pod(name, "4", annotations={HOLD: hold})


def stand_in(number: int, hold: str = "job") -> PodInfo:
    """Return what stands in for such a pod."""
    return PodInfo(held(f"{STAND_IN}{number}", hold))


def kept(parts: Parts, *uids: str) -> list[str | None]:
    """Return the nodes on which room is kept for pods."""
    return [parts.engine.nominations.node_of(uid) for uid in uids]


def test_a_pod_that_comes_takes_a_place_over_as_soon_as_it_waits(parts: Parts) -> None:
    """One place for each pod, and users see where."""
    parts.holds.keep("a", 60, [(stand_in(1), "n1"), (stand_in(2), "n0")])
    assert len(parts.holds) == 2
    for _ in range(2):
        parts.waits(held("p"))
        assert len(parts.holds) == 1
    assert kept(parts, "p", f"{STAND_IN}1") == ["n1", None]
    assert parts.told.of("nominated") == [("p", "n1")]
    parts.waits(held("other", "another job"))
    assert (len(parts.holds), kept(parts, "other")) == (1, [None])


def test_a_pod_with_room_of_its_own_leaves_that_of_the_place_to_others(parts: Parts) -> None:
    """The place is not kept for a second time."""
    parts.holds.keep("a", 60, [(stand_in(1), "n1")])
    own = msgspec.structs.replace(held("p"), status=PodStatus(nominated_node_name="n0"))
    parts.waits(own)
    assert kept(parts, "p", f"{STAND_IN}1") == ["n0", None]
    parts.holds.release("a")
    assert kept(parts, "p") == ["n0"]


def test_a_pod_that_has_come_with_a_node_needs_no_place(parts: Parts) -> None:
    """Another scheduler, or this one before it was started again, has bound it."""
    parts.holds.keep("a", 60, [(stand_in(1), "n1")])
    parts.listener.pod_placed(PodInfo(bound(held("p"), "n0")))
    assert len(parts.holds) == 0
    assert kept(parts, "p", f"{STAND_IN}1") == [None, None]
    assert parts.told.of("nominated") == []


def test_what_is_released_is_given_back_by_those_that_have_not_gone_elsewhere(parts: Parts) -> None:
    """They are told; one that has found other room meanwhile keeps it."""
    parts.holds.keep("a", 60, [(stand_in(1), "n1"), (stand_in(2), "n1")])
    parts.waits(held("stays"))
    parts.engine.nominations.nominate(parts.waits(held("moves")), "n0")
    parts.holds.release("a")
    assert kept(parts, "stays", "moves") == [None, "n0"]
    assert parts.told.of("nominated")[2:] == [("stays", "")]


async def test_room_is_given_back_when_its_time_is_over(parts: Parts) -> None:
    """Asked for again before, it is kept for longer."""
    task = asyncio.create_task(parts.holds.run())
    parts.holds.keep("a", 10, [(stand_in(1), "n1")])
    parts.holds.keep("b", 10, [(stand_in(2), "n1")])
    await parts.clock.advance(9)
    parts.holds.keep("b", 10, [])
    assert len(parts.holds) == 2
    await parts.clock.advance(2)
    assert kept(parts, f"{STAND_IN}1", f"{STAND_IN}2") == [None, "n1"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_only_room_for_pods_that_are_missing_is_asked_for(parts: Parts) -> None:
    """Those that have come count, and places on nodes that are there; those that went do not."""
    wanted = [stand_in(number) for number in range(4)]
    assert len(parts.holds.missing("a", wanted)) == 4
    parts.holds.keep("a", 60, [(stand_in(11), "n1"), (stand_in(12), "gone")])
    assert len(parts.holds.missing("a", wanted)) == 3
    assert len(parts.holds.missing("b", wanted)) == 4
    first, second = (PodInfo(bound(held(name), "n0")) for name in ("p", "q"))
    for one in (first, second):
        parts.listener.pod_placed(one)
    assert len(parts.holds.missing("b", wanted)) == 2
    parts.listener.pod_gone(first, deleted=True)
    assert len(parts.holds.missing("b", wanted)) == 3
    parts.listener.pod_gone(second, deleted=True)
    assert len(parts.holds.missing("b", wanted)) == 4
