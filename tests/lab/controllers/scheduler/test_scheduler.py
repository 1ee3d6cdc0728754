"""The default scheduler: room, order, and what users are told."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.lab.controllers.kit import add_node, bench, node

from numakube.api.core import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from numakube.kube.catalog import CORE_EVENTS, NODES, PODS
from numakube.kube.clock import ManualClock
from numakube.kube.objects import ObjectKey
from numakube_lab.controllers.scheduler.pending import Pending
from numakube_lab.controllers.scheduler.room import Demand, Rooms
from numakube_lab.controllers.scheduler.scheduler import DefaultScheduler


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A pod that asks for CPUs."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def scheduled(one: Pod) -> bool:
    """Tell whether a pod has a node."""
    return bool(one.spec.node_name)


def why(one: Pod) -> str:
    """Return why a pod is not scheduled."""
    conditions = one.status.conditions if one.status else ()
    return next((each.message for each in conditions if each.reason == "Unschedulable"), "")


async def test_pods_are_spread_by_room_and_told_of_in_events() -> None:
    """The emptier node takes the next pod."""
    async with bench(DefaultScheduler, nodes=("a", "b"), assign="") as lab:
        for number in range(4):
            await lab.apply(PODS, pod(f"p{number}"))
            await lab.sees(PODS, f"p{number}", scheduled)
        places = [lab.get(PODS, f"p{number}").spec.node_name for number in range(4)]
        assert sorted(places) == ["a", "a", "b", "b"]
        await lab.recorded()
        told = {(one.reason, one.message) for one in (await lab.client.list(CORE_EVENTS)).items}
        assert ("Scheduled", f"Successfully assigned default/p0 to {places[0]}") in told


async def test_a_pod_that_fits_nowhere_is_told_why_and_waits_for_room() -> None:
    """As soon as another pod ends, it gets the place."""
    clock = ManualClock()
    async with bench(DefaultScheduler, nodes=("a",), assign="", clock=clock) as lab:
        await lab.apply(PODS, pod("big", "3"))
        await lab.sees(PODS, "big", scheduled)
        await lab.apply(PODS, pod("next", "2"))
        waiting = await lab.sees(PODS, "next", lambda one: bool(why(one)))
        assert why(waiting) == "0/1 nodes are available: 1 Insufficient cpu."
        await lab.client.delete(PODS, "big", namespace="default", grace_seconds=0)
        await clock.advance(1)
        await lab.sees(PODS, "next", scheduled)


async def test_a_new_node_takes_who_waits() -> None:
    """After the pause that follows a failed attempt."""
    clock = ManualClock()
    async with bench(DefaultScheduler, assign="", clock=clock) as lab:
        await lab.apply(PODS, pod("first"))
        waiting = await lab.sees(PODS, "first", lambda one: bool(why(one)))
        assert why(waiting) == "no nodes available to schedule pods"
        await add_node(lab.client, node("late"))
        await lab.sees(NODES, "late", lambda one: not one.spec.taints)
        await clock.advance(10)
        await lab.sees(PODS, "first", scheduled)


async def test_tainted_cordoned_and_unwanted_nodes_are_named_in_the_reason() -> None:
    """The message counts the nodes by reason."""
    async with bench(DefaultScheduler, assign="") as lab:
        tainted = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        await add_node(lab.client, node("a"))
        await add_node(lab.client, {**node("b"), "spec": tainted})
        await add_node(lab.client, {**node("c"), "spec": {"unschedulable": True}})
        await lab.apply(PODS, pod("choosy", nodeSelector={"gpu": "yes"}))
        waiting = await lab.sees(PODS, "choosy", lambda one: why(one).startswith("0/3"))
        assert why(waiting) == (
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
        )


async def test_other_schedulers_pods_are_left_alone() -> None:
    """They count as soon as they are bound, though."""
    async with bench(DefaultScheduler, nodes=("a",), assign="") as lab:
        await lab.apply(PODS, pod("theirs", schedulerName="numakube"))
        await lab.apply(PODS, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        await lab.apply(PODS, pod("placed", "3500m", nodeName="a"))
        await lab.apply(PODS, pod("ours"))
        waiting = await lab.sees(PODS, "ours", lambda one: bool(why(one)))
        assert why(waiting) == "0/1 nodes are available: 1 Insufficient cpu."
        assert not scheduled(lab.get(PODS, "theirs"))
        assert not scheduled(lab.get(PODS, "gated"))


def test_the_highest_priority_goes_first_then_the_oldest() -> None:
    """Whatever the order of arrival."""
    pending = Pending()
    for name, priority, created in (("c", 0, "2"), ("b", 0, "1"), ("a", 10, "3")):
        pending.add(ObjectKey("", name), priority=priority, created=created)
    assert [str(pending.take()) for _ in range(3)] == ["a", "b", "c"]
    assert pending.take() is None


def test_a_pod_put_off_waits_for_a_change_and_for_its_pause() -> None:
    """The pause grows with each attempt."""
    pending = Pending()
    key = ObjectKey("", "a")
    pending.add(key, priority=0, created="1")
    for attempt, pause in enumerate((1.0, 2.0, 4.0, 8.0, 10.0, 10.0)):
        assert pending.take() == key
        pending.put_off(key, version=attempt, now=0.0)
        assert pending.wake(version=attempt, now=100.0) is None
        assert pending.take() is None
        assert pending.wake(version=attempt + 1, now=pause / 2) == pause / 2
        assert pending.take() is None
        assert pending.wake(version=attempt + 1, now=pause) is None


def _node(name: str, cpu: int) -> Node:
    return Node(
        metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": cpu, "pods": 5})
    )


def _pod(cpu: int) -> Pod:
    requests = ResourceRequirements(requests={"cpu": cpu})
    return Pod(spec=PodSpec(containers=(Container(name="c", resources=requests),)))


@given(
    st.lists(
        st.tuples(st.sampled_from(("place", "release", "node", "drop")), st.integers(0, 4)),
        max_size=40,
    )
)
def test_room_is_what_a_fresh_count_gives(steps: list[tuple[str, int]]) -> None:
    """After any history, the books equal those of one who only sees the end."""
    rooms = Rooms()
    nodes: dict[str, Node] = {}
    placed: dict[str, tuple[str, int]] = {}
    for what, number in steps:
        name, uid = f"n{number % 2}", f"u{number}"
        match what:
            case "place":
                placed[uid] = (name, number)
                rooms.place(uid, name, Demand.of(_pod(number)))
            case "release":
                placed.pop(uid, None)
                rooms.release(uid)
            case "node":
                nodes[name] = _node(name, number + 10)
                rooms.put_node(nodes[name])
            case _:
                nodes.pop(name, None)
                rooms.drop_node(name)
    fresh = Rooms()
    for one in nodes.values():
        fresh.put_node(one)
    for uid, (name, cpu) in placed.items():
        fresh.place(uid, name, Demand.of(_pod(cpu)))
    assert {each.node.metadata.name: (each.free, each.weight) for each in rooms.all()} == {
        each.node.metadata.name: (each.free, each.weight) for each in fresh.all()
    }
