"""Packing of shared GPUs: the measure, the policies and the experiment of FGD."""

from collections.abc import Sequence

import numpy as np
import pytest
from benchmarks._gpu_packing import (
    GpuNodes,
    Packer,
    Policy,
    fragmentation,
    policies,
    run_policy,
    typical_pods,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube_planning.simulation.trace_rows import TraceNode, TracePod, arrivals, commonest

MODELS = ("G2", "T4")
POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")


def a_node(name: str = "n", cpus: int = 32, gpus: int = 4, model: str = "G2") -> TraceNode:
    """Return a node with 256 GiB."""
    return TraceNode(
        name=name, cpu_milli=1000 * cpus, memory_bytes=1 << 38, gpus=gpus, gpu_model=model
    )


def a_pod(cpus: int = 4, gpus: int = 1, milli: int = 1000, models: Sequence[str] = ()) -> TracePod:
    """Return a pod with 1 GiB."""
    return TracePod(
        name="p", cpu_milli=1000 * cpus, memory_bytes=1 << 30, gpus=gpus,
        gpu_milli=milli if gpus else 0, gpu_models=tuple(models),
    )  # fmt: skip


nodes = st.lists(
    st.builds(
        a_node, cpus=st.integers(1, 24), gpus=st.integers(1, 4), model=st.sampled_from(MODELS)
    ),
    min_size=1,
    max_size=5,
)
pods = st.lists(
    st.one_of(
        st.builds(a_pod, cpus=st.integers(0, 8), gpus=st.just(0)),
        st.builds(a_pod, cpus=st.integers(0, 8), gpus=st.integers(1, 4)),
        st.builds(a_pod, cpus=st.integers(0, 8), milli=st.sampled_from([100, 250, 500, 900])),
        st.builds(a_pod, models=st.lists(st.sampled_from(MODELS), max_size=1)),
    ),
    min_size=1,
    max_size=25,
)


def fragments(cpu: int, gpu: Sequence[int], model: str, pod: TracePod) -> int:
    """Return what *pod* cannot use of the free GPUs of a node, as the paper defines it."""
    roomy = [free for free in gpu if free >= pod.gpu_milli]
    if not pod.gpus or len(roomy) < pod.gpus or cpu < pod.cpu_milli:
        return sum(gpu)
    if pod.gpu_models and model not in pod.gpu_models:
        return sum(gpu)
    return sum(gpu) - sum(roomy)


@given(nodes, pods)
@settings(max_examples=40)
def test_fragmentation_is_what_typical_pods_cannot_use(
    machines: list[TraceNode], coming: list[TracePod]
) -> None:
    """Fragmentation is what typical pods cannot use, on average."""
    state = GpuNodes(machines)
    packer = Packer(
        state, policies(typical_pods(coming, state.models))["BestFit"], np.random.default_rng(1)
    )
    for pod in coming:
        packer.place(pod)
    shapes = commonest(coming)
    rows = state.rows()
    wanted = [
        sum(
            count * fragments(int(cpu), list(map(int, gpu)), node.gpu_model,
                              a_pod(shape[0] // 1000, shape[1], shape[2], shape[3]))
            for shape, count in shapes.items()
        ) / shapes.total()
        for node, cpu, gpu in zip(machines, rows.cpu, rows.gpu, strict=True)
    ]  # fmt: skip
    assert fragmentation(rows, typical_pods(coming, state.models)) == pytest.approx(wanted)


def test_typical_pods_are_the_commonest_shapes() -> None:
    """Typical pods are the commonest shapes that make up 95 % of a workload."""
    coming = [a_pod(4)] * 90 + [a_pod(8)] * 6 + [a_pod(16)] * 4
    assert commonest(coming) == {(4000, 1, 1000, ()): 90, (8000, 1, 1000, ()): 6}


@given(nodes, pods, st.sampled_from(POLICIES))
@settings(max_examples=30)
def test_no_policy_gives_more_than_there_is_or_refuses_what_fits(
    machines: list[TraceNode], coming: list[TracePod], name: str
) -> None:
    """No policy gives more than there is, or refuses what fits."""
    state = GpuNodes(machines)
    rng = np.random.default_rng(1)
    packer = Packer(state, policies(typical_pods(coming, state.models))[name], rng)
    used = 0
    for pod in coming:
        before = state.rows(np.arange(len(machines)))
        fitting = [
            row
            for row, node in enumerate(machines)
            if before.cpu[row] >= pod.cpu_milli
            and (before.gpu[row] >= max(pod.gpu_milli, 1)).sum() >= pod.gpus
            and (not pod.gpu_models or node.gpu_model in pod.gpu_models)
        ]
        assert packer.place(pod) == bool(fitting)
        used += pod.total_gpu_milli if fitting else 0
    after = state.rows()
    assert min(after.cpu.min(), after.gpu.min()) >= 0
    assert state.capacity_milli - after.gpu_total.sum() == used


class _Forgetful(Packer):
    """Rates all nodes for every pod."""

    def place(self, pod: TracePod) -> bool:
        self._boards.clear()
        return super().place(pod)


@given(nodes, pods, st.sampled_from(POLICIES))
@settings(max_examples=30)
def test_kept_scores_are_those_of_a_fresh_look(
    machines: list[TraceNode], coming: list[TracePod], name: str
) -> None:
    """Kept scores lead to the same placements as a fresh look at all nodes."""
    states = [GpuNodes(machines), GpuNodes(machines)]
    policy = policies(typical_pods(coming, states[0].models))[name]
    for kind, state in zip((Packer, _Forgetful), states, strict=True):
        packer = kind(state, policy, np.random.default_rng(7))
        for pod in coming:
            packer.place(pod)
    assert (states[0].rows().gpu == states[1].rows().gpu).all()
    assert (states[0].rows().cpu == states[1].rows().cpu).all()


def choice(name: str, machines: Sequence[TraceNode], *coming: TracePod) -> int:
    """Return the node of the last of *coming*."""
    state = GpuNodes(machines)
    typical = typical_pods([a_pod(4), a_pod(1, milli=500)], state.models)
    policy: Policy = policies(typical)[name]
    packer = Packer(state, policy, np.random.default_rng(1))
    for pod in coming:
        before = state.changes.copy()
        assert packer.place(pod)
    return int(np.flatnonzero(state.changes != before)[0])


def test_clustering_prefers_nodes_with_pods_of_the_same_kind() -> None:
    """Clustering prefers nodes with none but pods of the same kind."""
    machines = [a_node("a", gpus=4), a_node("b", gpus=2)]
    part = a_pod(1, milli=300)
    assert choice("GpuClustering", machines, part) == 1
    assert choice("GpuClustering", machines, a_pod(gpus=2), part) == 0
    assert choice("GpuClustering", machines, a_pod(gpus=2), part, part) == 0


def test_packing_prefers_gpus_in_use_then_nodes_in_use() -> None:
    """Packing prefers GPUs in use, then nodes in use, then small nodes."""
    machines = [a_node("a", gpus=4), a_node("b", gpus=2)]
    assert choice("GpuPacking", machines, a_pod()) == 1
    assert choice("GpuPacking", machines, a_pod(gpus=3), a_pod()) == 0
    part = a_pod(1, milli=400)
    assert choice("GpuPacking", machines, part, a_pod(gpus=4), part) == 1


def test_best_fit_leaves_least() -> None:
    """Best fit leaves least."""
    assert choice("BestFit", [a_node("a", cpus=64), a_node("b", cpus=8, gpus=1)], a_pod()) == 1


def test_fgd_keeps_cpus_for_gpus() -> None:
    """FGD puts a pod without GPU where the GPUs lose nothing by it."""
    machines = [a_node("a", cpus=16, gpus=4), a_node("b", cpus=64, gpus=4)]
    assert choice("FGD", machines, a_pod(16, gpus=0)) == 1


def test_arrivals_reach_the_demand() -> None:
    """Pods come until they ask for what is wanted, every pod of the trace at most once before."""
    coming = [a_pod(gpus=2), a_pod(milli=500), a_pod(gpus=0)]
    rng = np.random.default_rng(3)
    more = list(arrivals(coming, 9000, rng))
    assert 9000 <= sum(pod.total_gpu_milli for pod in more) < 11000
    assert sorted(map(id, more[:3])) == sorted(map(id, coming))
    assert sum(pod.total_gpu_milli for pod in arrivals(coming, 1000, rng)) <= 1000


def test_the_experiment_repeats_itself_and_ranks_fgd_first() -> None:
    """The same seed gives the same result, and FGD packs best where CPUs are scarce."""
    machines = [a_node(f"n{i}", cpus=24, gpus=4) for i in range(30)] + [a_node("cpu", gpus=0)]
    coming = [a_pod(8, milli=500)] * 30 + [a_pod(4)] * 60 + [a_pod(6, gpus=0)] * 30
    results = {
        name: run_policy(machines, coming, name, seed=5) for name in ("Random", "FGD", "BestFit")
    }
    assert run_policy(machines, coming, "Random", seed=5) == results["Random"]
    assert results["FGD"].allocated >= max(result.allocated for result in results.values())
    assert results["FGD"].placed < results["FGD"].pods
