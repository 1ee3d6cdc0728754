"""What must fit, and how nodes are rated by what is free, worked out node by node."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS, Code, Status
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit, counted_requests
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

GIB = 1 << 30
GPU, NIC = "vendor.example/gpu", "other.example/nic"
UNITS = {"cpu": 1, "memory": GIB, GPU: 1, NIC: 1}
WEIGHTS = {"cpu": 2, "memory": 1, GPU: 5}
SHAPES = (
    ((0, 0), (100, 10)),
    ((0, 10), (100, 0)),
    ((0, 0), (50, 10), (100, 3)),
    ((30, 2), (60, 7)),
)


def pod(name: str, amounts: dict[str, int]) -> PodInfo:
    """A pod of one container."""
    requests = {key: str(amount * UNITS[key]) for key, amount in amounts.items() if amount}
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    meta = {"name": name, "namespace": "d", "uid": name}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": {"containers": [container]}}))


def node(name: str, amounts: dict[str, int], pods: int) -> Node:
    """A node that offers some of everything."""
    offered = {key: str(amount * UNITS[key]) for key, amount in amounts.items()}
    status = {"allocatable": {**offered, "pods": str(pods)}}
    return convert(Node, {"metadata": {"name": name}, "status": status})


def verdict(
    offered: dict[str, int], room: int, there: list[dict[str, int]], wanted: dict[str, int]
) -> Status:
    """Say whether a pod fits."""
    reasons = ["Too many pods"] if len(there) >= room else []
    hopeless = False
    # CPU and memory come first, then the others by name.
    for name in ("cpu", "memory", *sorted(set(wanted) - {"cpu", "memory"})):
        used = sum(one[name] for one in there)
        if wanted.get(name) and wanted[name] > offered[name] - used:
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or wanted[name] > offered[name]
    if not reasons:
        return SUCCESS
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons))


def line(shape: tuple[tuple[int, int], ...], at: int) -> int:
    """The height of a broken line, cut off towards the point before."""
    if at <= shape[0][0]:
        return shape[0][1] * 10
    for (x0, y0), (x1, y1) in pairwise(shape):
        if at <= x1:
            step = Fraction(abs(y1 - y0) * 10 * (at - x0), x1 - x0)
            return y0 * 10 + (floor(step) if y1 >= y0 else -floor(step))
    return shape[-1][1] * 10


def rating(
    strategy: str | tuple[tuple[int, int], ...],
    offered: dict[str, int],
    there: list[dict[str, int]],
    wanted: dict[str, int],
) -> int:
    """Rate a node; containers without requests count with a little CPU and memory."""
    total = weight = 0
    for name, share in WEIGHTS.items():
        unit = {"cpu": 1000, "memory": GIB}.get(name, 1)
        little = {"cpu": 100, "memory": 200 << 20}.get(name, 0)
        if not offered[name] or (name == GPU and not wanted[name]):
            continue
        capacity = offered[name] * unit
        used = sum(one[name] * unit or little for one in (*there, wanted))
        if strategy == "LeastAllocated":
            worth = max(capacity - used, 0) * 100 // capacity
        elif strategy == "MostAllocated":
            worth = min(used, capacity) * 100 // capacity
        else:
            assert not isinstance(strategy, str)
            worth = line(strategy, min(used * 100 // capacity, 100))
            if not worth:
                continue
        total, weight = total + worth * share, weight + share
    if not weight:
        return 0
    return (
        total // weight
        if isinstance(strategy, str)
        else floor(Fraction(total, weight) + Fraction(1, 2))
    )


def arguments(strategy: str | tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """The plugin's arguments."""
    resources = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    if isinstance(strategy, str):
        return {"scoringStrategy": {"type": strategy, "resources": resources}}
    shape = [{"utilization": x, "score": y} for x, y in strategy]
    told = {"requestedToCapacityRatio": {"shape": shape}, "resources": resources}
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", **told}}


