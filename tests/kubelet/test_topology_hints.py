"""The merge of topology hints."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.kubelet import topology_hints
from numakube.kubelet.machine import Machine, NumaNode
from numakube.kubelet.topology_hints import (
    Axis,
    Hint,
    NumaInfo,
    ProviderHints,
    merge,
    reference_merge,
)
from numakube.kubelet.topology_manager import decide
from numakube.values.numamask import mask_of, masks_over
from numakube.values.topology_policy import TopologyPolicy


def numa_of(*ids: int, distances: list[list[int]] | None = None, closest: bool = False) -> NumaInfo:
    """Return NUMA nodes with the given distances."""
    rows = distances or [[10 if i == j else 20 for j in ids] for i in ids]
    nodes = tuple(
        NumaNode(id=node, memory_bytes=0, distances=tuple(row))
        for node, row in zip(ids, rows, strict=True)
    )
    return NumaInfo.of(Machine(nodes=nodes, cpu_count=0, socket_count=1), closest=closest)


def hints(*texts: str) -> list[Hint]:
    """Write hints as in ``0,1/T``; ``nil/F`` has no mask."""
    result = []
    for text in texts:
        nodes, _, preferred = text.partition("/")
        mask = None if nodes == "nil" else mask_of(int(node) for node in nodes.split(","))
        result.append(Hint(mask, preferred == "T"))
    return result


@st.composite
def merge_inputs(draw: st.DrawFn) -> tuple[list[Axis], NumaInfo]:
    """Draw axes of hints and the machine that they are about."""
    ids = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4, unique=True).map(sorted))
    distance = st.integers(10, 40)
    rows = draw(
        st.lists(
            st.lists(distance, min_size=len(ids), max_size=len(ids)),
            min_size=len(ids),
            max_size=len(ids),
        )
    )
    hint = st.builds(Hint, st.sampled_from([None, *masks_over(tuple(ids))]), st.booleans())
    axes = draw(st.lists(st.lists(hint, max_size=6), max_size=4))
    # Resources that are alike give equal hints.
    axes = axes[:2] * 2 if draw(st.booleans()) else axes
    return list(axes), numa_of(*ids, distances=rows, closest=draw(st.booleans()))


def test_equal_axes_can_meet_on_a_mask_that_none_of_them_has() -> None:
    """Each is taken by itself: one with nodes 0 and 1, the other with nodes 0 and 2."""
    axis = hints("nil/F", "1/F", "0,1/F", "0,2/F")
    assert merge([axis, axis], numa_of(0, 1, 2, 3)) == Hint(mask_of([0]), preferred=False)


@given(merge_inputs())
@settings(max_examples=200)
def test_the_fast_merge_equals_the_definition(case: tuple[list[Axis], NumaInfo]) -> None:
    """Sets of masks give the same winner as walking all permutations."""
    axes, numa = case
    assert merge(axes, numa) == reference_merge(axes, numa)


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_the_transform_finds_what_pairwise_conjunction_finds(seed: int) -> None:
    """Both ways of building the set of reachable masks agree on wide machines with holes."""
    numa = numa_of(0, 1, 2, 4, 5, 7, 8, 9)
    masks = masks_over(numa.nodes)
    sets = {
        frozenset(
            mask for index, mask in enumerate(masks) if (seed >> (index % 32)) & 1 or not index
        )
        for seed in (seed, seed * 7 + 3, seed ^ 0x5555)
    }
    direct = {numa.everywhere}
    for one in sets:
        direct = {mask & other for mask in direct for other in one}
    assert set(topology_hints._transformed_conjunctions(sets, numa.nodes)) == direct


TWO = numa_of(0, 1)
ALL_OF_TWO = mask_of((0, 1))


@pytest.mark.parametrize(
    ("answers", "best_effort", "single"),
    [
        ([], "0,1/T", "nil/T"),
        ([{}], "0,1/T", "nil/T"),
        ([{"r": None}], "0,1/T", "nil/T"),
        ([{"r": []}], "0,1/F", "nil/F"),
        ([{"r": hints("nil/F")}], "0,1/F", "nil/F"),
        ([{"r1": hints("0/T")}, {"r2": hints("0/T")}], "0/T", "0/T"),
        ([{"r1": hints("0/T")}, {"r2": hints("1/T")}], "0,1/F", "nil/F"),
        ([{"r1": hints("0/T")}, {"r2": hints("0/F")}], "0/F", "nil/F"),
        ([{"r1": hints("0/T")}, {"r2": hints("0,1/T")}], "0/F", "nil/F"),
        ([{"r1": hints("0/T", "1/T")}, {"r2": hints("0,1/F")}], "0/F", "nil/F"),
        ([{"r": hints("1/T", "0,1/F"), "s": hints("0/T", "1/T", "0,1/F")}], "1/T", "1/T"),
        ([{"r": hints("0,1/T"), "s": hints("0/T", "1/T", "0,1/F")}], "0,1/F", "nil/F"),
        ([{"d": hints("1/T")}, {"c": hints("0/T", "0,1/F")}], "1/F", "nil/F"),
        ([{"c": []}, {"m": hints("0/T", "1/T", "0,1/F")}], "0/F", "nil/F"),
        ([{"c": hints("0/T", "1/T", "0,1/F")}, {}], "0/T", "0/T"),
    ],
)
def test_documented_merges_on_two_nodes(
    answers: list[ProviderHints], best_effort: str, single: str
) -> None:
    """Each worked example comes out under every policy."""
    (expected,) = hints(best_effort)
    assert decide(TopologyPolicy.BEST_EFFORT, answers, TWO) == (expected, True)
    assert decide(TopologyPolicy.RESTRICTED, answers, TWO) == (expected, expected.preferred)
    (expected_single,) = hints(single)
    decision = decide(TopologyPolicy.SINGLE_NUMA_NODE, answers, TWO)
    assert decision == (expected_single, expected_single.preferred)


def test_single_numa_node_stores_no_mask_on_a_machine_of_one_node() -> None:
    """The only node is all nodes, and "all nodes" is stored as no preference."""
    decision = decide(TopologyPolicy.SINGLE_NUMA_NODE, [{"cpu": hints("0/T")}], numa_of(0))
    assert decision == (Hint(None, True), True)


FAR = (
    [10, 11, 12, 12, 30, 30, 30, 30],
    [11, 10, 12, 12, 30, 30, 30, 30],
    [12, 12, 10, 11, 30, 30, 30, 30],
    [12, 12, 11, 10, 30, 30, 30, 30],
)
EIGHT = [*(list(row) for row in FAR), *(list(row[4:] + row[:4]) for row in FAR)]


@pytest.mark.parametrize(
    ("second", "narrowest", "closest"),
    [
        (hints("0,1/F"), "0,1/F", "0,1/F"),
        (hints("0,3/F"), "0,3/F", "0,3/F"),
        (hints("1,2/F", "2,3/F"), "1,2/F", "2,3/F"),
        (hints("1,2,3/F", "1,2/F", "1,3/F", "2,3/F"), "1,2/F", "2,3/F"),
        (hints("4,5,6/F", "0,1,2/F"), "0,1,2/F", "0,1,2/F"),
    ],
)
def test_masks_that_are_not_preferred_are_ranked_by_size_then_fitness(
    second: list[Hint], narrowest: str, closest: str
) -> None:
    """The size that the neediest resource requires comes first; distance decides if asked to."""
    axes = [hints("0,1,2,3/F", "0,1/F"), second]
    assert [merge(axes, numa_of(0, 1, 2, 3))] == hints(narrowest)
    assert [reference_merge(axes, numa_of(0, 1, 2, 3))] == hints(narrowest)
    eight = numa_of(*range(8), distances=EIGHT, closest=True)
    assert [merge(axes, eight)] == hints(closest)


def test_distance_decides_between_masks_of_one_size_only() -> None:
    """A narrower mask wins even if it is farther away."""
    eight = numa_of(*range(8), distances=EIGHT, closest=True)
    near = hints("0,4/T", "0,2/T")
    assert [merge([near, near], eight)] == hints("0,2/T")
    narrow = hints("4/T", "0,2/T")
    assert [merge([narrow, narrow], eight)] == hints("4/T")


@pytest.mark.parametrize("merged", [merge, reference_merge])
def test_a_mask_below_the_wanted_size_beats_one_above(merged: Callable[..., Hint]) -> None:
    """One resource wants two nodes, which the other does not have: one is nearer than three."""
    axes = [hints("0/F", "0,1,2/F"), hints("4,5/F", "0,1,2/F")]
    assert [merged(axes, numa_of(*range(6)))] == hints("0/F")
    assert [merged([axis[::-1] for axis in axes], numa_of(*range(6)))] == hints("0/F")


def test_all_sets_of_sixteen_nodes_are_merged_at_once() -> None:
    """The permutations of two such resources are 700 million; no one walks them."""
    numa = numa_of(*range(16))
    wide = [Hint(mask, preferred=False) for mask in masks_over(numa.nodes) if mask.bit_count() > 8]
    begin = time.process_time()
    assert merge([wide, wide], numa) == Hint(mask_of(range(9)), preferred=False)
    assert time.process_time() - begin < 5


def test_distances_are_those_of_the_kubelets_table() -> None:
    """A row has a place for every id, or one for every node; what it lacks is no distance."""
    by_node = numa_of(0, 2, distances=[[10, 21], [32, 10]], closest=True)
    by_id = numa_of(0, 2, distances=[[10, 99, 21], [32, 99, 10]], closest=True)
    for numa in (by_node, by_id):
        assert (numa.between(0, 2), numa.total_distance(0b101)) == (53, 73)
        assert numa.fitness(0b101) == (2, 73, 0b101)
    unknown = numa_of(0, 1, distances=[[], []], closest=True)
    assert (unknown.between(0, 1), unknown.fitness(0b11)) == (0, (2, 0, 0b11))
