"""The default scheduler: it counts per node, and tells users what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.lab.controllers.kit import add_node, bench, node

from numakube.kube.catalog import CORE_EVENTS, LEASES, NODES, PODS
from numakube_lab.controllers.all_controllers import DefaultScheduler

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.lab.controllers.kit import Bench

    from numakube.api.pod import Pod


def scheduling(*nodes: str) -> AbstractAsyncContextManager[Bench]:
    """A cluster in which nothing but the scheduler works."""
    return bench(DefaultScheduler, nodes=nodes, assign="", also=(NODES, CORE_EVENTS))


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A pod that asks for CPUs."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": "web"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container], **spec},
    }


def scheduled(one: Pod) -> bool:
    """Tell whether a pod has a node."""
    return bool(one.spec.node_name)


def why(one: Pod) -> str:
    """Return why a pod is not scheduled, without what was thought about preemption."""
    conditions = one.status.conditions if one.status else ()
    text = next((each.message for each in conditions if each.reason == "Unschedulable"), "")
    return text.partition(" preemption:")[0]


async def test_pods_are_spread_by_room_and_told_of_in_events() -> None:
    """The emptier node takes the next pod."""
    async with scheduling("a", "b") as lab:
        for number in range(4):
            await lab.apply(PODS, pod(f"p{number}"))
            await lab.sees(PODS, f"p{number}", scheduled)
        places = [lab.get(PODS, f"p{number}").spec.node_name for number in range(4)]
        assert sorted(places) == ["a", "a", "b", "b"]
        expected = ("Scheduled", f"Successfully assigned default/p0 to {places[0]}")
        events = lab.mirror(CORE_EVENTS)
        await lab.until(
            CORE_EVENTS,
            lambda: expected in {(event.reason, event.message) for event in events.store.values()},
        )


async def test_it_holds_the_lease_of_kube_scheduler() -> None:
    """So that another scheduler of the same pods, which looks at it, stands by."""
    async with scheduling("a") as lab:
        await lab.apply(PODS, pod("p"))
        await lab.sees(PODS, "p", scheduled)
        lease = await lab.client.get(LEASES, "kube-scheduler", namespace="kube-system")
        assert lease.spec.holder_identity == "lab-default-scheduler"


async def test_a_pod_that_fits_nowhere_is_told_why_and_waits_for_room() -> None:
    """As soon as another pod ends, it gets the place."""
    async with scheduling("a") as lab:
        await lab.apply(PODS, pod("big", "3"))
        await lab.sees(PODS, "big", scheduled)
        await lab.apply(PODS, pod("next", "2"))
        waiting = await lab.sees(PODS, "next", lambda one: bool(why(one)))
        assert why(waiting) == "0/1 nodes are available: 1 Insufficient cpu."
        await lab.client.delete(PODS, "big", namespace="default", grace_seconds=0)
        await lab.sees(PODS, "next", scheduled)


async def test_a_new_node_takes_a_waiting_pod() -> None:
    """After the pause that follows a failed attempt."""
    async with scheduling() as lab:
        await lab.apply(PODS, pod("first"))
        await lab.sees(PODS, "first", lambda one: bool(why(one)))
        await add_node(lab.client, node("late"))
        await lab.sees(PODS, "first", scheduled)


async def test_tainted_cordoned_and_unwanted_nodes_are_named_in_the_reason() -> None:
    """The message counts the nodes by reason."""
    async with scheduling() as lab:
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
    async with scheduling("a") as lab:
        await lab.apply(PODS, pod("theirs", schedulerName="numakube"))
        await lab.apply(PODS, pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        await lab.apply(PODS, pod("placed", "3500m", nodeName="a"))
        await lab.apply(PODS, pod("ours"))
        waiting = await lab.sees(PODS, "ours", lambda one: bool(why(one)))
        assert why(waiting) == "0/1 nodes are available: 1 Insufficient cpu."
        assert not scheduled(lab.get(PODS, "theirs"))
        assert not scheduled(lab.get(PODS, "gated"))


async def test_a_pod_waits_for_the_node_that_evens_out_the_spread() -> None:
    """Its event says so, and it gets its turn when the node is open again."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    async with scheduling("a", "b") as lab:
        await lab.change(NODES, "b", {"spec": {"unschedulable": True}})
        await lab.apply(PODS, pod("first", topologySpreadConstraints=[spread]))
        await lab.sees(PODS, "first", scheduled)
        await lab.apply(PODS, pod("second", topologySpreadConstraints=[spread]))
        waiting = await lab.sees(PODS, "second", lambda one: bool(why(one)))
        assert why(waiting) == (
            "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
            "1 node(s) were unschedulable."
        )
        await lab.change(NODES, "b", {"spec": {"unschedulable": None}})
        assert (await lab.sees(PODS, "second", scheduled)).spec.node_name == "b"