few = st.integers(0, 4)
wishes = st.fixed_dictionaries(dict.fromkeys(UNITS, few))
nodes = st.lists(
    st.tuples(
        st.fixed_dictionaries(dict.fromkeys(UNITS, st.integers(0, 8))),
        st.integers(0, 4),
        st.lists(wishes, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=100)
@given(nodes, wishes, st.sampled_from(("LeastAllocated", "MostAllocated", *SHAPES)))
def test_what_fits_and_how_good_it_is_follows_from_amounts(
    told: list[Any], wanted: dict[str, int], strategy: str | tuple[tuple[int, int], ...]
) -> None:
    """One by one and all at once; reasons in kube-scheduler's words and order."""
    cluster, plugin = Cluster(), NodeResourcesFit.from_args(arguments(strategy))
    for at, (offered, room, there) in enumerate(told):
        cluster.set_node(node(f"n{at}", offered, room))
        for number, one in enumerate(there):
            cluster.place(pod(f"p{at}-{number}", one), f"n{at}")
    new, state, snapshot = pod("new", wanted), CycleState(), cluster.snapshot()
    expected = [verdict(offered, room, there, wanted) for offered, room, there in told]
    scores = [rating(strategy, offered, there, wanted) for offered, _, there in told]
    assert plugin.pre_filter(state, new, snapshot).status is SUCCESS
    assert plugin.pre_score(state, new, snapshot, snapshot.rows) is SUCCESS
    infos = [snapshot.at(int(row)) for row in snapshot.rows]
    assert [plugin.filter(state, new, info) for info in infos] == expected
    assert [plugin.filter(CycleState(), new, info) for info in infos] == expected
    together = plugin.filter_all(state, new, snapshot, snapshot.rows)
    assert (together is None) == all(status.ok for status in expected)
    if together is not None:
        assert [together.status(at) for at in range(len(told))] == expected
    assert [plugin.score(state, new, info) for info in infos] == scores
    assert plugin.score_all(state, new, snapshot, snapshot.rows).tolist() == scores
    for info, (offered, room, _) in zip(infos, told, strict=True):
        empty = verdict(offered, room, [], wanted).ok
        for kind in (EventKind.NODE_ADDED, EventKind.NODE_UPDATED):
            assert plugin.wakes(new, ClusterEvent(kind=kind, node_info=info)) == empty
        assert plugin.wakes(new, ClusterEvent(kind=EventKind.POD_DELETED, node_info=info))


@pytest.mark.parametrize(
    ("args", "lacks"),
    [
        ({}, {GPU, NIC}),
        ({"ignoredResources": [GPU]}, {NIC}),
        ({"ignoredResourceGroups": ["other.example"]}, {GPU}),
        ({"ignoredResources": [GPU], "ignoredResourceGroups": ["other.example"]}, set()),
        ({"ignoredResources": ["vendor.example/other"]}, {GPU, NIC}),
    ],
)
def test_special_resources_may_be_ignored(args: dict[str, Any], lacks: set[str]) -> None:
    """By name, or by what comes before the slash."""
    plugin, cluster = NodeResourcesFit.from_args(args), Cluster()
    cluster.set_node(node("n", dict.fromkeys(UNITS, 0), 9))
    new, snapshot, state = pod("new", {"cpu": 1, GPU: 1, NIC: 1}), cluster.snapshot(), CycleState()
    plugin.pre_filter(state, new, snapshot)
    status = plugin.filter(state, new, snapshot.at(int(snapshot.rows[0])))
    assert {reason.split()[-1] for reason in status.reasons} == {"cpu", *lacks}
    assert {name for name, _ in plugin.likeness(new)} == {"cpu", *lacks}


@pytest.mark.parametrize(
    ("offered", "code"),
    [
        (0, Code.SUCCESS),
        (1, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (2, Code.UNSCHEDULABLE),
        (3, Code.SUCCESS),
    ],
)
def test_what_claims_may_serve_is_missing_only_where_the_node_itself_has_some(
    offered: int, code: Code
) -> None:
    """One is in use, two are wanted."""
    plugin, cluster = NodeResourcesFit.from_args({}, by_claims=lambda name: name == GPU), Cluster()
    cluster.set_node(node("n", {**dict.fromkeys(UNITS, 9), GPU: offered}, 9))
    if offered:
        cluster.place(pod("p", {GPU: 1}), "n")
    new, snapshot, state = pod("new", {GPU: 2}), cluster.snapshot(), CycleState()
    plugin.pre_filter(state, new, snapshot)
    info = snapshot.at(int(snapshot.rows[0]))
    assert plugin.filter(state, new, info).code is code
    together = plugin.filter_all(state, new, snapshot, snapshot.rows)
    assert (Code.SUCCESS if together is None else together.status(0).code) is code
    event = ClusterEvent(kind=EventKind.NODE_UPDATED, node_info=info)
    assert plugin.wakes(new, event) == (offered != 1)


def test_only_what_nodes_count_must_fit() -> None:
    """CPU, memory and local storage come first, then special resources by name."""
    names = (
        "hugepages-1Gi",
        "zzz",
        "ephemeral-storage",
        GPU,
        "memory",
        NIC,
        "cpu",
        "kubernetes.io/x",
    )
    requests = {**dict.fromkeys(names, "2"), "vendor.example/none": "0"}
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    one = PodInfo(convert(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [container]}}))
    assert counted_requests(one) == (
        ("cpu", 2000),
        ("memory", 2),
        ("ephemeral-storage", 2),
        ("hugepages-1Gi", 2),
        ("kubernetes.io/x", 2),
        (NIC, 2),
        (GPU, 2),
    )
