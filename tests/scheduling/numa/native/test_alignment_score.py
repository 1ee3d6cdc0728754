"""Well aligned is better than well packed is better than balanced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubelet.build import container, guaranteed, pod
from tests.scheduling.numa.native.clusters import Belief

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import NativeOptions
from numakube.scheduling.numa.native.reference_alignment_score import (
    WHOLE,
    ScoreParts,
    ZoneState,
    alignment,
    packing,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.topology_view import NodeTopology, ZoneView
from numakube.values.topology_policy import TopologyPolicy

GIB = 1 << 30
GPU = "vendor.example/gpu"
shares = st.floats(0, 1)


def node(
    *free: float, policy: str = "best-effort", gpus: tuple[int, ...] = (), far: int = 20
) -> NodeInfo:
    """A node with zones of 16 CPUs and 64 GiB, of which a part is free, and some with GPUs."""
    zones = []
    for index, part in enumerate(free):
        whole = {"cpu": 16_000, "memory": 64 * GIB}
        left = {"cpu": int(16_000 * part), "memory": int(64 * GIB * part)}
        if gpus and gpus[index]:
            whole[GPU] = left[GPU] = gpus[index]
        zones.append(
            ZoneView(
                id=index,
                name=f"node-{index}",
                capacity=whole,
                allocatable=whole,
                available=left,
                costs={other: 10 if other == index else far for other in range(len(free))},
            )
        )
    info = NodeInfo(Node(metadata=ObjectMeta(name="node")))
    info.numa = Belief(
        NodeTopology(
            node="node",
            zones=tuple(zones),
            policy=TopologyPolicy(policy),
            cpu_manager_policy="static",
            memory_manager_policy="Static",
        )
    )
    return info


def score(pod: Pod, node: NodeInfo, options: NativeOptions | None = None) -> int:
    """Rate *node* for *pod*."""
    engine = NativeEngine(options)
    return engine.score(CycleState(), PodInfo(pod), node)


QUARTER = pod(guaranteed("main", "4", "16Gi"))
HALF = pod(guaranteed("main", "8", "32Gi"))


@given(shares, shares, st.integers(2, 8), st.integers(10, 255))
def test_one_zone_beats_several_whatever_else_they_have(
    packing: float, balance: float, zones: int, distance: int
) -> None:
    """With the default weights."""
    row = tuple(10 if one == 0 else distance for one in range(zones))
    spread = alignment(tuple(range(zones)), tuple(row[-one:] + row[:-one] for one in range(zones)))
    options = NativeOptions()
    one_zone = ScoreParts(alignment((0,), ()), packing, balance)
    several = ScoreParts(spread, 1.0, 1.0)
    assert one_zone.total(options) >= several.total(options)


def test_fewer_zones_are_better_and_then_closer_ones() -> None:
    """Half a zone of CPUs on one zone, on two near ones, on two far ones."""
    one, near, far = node(1.0, 0.0), node(0.25, 0.25, far=12), node(0.25, 0.25, far=40)
    assert score(HALF, one) > score(HALF, near) > score(HALF, far)


def test_a_started_zone_is_better_than_an_empty_one() -> None:
    """An empty zone can still take the largest pods."""
    assert score(QUARTER, node(0.75)) > score(QUARTER, node(1.0))
    assert score(QUARTER, node(0.25)) > score(QUARTER, node(1.0))


def test_a_pod_without_devices_stays_away_from_them() -> None:
    """GPUs without CPUs beside them are stranded."""
    assert score(HALF, node(1.0)) > score(HALF, node(1.0, gpus=(4,)))


def test_a_pod_that_takes_a_device_with_its_share_strands_nothing() -> None:
    """A quarter of the zone with one of four GPUs."""
    idle = {"cpu": 16_000, "memory": 64, GPU: 4}
    fair, greedy, plain = (
        packing(ZoneState.of(idle, idle, (GPU,), wanted))
        for wanted in (
            {"cpu": 4_000, "memory": 16, GPU: 1},
            {"cpu": 12_000, "memory": 16, GPU: 1},
            {"cpu": 4_000, "memory": 16},
        )
    )
    assert fair > plain > greedy


def test_what_is_left_counts_however_fractions_are_rounded() -> None:
    """A 32nd of a zone is no whole number of its fractions; half of it left is half of it left."""
    idle = {"cpu": 32_000, "memory": 128}
    ratings = [
        packing(
            ZoneState.of(
                idle,
                {"cpu": 1000 * (16 + cpus), "memory": 4 * (16 + cpus)},
                (),
                {"cpu": 1000 * cpus, "memory": 4 * cpus},
            )
        )
        for cpus in (14, 15)
    ]
    # Of the wanted fraction half counts, and it is rounded.
    assert ratings[1] - ratings[0] == WHOLE // 64 + 1


def test_even_use_is_better() -> None:
    """All CPUs and half of the memory leave memory that nobody can use."""
    lopsided = pod(guaranteed("main", "16", "32Gi"))
    even = pod(guaranteed("main", "16", "64Gi"))
    only_balance = NativeOptions(alignment_weight=0, packing_weight=0, balance_weight=1)
    assert score(even, node(1.0), only_balance) == 100
    assert score(lopsided, node(1.0), only_balance) == 50


def test_nodes_without_data_are_below_all_others() -> None:
    """They may be used, but only if nothing else can."""
    unknown = NodeInfo(Node(metadata=ObjectMeta(name="unknown")))
    assert score(HALF, unknown) == 0
    assert score(HALF, node(1.0, 1.0, policy="none")) == 1


def test_nothing_is_known_where_zones_lack_devices() -> None:
    """Devices near no NUMA node may make up for it; a kubelet takes them wherever its CPUs are."""
    three = pod(guaranteed("main", "4", "16Gi", gpu="3"))
    assert score(three, node(1.0, 1.0, gpus=(1, 1))) == 1
    assert score(three, node(1.0, gpus=(2,))) == 1
    assert score(three, node(1.0, 1.0, gpus=(1, 2))) > 1


def test_pods_that_want_no_alignment_are_welcome_everywhere() -> None:
    """The plugin has no opinion on them."""
    burstable = pod(container("main", cpu="4"))
    cluster = Cluster()
    cluster.set_node(Node(metadata=ObjectMeta(name="one")))
    snapshot, engine = cluster.snapshot(), NativeEngine()
    rows, state, info = snapshot.rows, CycleState(), PodInfo(burstable)
    assert engine.filter_all(state, info, snapshot, rows) is None
    assert engine.score_all(state, info, snapshot, rows).tolist() == [100]
    assert score(burstable, node(0.0)) == 100


@pytest.mark.parametrize("weights", [(0, 0, 0), (-1, 1, 1)])
def test_weights_must_mean_something(weights: tuple[int, int, int]) -> None:
    """None below zero, and not all zero."""
    with pytest.raises(ValueError, match="weights"):
        NativeOptions(
            alignment_weight=weights[0], packing_weight=weights[1], balance_weight=weights[2]
        )
