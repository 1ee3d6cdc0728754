"""All nodes at once get the answers that each would get alone."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import guaranteed, pod, start
from tests.kubelet.test_wide_hints import wide_machine
from tests.scheduling.numa.native.build import topology_of_model
from tests.scheduling.numa.native.clusters import Belief, any_pods, clusters, topologies

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.strictness import Leniency, Strictness
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Verdicts
from numakube.scheduling.numa.alignment_refusal import (
    AlignmentRefusal,
    AlignmentRefusalGroup,
    closeness,
)
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import NativeOptions
from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.topology_view import NodeTopology, ZoneView
from numakube.values.cpuset import CpuSet
from numakube.values.resources import Amounts
from numakube.values.topology_policy import TopologyPolicy

strictnesses = st.builds(
    Strictness,
    missing_data=st.sampled_from(Leniency),
    required_policy=st.sampled_from(TopologyPolicy),
    weaker_policy=st.sampled_from(Leniency),
)


@settings(max_examples=60)
@given(clusters(), any_pods, st.just(Strictness()) | strictnesses)
def test_all_nodes_at_once_are_judged_and_rated_as_each_alone(
    cluster: Cluster, pod: Pod, asked: Strictness
) -> None:
    """Verdicts, groups of refusals and scores are equal, however strict a pod is (B21)."""
    engine, info = NativeEngine(NativeOptions(strictness=asked)), PodInfo(pod)
    snapshot = cluster.snapshot()
    state = CycleState()
    verdicts = engine.filter_all(state, info, snapshot, snapshot.rows)
    alone = {int(row): engine.judge(info, snapshot.at(int(row))) for row in snapshot.rows}
    rejections = [one for one in alone.values() if isinstance(one, AlignmentRefusal)]
    if verdicts is None:
        assert not rejections
        passed = snapshot.rows
    else:
        passed = snapshot.rows[verdicts.ok]
        for position, row in enumerate(snapshot.rows):
            detail = verdicts.status(position).detail
            one = alone[int(row)]
            if isinstance(one, AlignmentRefusal):
                assert isinstance(detail, AlignmentRefusalGroup)
                assert detail.closest.key == one.key
            else:
                assert detail is None
        check_groups([status.detail for status in verdicts.statuses[1:]], rejections)
    if passed.size:
        scores = engine.score_all(state, info, snapshot, passed)
        each = [engine.score(CycleState(), info, snapshot.at(int(row))) for row in passed]
        assert scores.tolist() == each
        assert np.all((scores >= 0) & (scores <= 100))


def check_groups(groups: list[object], rejections: list[AlignmentRefusal]) -> None:
    """Each group counts its nodes and tells the numbers of the closest."""
    counts = Counter(rejection.key for rejection in rejections)
    assert len(groups) == len(counts)
    for group in groups:
        assert isinstance(group, AlignmentRefusalGroup)
        assert group.nodes == counts[group.closest.key]
        alike = [rejection for rejection in rejections if rejection.key == group.closest.key]
        best = min(alike, key=closeness)
        assert group.closest.message == best.message


@settings(max_examples=40)
@given(clusters(), any_pods)
def test_the_order_and_number_of_rows_does_not_matter(cluster: Cluster, pod: Pod) -> None:
    """A few rows in any order get the same answers as all of them."""
    engine, info = NativeEngine(), PodInfo(pod)
    snapshot = cluster.snapshot()
    rows = snapshot.rows[::-2].copy()
    verdicts = engine.filter_all(CycleState(), info, snapshot, rows)
    for position, row in enumerate(rows):
        refused = isinstance(engine.judge(info, snapshot.at(int(row))), AlignmentRefusal)
        assert refused == (verdicts is not None and not verdicts.status(position).ok)


@settings(max_examples=40)
@given(clusters(), any_pods, st.data())
def test_answers_keep_up_with_the_nodes(cluster: Cluster, pod: Pod, data: st.DataObject) -> None:
    """An engine that has seen the pod before judges changed nodes again, and no others."""
    engine, info = NativeEngine(), PodInfo(pod)
    if data.draw(st.booleans(), "among many, a few that change are judged one by one"):
        for index in range(100):
            cluster.set_node(Node(metadata=ObjectMeta(name=f"one-of-many{index}")))
    for change in range(3):
        snapshot = cluster.snapshot()
        fresh = NativeEngine()
        kept = engine.filter_all(CycleState(), info, snapshot, snapshot.rows)
        again = fresh.filter_all(CycleState(), info, snapshot, snapshot.rows)
        assert told(kept) == told(again)
        passed = snapshot.rows if again is None else snapshot.rows[again.ok]
        one = engine.score_all(CycleState(), info, snapshot, passed)
        other = fresh.score_all(CycleState(), info, snapshot, passed)
        assert one.tolist() == other.tolist()
        change_something(cluster, data, change)


@settings(max_examples=40)
@given(clusters(), any_pods, any_pods, st.data())
def test_nodes_in_the_same_state_get_the_answers_of_each_alone(
    cluster: Cluster, pod: Pod, other: Pod, data: st.DataObject
) -> None:
    """One node of each state is judged for all, until one of them changes."""
    for node in list(cluster.nodes()):
        for twin in range(3):
            info = cluster.set_node(Node(metadata=ObjectMeta(name=f"{node.name}-{twin}")))
            cluster.suppose(info.name, node.numa)
    engine = NativeEngine()
    for change, one in enumerate((PodInfo(pod), PodInfo(other))):
        snapshot = cluster.snapshot()
        verdicts = engine.filter_all(CycleState(), one, snapshot, snapshot.rows)
        alone = [engine.judge(one, node) for node in snapshot.nodes()]
        fits = [not isinstance(verdict, AlignmentRefusal) for verdict in alone]
        assert (verdicts is None and all(fits)) or (verdicts and verdicts.ok.tolist() == fits)
        scores = engine.score_all(CycleState(), one, snapshot, snapshot.rows[fits])
        nodes = [snapshot.at(int(row)) for row in snapshot.rows[fits]]
        assert scores.tolist() == [engine.score(CycleState(), one, node) for node in nodes]
        change_something(cluster, data, change)


def test_many_nodes_that_change_together_are_judged_as_they_are_now() -> None:
    """Looking at their states takes several decisions; until then each is judged by itself."""
    cluster, engine = Cluster(), NativeEngine()
    for index in range(1000):
        cluster.set_node(Node(metadata=ObjectMeta(name=f"n{index}")))
        cluster.suppose(f"n{index}", with_free_cpus(6))
    free = np.full(1000, 6)
    for cpus in range(1, 8):
        snapshot, info = cluster.snapshot(), PodInfo(pod(guaranteed("a", str(cpus))))
        verdicts = engine.filter_all(CycleState(), info, snapshot, snapshot.rows)
        fits = np.ones(1000, dtype=np.bool_) if verdicts is None else verdicts.ok
        assert np.array_equal(fits, free >= cpus)
        for number, left in enumerate((*[cpus] * 100, *[8] * 50, *[0] * 50)):
            index = 200 * (cpus % 5) + number
            free[index] = left
            cluster.suppose(f"n{index}", with_free_cpus(left))


def with_free_cpus(cpus: int) -> Belief:
    """Return what is believed of a node of one zone with eight CPUs."""
    whole = {"cpu": 8_000, "memory": 64 << 30}
    zone = ZoneView(
        id=0,
        name="node-0",
        capacity=whole,
        allocatable=whole,
        available={**whole, "cpu": 1_000 * cpus},
    )
    return Belief(
        NodeTopology(
            node="any",
            zones=(zone,),
            policy=TopologyPolicy.SINGLE_NUMA_NODE,
            cpu_manager_policy="static",
            memory_manager_policy="None",
        )
    )


@settings(max_examples=20)
@given(clusters(), any_pods, any_pods)
def test_answers_keep_up_with_a_table_that_grows(cluster: Cluster, pod: Pod, other: Pod) -> None:
    """Nodes without a report make room in the arrays for more, and nothing else."""
    engine = NativeEngine()
    snapshot = cluster.snapshot()
    before = engine.filter_all(CycleState(), PodInfo(pod), snapshot, snapshot.rows)
    known = snapshot.rows.copy()
    for index in range(200):
        cluster.set_node(Node(metadata=ObjectMeta(name=f"late{index}")))
    snapshot = cluster.snapshot()
    after = engine.filter_all(CycleState(), PodInfo(pod), snapshot, known)
    assert told(after) == told(before)
    for one in (pod, other):
        info, fresh = PodInfo(one), NativeEngine()
        kept = engine.filter_all(CycleState(), info, snapshot, snapshot.rows)
        again = fresh.filter_all(CycleState(), info, snapshot, snapshot.rows)
        assert told(kept) == told(again)
        rows = snapshot.rows if again is None else snapshot.rows[again.ok]
        scores = engine.score_all(CycleState(), info, snapshot, rows)
        assert scores.tolist() == fresh.score_all(CycleState(), info, snapshot, rows).tolist()


def told(verdicts: Verdicts | None) -> list[str]:
    """Return what is said of each row."""
    if verdicts is None:
        return []
    return [verdicts.statuses[choice].message for choice in verdicts.choice]


def change_something(cluster: Cluster, data: st.DataObject, number: int) -> None:
    """Change, add or remove a node."""
    name = f"node{data.draw(st.integers(0, 10))}"
    if data.draw(st.booleans()):
        cluster.remove_node(name)
        name = f"new{number}"
    cluster.set_node(Node(metadata=ObjectMeta(name=name)))
    topology = data.draw(topologies(name))
    cluster.suppose(name, Belief(topology, data.draw(st.sampled_from(("", "", "blocked")))))


@pytest.mark.parametrize("policy", ["restricted", "best-effort"])
@pytest.mark.parametrize("cpus", ["3", "6", "14", "24"])
def test_machines_with_too_many_sets_of_zones_are_not_refused(policy: str, cpus: str) -> None:
    """Fourteen zones have 1001 sets of four: what needs that many is left to the model."""
    whole = {"cpu": 4_000, "memory": 4 << 30}
    zones = tuple(
        ZoneView(
            id=one,
            name=f"node-{one}",
            capacity=whole,
            allocatable=whole,
            available={**whole, "cpu": 1_000 * (one % 5)},
        )
        for one in range(14)
    )
    topology = NodeTopology(
        node="large",
        zones=zones,
        policy=TopologyPolicy(policy),
        cpu_manager_policy="static",
        memory_manager_policy="None",
    )
    cluster = Cluster()
    cluster.set_node(Node(metadata=ObjectMeta(name="large")))
    cluster.suppose("large", Belief(topology))
    snapshot, engine, info = cluster.snapshot(), NativeEngine(), PodInfo(pod(guaranteed("a", cpus)))
    assert engine.filter_all(CycleState(), info, snapshot, snapshot.rows) is None
    assert engine.filter(CycleState(), info, snapshot.at(0)).ok
    alone = engine.score(CycleState(), info, snapshot.at(0))
    assert engine.score_all(CycleState(), info, snapshot, snapshot.rows).tolist() == [alone]


@pytest.mark.parametrize("count", [24, 34, 64])
@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_machines_of_many_zones_are_judged_at_once_as_each_alone(count: int, policy: str) -> None:
    """Pods of one zone, of two, and of all zones together."""
    cluster = Cluster()
    settings_ = KubeletSettings(
        topology_policy=policy,
        topology_options={"max-allowable-numa-nodes": "64"},
        cpu_policy="static",
        reserved_cpus=CpuSet.of([0]),
        memory_policy="Static",
        reserved_memory={0: {"memory": 1 << 30}},
    )
    for index in range(3):
        cluster.set_node(Node(metadata=ObjectMeta(name=f"node-{index}")))
        model = start(wide_machine(count), settings_, kubernetes="1.37")
        cluster.suppose(f"node-{index}", Belief(topology_of_model(model, f"node-{index}")))
    snapshot = cluster.snapshot()
    for cpus, memory in (("4", "4Gi"), ("12", "100Gi"), ("2", f"{64 * count - 8}Gi")):
        engine, info = NativeEngine(), PodInfo(pod(guaranteed("app", cpus, memory)))
        verdicts = engine.filter_all(CycleState(), info, snapshot, snapshot.rows)
        alone = [engine.judge(info, snapshot.at(int(row))) for row in snapshot.rows]
        ok = [True] * 3 if verdicts is None else verdicts.ok.tolist()
        assert ok == [not isinstance(one, AlignmentRefusal) for one in alone]
        each = [engine.score(CycleState(), info, snapshot.at(int(row))) for row in snapshot.rows]
        scores = engine.score_all(CycleState(), info, snapshot, snapshot.rows)
        assert scores.tolist() == each


@pytest.mark.parametrize("policy", ["restricted", "best-effort"])
@pytest.mark.parametrize("wanted", [7, 20, 29])
def test_hundreds_of_nodes_with_thousands_of_sets_are_judged_as_each_alone(
    policy: str, wanted: int
) -> None:
    """Six zones of eight CPUs, of which any number is free."""
    rng, cluster, whole = Random(wanted), Cluster(), {"cpu": 8_000, "memory": 64 << 30}
    free = [[rng.choice((0, 1, 3, 6, 8)) for _ in range(6)] for _ in range(300)]
    for index, cells in enumerate(free):
        zones = tuple(
            ZoneView(
                id=zone,
                name=f"node-{zone}",
                capacity=whole,
                allocatable=whole,
                available={**whole, "cpu": 1_000 * cpus},
            )
            for zone, cpus in enumerate(cells)
        )
        topology = NodeTopology(
            node=f"n{index}",
            zones=zones,
            policy=TopologyPolicy(policy),
            cpu_manager_policy="static",
            memory_manager_policy="None",
        )
        cluster.set_node(Node(metadata=ObjectMeta(name=f"n{index}")))
        cluster.suppose(f"n{index}", Belief(topology))
    size = -(-wanted // 8)
    some = {"restricted": size, "best-effort": 6}[policy]
    fits = [sum(sorted(cells)[-some:]) >= wanted for cells in free]
    assert any(fits)
    assert not all(fits)
    engine, info = NativeEngine(), PodInfo(pod(guaranteed("a", str(wanted))))
    snapshot = cluster.snapshot()
    verdicts = engine.filter_all(CycleState(), info, snapshot, snapshot.rows)
    assert verdicts is not None
    ok = dict(zip(snapshot.rows.tolist(), verdicts.ok.tolist(), strict=True))
    assert [ok[snapshot.row_of[f"n{index}"]] for index in range(300)] == fits
    passed = snapshot.rows[verdicts.ok]
    scores = engine.score_all(CycleState(), info, snapshot, passed)
    each = [engine.score(CycleState(), info, snapshot.at(int(row))) for row in passed[:60]]
    assert scores.tolist()[:60] == each


def test_many_containers_that_are_all_expected_in_one_zone() -> None:
    """Together they want many times what the zone has; each alone fits, and the node has enough."""
    few, many = {"cpu": 4_000, "memory": 16 << 30}, {"cpu": 100_000, "memory": 400 << 30}
    snapshot = one_node((few, few), (many, many), policy=TopologyPolicy.BEST_EFFORT)
    engine = NativeEngine()
    info = PodInfo(pod(*(guaranteed(f"c{number}", "4", "16Gi") for number in range(20))))
    assert engine.filter_all(CycleState(), info, snapshot, snapshot.rows) is None
    scores = engine.score_all(CycleState(), info, snapshot, snapshot.rows)
    assert scores.tolist() == [engine.score(CycleState(), info, snapshot.at(0))]


def test_more_sets_of_zones_than_a_byte_counts() -> None:
    """The pod needs two of 24 zones, and none of 276 pairs has room."""
    has, free = {"cpu": 4_000, "memory": 16 << 30}, {"cpu": 1_000, "memory": 16 << 30}
    snapshot = one_node(*[(has, free)] * 24, policy=TopologyPolicy.RESTRICTED)
    check_refused_as_alone(snapshot, pod(guaranteed("a", "8", "20Gi")))


def test_pods_that_want_more_than_64_bits_hold() -> None:
    """Each container alone asks for what a Quantity can still tell."""
    has = {"cpu": 4_000, "memory": 16 << 30}
    for policy in TopologyPolicy:
        snapshot = one_node((has, has), (has, has), policy=policy)
        check_refused_as_alone(
            snapshot, pod(guaranteed("a", "1", "7Ei"), guaranteed("b", "1", "7Ei"))
        )


def one_node(*zones: tuple[Amounts, Amounts], policy: TopologyPolicy) -> Snapshot:
    """Return a cluster of one node whose zones have so much, and so much of it free."""
    topology = NodeTopology(
        node="any",
        zones=tuple(
            ZoneView(id=one, name=f"node-{one}", capacity=has, allocatable=has, available=free)
            for one, (has, free) in enumerate(zones)
        ),
        policy=policy,
        cpu_manager_policy="static",
        memory_manager_policy="Static",
    )
    cluster = Cluster()
    cluster.set_node(Node(metadata=ObjectMeta(name="any")))
    cluster.suppose("any", Belief(topology))
    return cluster.snapshot()


def check_refused_as_alone(snapshot: Snapshot, pod: Pod) -> None:
    """The refusal of the only node is in the words of the reference."""
    engine, info = NativeEngine(), PodInfo(pod)
    verdicts = engine.filter_all(CycleState(), info, snapshot, snapshot.rows)
    alone = engine.filter(CycleState(), info, snapshot.at(0))
    assert not alone.ok
    assert verdicts is not None
    assert verdicts.status(0).message == alone.message
