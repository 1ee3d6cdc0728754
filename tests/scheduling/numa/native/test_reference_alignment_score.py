"""LeastFragmentation: pods go where they leave most for typical pods, zone by zone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import guaranteed, pod
from tests.scheduling.numa.native.clusters import any_pods, clusters
from tests.scheduling.numa.native.test_alignment_score import GIB, GPU, node, score

from numakube.api.pod import Pod
from numakube.errors import ConfigError
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import NativeOptions
from numakube.scheduling.numa.native.reference_alignment_score import (
    TypicalPods,
    fragments,
    kept_whole,
)
from numakube.scheduling.numa.topology_match import make_engine
from numakube.scheduling.numa.topology_match_args import read_args
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

REPORTED = ("cpu", "memory", GPU)
TRAINING = {"cpu": 4_000, "memory": 16 * GIB, GPU: 1}
SERVING = {"cpu": 8_000, "memory": 8 * GIB}
MIX = TypicalPods.weighted([(TRAINING, 3), (SERVING, 1)])

names = st.sampled_from(["cpu", "memory", "hugepages-2Mi", GPU, "vendor.example/nic"])
typicals = st.lists(
    st.tuples(
        st.dictionaries(names, st.integers(1, 16_000), min_size=1, max_size=3), st.integers(1, 9)
    ),
    min_size=1,
    max_size=4,
).map(TypicalPods.weighted)


def only_packing(typical: TypicalPods) -> NativeOptions:
    """Options of a scheduler that looks at nothing but packing."""
    return NativeOptions(alignment_weight=0, packing_weight=1, balance_weight=0, typical=typical)


@settings(max_examples=60)
@given(clusters(), any_pods, typicals)
def test_all_nodes_at_once_are_rated_as_each_alone(
    cluster: Cluster, pod: Pod, typical: TypicalPods
) -> None:
    """Scores of all nodes at once are those of each node alone."""
    engine, info = NativeEngine(only_packing(typical)), PodInfo(pod)
    snapshot = cluster.snapshot()
    verdicts = engine.filter_all(CycleState(), info, snapshot, snapshot.rows)
    passed = snapshot.rows if verdicts is None else snapshot.rows[verdicts.ok]
    if passed.size:
        each = [engine.score(CycleState(), info, snapshot.at(int(row))) for row in passed]
        assert engine.score_all(CycleState(), info, snapshot, passed).tolist() == each


def test_devices_without_cpus_beside_them_are_fragments() -> None:
    """A quarter of the pods has no use for a GPU; the others need 4 CPUs beside it."""
    free = {"cpu": 16_000, "memory": 64 * GIB, GPU: 4}
    assert fragments(free, MIX, REPORTED) == pytest.approx(1.0)
    assert fragments({**free, "cpu": 3_000}, MIX, REPORTED) == pytest.approx(4.0)
    assert fragments({**free, "memory": 0}, MIX, ("cpu", GPU)) == pytest.approx(1.0)


def test_cpus_are_counted_where_no_typical_pod_asks_for_a_device() -> None:
    """Six free CPUs are of no use to pods that ask for eight."""
    typical = TypicalPods.weighted([(SERVING, 1)])
    free = {"cpu": 6_000, "memory": 64 * GIB}
    assert fragments(free, typical, REPORTED) == pytest.approx(6.0)
    assert fragments({**free, "cpu": 8_000}, typical, REPORTED) == 0.0


@given(st.integers(0, 16), st.integers(0, 4), st.integers(0, 16), st.integers(0, 4), typicals)
def test_a_rating_is_from_0_to_1_and_one_half_for_no_change(
    cpus: int, gpus: int, wanted_cpus: int, wanted_gpus: int, typical: TypicalPods
) -> None:
    """A rating is from 0 to 1, and 0.5 if nothing is taken."""
    free = {"cpu": 1000 * cpus, "memory": 64 * GIB, GPU: gpus}
    wanted = {"cpu": 1000 * wanted_cpus, GPU: wanted_gpus}
    assert 0 <= kept_whole(free, wanted, typical, REPORTED) <= 1
    assert kept_whole(free, {}, typical, REPORTED) == 0.5


def test_a_pod_without_devices_goes_where_it_costs_no_device() -> None:
    """Rather a zone without GPUs, or one whose GPUs have no CPUs anyway, than an intact one."""
    options = only_packing(MIX)
    large = pod(guaranteed("main", "14", "8Gi"))
    plain, intact = node(1.0), node(1.0, gpus=(4,))
    assert score(large, plain, options) > score(large, intact, options)
    small = pod(guaranteed("main", "3", "8Gi"))
    assert score(small, intact, options) > score(pod(guaranteed("m", "13", "8Gi")), intact, options)
    lost = node(0.2, gpus=(4,))
    assert score(small, lost, options) >= score(large, intact, options)


def test_the_strategy_is_chosen_by_its_name_with_typical_pods() -> None:
    """The plugin's arguments name the strategy and the pods to keep room for."""
    requests = {"cpu": 4, "memory": "16Gi", GPU: 1}
    strategy = {"type": "LeastFragmentation", "typicalPods": [{"requests": requests, "weight": 3}]}
    settings = read_args({"scoringStrategy": strategy})
    assert settings.typical == TypicalPods.weighted([(TRAINING, 1)])
    engine = make_engine(settings)
    assert isinstance(engine, NativeEngine)
    assert engine.options.typical == settings.typical
    assert read_args({}).typical is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"type": "LeastFragmentation"}, "typicalPods: LeastFragmentation needs at least one"),
        (
            {"type": "LeastAllocated", "typicalPods": [{"requests": {"cpu": 1}}]},
            "typicalPods: only LeastFragmentation keeps room for them",
        ),
        (
            {"type": "LeastFragmentation", "typicalPods": [{"requests": {"cpu": "4x"}}]},
            r"typicalPods\[0\].requests: .*4x",
        ),
        (
            {"type": "LeastFragmentation", "typicalPods": [{"requests": {}}]},
            r"typicalPods\[0\].requests: asks for nothing",
        ),
        (
            {"type": "LeastFragmentation", "typicalPods": [{"requests": {"cpu": 1}, "weight": 0}]},
            r"typicalPods\[0\].weight: must be greater than 0",
        ),
    ],
)
def test_mistakes_are_named_with_their_field(args: dict[str, object], message: str) -> None:
    """Mistakes are named with their field."""
    with pytest.raises(ConfigError, match=f"scoringStrategy.{message}"):
        read_args({"scoringStrategy": args})


def test_upstream_mode_has_no_such_strategy() -> None:
    """Upstream mode decides as the Go plugin does."""
    strategy = {"type": "LeastFragmentation", "typicalPods": [{"requests": {"cpu": 1}}]}
    with pytest.raises(ConfigError, match="only native mode has LeastFragmentation"):
        read_args({"mode": "upstream", "scoringStrategy": strategy})
