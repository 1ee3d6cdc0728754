"""Nodes that fall silent, and what becomes of their pods."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.lab.controllers.kit import Bench, bench, node

from numakube.api.affinity_and_taints import Taint, Toleration
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeCondition, NodeSpec, NodeStatus
from numakube.api.pod import Pod, PodSpec, PodStatus
from numakube.kube.catalog import LEASES, NODES, PODS
from numakube.kube.client import merge_patch
from numakube.kube.clock import ManualClock
from numakube.values.times import format_micro_time, format_time
from numakube_lab.controllers.cluster.namespace_controller import Leftovers, choose_leftovers
from numakube_lab.controllers.cluster.node_lifecycle import (
    Nodes,
    ObservedNode,
    reconcile,
    wanted_taints,
)
from numakube_lab.controllers.cluster.taint_evictions import TaintEvictions, seconds_to_eviction

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"


def pod(name: str, place: str = "a", **spec: Any) -> dict[str, Any]:
    """A pod on a node."""
    containers = [{"name": "main", "image": "x"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, "nodeName": place}}


async def renew(lab: Bench, name: str) -> None:
    """Renew the lease of a node, or make it."""
    spec = {"renewTime": format_micro_time(lab.client.clock.now()), "holderIdentity": name}
    found = (await lab.client.list(LEASES, namespace="kube-node-lease")).items
    if any(lease.metadata.name == name for lease in found):
        change = merge_patch({"spec": spec})
        done = await lab.client.patch(LEASES, name, change, namespace="kube-node-lease")
    else:
        document = {"metadata": {"name": name}, "spec": spec}
        done = await lab.client.create(LEASES, document, namespace="kube-node-lease")
    await lab.mirror(LEASES).shows(done.metadata.resource_version)


def taints(one: Node) -> set[tuple[str, str]]:
    """Return the taints of a node."""
    return {(taint.key, taint.effect) for taint in one.spec.taints}


def ready(one: Node) -> str:
    """Return whether a node is ready."""
    return next(each.status for each in one.status.conditions if each.type == "Ready")


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "expected"),
    [
        ({"Ready": "True"}, False, set()),
        ({"Ready": "False"}, False, {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}),
        ({"Ready": "Unknown"}, False, {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}),
        (
            {"Ready": "True", "MemoryPressure": "True"},
            False,
            {("node.kubernetes.io/memory-pressure", "NoSchedule")},
        ),
        ({"Ready": "True"}, True, {("node.kubernetes.io/unschedulable", "NoSchedule")}),
    ],
)
def test_taints_follow_from_conditions(
    conditions: dict[str, str], *, unschedulable: bool, expected: set[tuple[str, str]]
) -> None:
    """Taints of others stay; our own go when their reason has gone."""
    theirs = Taint(key="example.com/theirs", effect="NoSchedule")
    stale = Taint(key=NOT_READY, effect="NoSchedule")
    reported = tuple(NodeCondition(type=kind, status=each) for kind, each in conditions.items())
    one = Node(
        spec=NodeSpec(taints=(theirs, stale), unschedulable=unschedulable),
        status=NodeStatus(conditions=reported),
    )
    found = {(taint.key, taint.effect) for taint in wanted_taints(one, NOW)}
    assert found == expected | {("example.com/theirs", "NoSchedule")}


TEN_SECONDS_AGO = format_time(NOW - timedelta(seconds=10))
TAINT = Taint(key=UNREACHABLE, effect="NoExecute", time_added=TEN_SECONDS_AGO)


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([Toleration(key=UNREACHABLE, operator="Exists")], None),
        ([Toleration(key=UNREACHABLE, operator="Exists", toleration_seconds=30)], 20.0),
        ([Toleration(key=UNREACHABLE, operator="Exists", toleration_seconds=5)], 0.0),
        (
            [
                Toleration(operator="Exists"),
                Toleration(key=UNREACHABLE, operator="Exists", toleration_seconds=60),
            ],
            50.0,
        ),
        ([Toleration(key=NOT_READY, operator="Exists")], 0.0),
    ],
)
def test_when_a_pod_has_to_leave(tolerations: list[Toleration], expected: float | None) -> None:
    """Counted from when the taint was added."""
    assert seconds_to_eviction((TAINT,), tolerations, NOW) == expected


async def test_a_new_node_loses_its_taint_when_it_is_ready() -> None:
    """The server taints new nodes; this controller takes that back."""
    async with bench(Nodes) as lab:
        await lab.client.create(NODES, node("a"))
        await lab.sees(NODES, "a", lambda one: not one.spec.taints)


async def test_a_silent_node_becomes_unreachable_and_comes_back() -> None:
    """Renewals of its lease keep it well; 50 s without them do not."""
    clock = ManualClock()
    async with bench(Nodes, clock=clock) as lab:
        await lab.client.create(NODES, node("a"))
        await lab.sees(NODES, "a", lambda one: not one.spec.taints)
        await lab.apply(PODS, pod("p"))
        await lab.sees(PODS, "p", _is_ready)
        for _ in range(4):
            await clock.advance(40)
            await renew(lab, "a")
        assert ready(lab.get(NODES, "a")) == "True"
        lab.kubelet.outcome = lambda _: None
        await clock.advance(51)
        lost = await lab.sees(NODES, "a", lambda one: len(one.spec.taints) == 2)
        assert ready(lost) == "Unknown"
        assert taints(lost) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        await lab.sees(PODS, "p", lambda one: not _is_ready(one))
        back = {"type": "Ready", "status": "True", "lastHeartbeatTime": format_time(clock.now())}
        await lab.change(NODES, "a", {"status": {"conditions": [back]}}, "status")
        await lab.sees(NODES, "a", lambda one: not one.spec.taints)


@pytest.mark.parametrize(("lease", "silence"), [(10, 50.0), (40, 50.0), (600, 750.0)])
def test_a_node_may_be_silent_for_a_quarter_longer_than_its_lease(
    lease: int, silence: float
) -> None:
    """As the usual 50 s are to a lease of 40 s; a short lease changes nothing."""
    well = Node(status=NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),)))
    seen = ObservedNode(node=well, silence=silence - 1, lease_seconds=lease, now=NOW)
    plan = reconcile(seen)
    assert (plan.actions, plan.again_after) == ((), 1.0)
    assert reconcile(replace(seen, silence=silence)).actions


async def test_pods_leave_an_unreachable_node_after_their_time() -> None:
    """300 s unless they say otherwise; nobody has to touch anything."""
    clock = ManualClock()
    async with bench(Nodes, TaintEvictions, clock=clock) as lab:
        await lab.client.create(NODES, node("a"))
        await lab.apply(PODS, pod("p"))
        await lab.sees(PODS, "p", _is_ready)
        await clock.advance(51)
        await lab.sees(NODES, "a", lambda one: len(one.spec.taints) == 2)
        await clock.advance(298)
        assert lab.get(PODS, "p").metadata.deletion_timestamp is None
        await clock.advance(3)
        await lab.until(PODS, lambda: not len(lab.pods.store))


def _pod(name: str, *, place: str = "a", phase: str = "Running", going: bool = False) -> Pod:
    stamp = format_time(NOW) if going else None
    return Pod(
        metadata=ObjectMeta(name=name, uid=name, creation_timestamp=name, deletion_timestamp=stamp),
        spec=PodSpec(node_name=place),
        status=PodStatus(phase=phase),
    )


def test_leftovers() -> None:
    """The oldest that ended beyond the threshold, and those that no kubelet will remove."""
    pods = [
        _pod("1", phase="Succeeded"),
        _pod("2", phase="Failed"),
        _pod("3", phase="Failed"),
        _pod("4"),
        _pod("5", place="gone"),
        _pod("6", place="just-gone"),
        _pod("7", place="", going=True),
        _pod("8", place=""),
    ]
    missing = {"gone": 40.0, "just-gone": 20.0}
    chosen = choose_leftovers(pods, nodes={"a"}, missing_for=missing, threshold=2)
    assert [one.metadata.name for one in chosen] == ["1", "5", "7"]


async def test_pods_of_a_deleted_node_are_removed_after_a_while() -> None:
    """Although no kubelet does it."""
    clock = ManualClock()
    async with bench(Leftovers, clock=clock, nodes=("a",), assign="") as lab:
        lab.kubelet.outcome = lambda _: None
        await lab.apply(PODS, pod("p"))
        await lab.sees(PODS, "p")
        await lab.client.delete(NODES, "a")
        await lab.until(NODES, lambda: not len(lab.mirror(NODES).store))
        for _ in range(4):
            await clock.sleepers()
            await clock.advance(20)
        await lab.until(PODS, lambda: not len(lab.pods.store))


def _is_ready(one: Pod) -> bool:
    conditions = one.status.conditions if one.status else ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)
