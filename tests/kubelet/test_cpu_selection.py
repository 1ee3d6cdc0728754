"""Which CPUs are chosen: packed, spread, by cache, distributed over NUMA nodes."""

from __future__ import annotations

import pytest
from tests.kubelet.conftest import (
    build_machine,
    dual_socket_ht,
    eight_numa,
    quad_numa,
    quad_numa_interleaved,
    single_socket_ht,
    triple_socket_ht,
)

from numakube.kubelet.cpu_selection import (
    CpuShortage,
    DistributedOrder,
    PackedOrder,
    take_distributed,
    take_packed,
)
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.machine import Machine
from numakube.values.cpuset import CpuSet


def packed(machine: Machine, free: str, count: int, **order: bool) -> str:
    """Return the packed choice as a CPU list."""
    topology = CpuTopology.of(machine)
    bits = CpuSet.parse(free).mask if free else topology.all_cpus
    taken = take_packed(topology, bits, count, PackedOrder(**order))
    return taken.text(with_amounts=True) if isinstance(taken, CpuShortage) else str(CpuSet(taken))


def distributed(machine: Machine, free: str, count: int, order: DistributedOrder) -> str:
    """Return the distributed choice as a CPU list."""
    topology = CpuTopology.of(machine)
    bits = CpuSet.parse(free).mask if free else topology.all_cpus
    taken = take_distributed(topology, bits, count, order)
    return taken.text(with_amounts=True) if isinstance(taken, CpuShortage) else str(CpuSet(taken))


@pytest.mark.parametrize(
    ("count", "choice", "spread"),
    [
        (0, "", ""),
        (1, "0", "0"),
        (2, "0,6", "0,2"),
        (3, "0,2,6", "0,2,4"),
        (5, "0,2,4,6,8", "0,2,4,6,8"),
        (6, "0,2,4,6,8,10", "0,2,4,6,8,10"),
        (8, "0-2,4,6-8,10", "0-4,6,8,10"),
    ],
)
def test_an_idle_machine_is_filled_core_by_core(count: int, choice: str, spread: str) -> None:
    """Packed takes whole cores of one node; spread takes one thread of each core first."""
    assert packed(dual_socket_ht(), "", count) == choice
    assert packed(dual_socket_ht(), "", count, spread_over_cores=True) == spread


@pytest.mark.parametrize(
    ("machine", "free", "count", "choice"),
    [
        (dual_socket_ht(), "1-5,7-11", 1, "2"),
        (dual_socket_ht(), "1-5,7-11", 2, "2,8"),
        (dual_socket_ht(), "1-5,7-11", 5, "1-2,4,8,10"),
        (dual_socket_ht(), "1-5,7-11", 6, "1,3,5,7,9,11"),
        (dual_socket_ht(), "1-5,7-11", 8, "1-3,5,7-9,11"),
        (single_socket_ht(), "1,3,5-7", 1, "6"),
        (single_socket_ht(), "0-3,6", 2, "2,6"),
        (single_socket_ht(), "1-7", 3, "1,4-5"),
        (triple_socket_ht(), "0-3,6-13", 2, "12-13"),
        (quad_numa(), "", 20, "0-9,40-49"),
        (quad_numa(), "", 64, "0-31,40-71"),
        (quad_numa(), "1-39,41-79", 60, "10-39,50-79"),
    ],
)
def test_the_fullest_element_that_fits_is_used_first(
    machine: Machine, free: str, count: int, choice: str
) -> None:
    """Large free blocks are kept; a whole free node is used when the need is as large."""
    assert packed(machine, free, count) == choice


def test_a_request_above_the_free_cpus_names_both_numbers() -> None:
    """The kubelet's text is kept to the letter."""
    assert packed(single_socket_ht(), "0-2", 4) == (
        "not enough cpus available to satisfy request: requested=4, available=3"
    )


def test_a_hybrid_core_with_one_free_thread_counts_as_whole() -> None:
    """With an average of one CPU a core, the kubelet takes both threads of a half-busy core."""
    hybrid = build_machine(
        [
            *((0, 0, (2 * core, 2 * core + 1)) for core in range(2)),
            *((0, 0, (4 + e,)) for e in range(2)),
        ]
    )
    assert packed(hybrid, "1-5", 2) == "0-1"


def test_a_socket_with_an_average_number_of_free_cpus_counts_as_whole() -> None:
    """On unequal sockets the kubelet takes busy CPUs along with the free ones."""
    lopsided = build_machine([(0, 0, (cpu,)) for cpu in range(4)] + [(1, 1, (4,)), (1, 1, (5,))])
    assert packed(lopsided, "1-4", 4) == "0-3"


def sixteen_cpus(cpus_per_cache: int) -> Machine:
    """One NUMA node of 16 single-thread cores."""
    return build_machine(
        [(0, 0, (cpu,)) for cpu in range(16)], uncore=lambda cpu: cpu // cpus_per_cache
    )


def epyc_128() -> Machine:
    """128 CPUs with siblings 64 apart and a cache for every four cores."""
    return build_machine(
        [(0, 0, (core, core + 64)) for core in range(64)], uncore=lambda cpu: cpu // 4
    )


@pytest.mark.parametrize(
    ("machine", "free", "count", "choice"),
    [
        (sixteen_cpus(4), "1-15", 10, "1-2,4-11"),
        (epyc_128(), "2-63,66-127", 8, "4-7,68-71"),
        (epyc_128(), "2-3,8-63,66-67,72-127", 12, "2-3,8-11,66-67,72-75"),
        (epyc_128(), "2-63,66-127", 3, "2-3,66"),
        (epyc_128(), "2-63,65-127", 3, "2,65-66"),
        (epyc_128(), "2-63,65-127", 4, "4-5,68-69"),
        (epyc_128(), "2-63,65-127", 11, "2,4-7,65-66,68-71"),
    ],
)
def test_cpus_stay_within_a_cache_where_they_can(
    machine: Machine, free: str, count: int, choice: str
) -> None:
    """Whole caches first, then the rest inside one cache."""
    assert packed(machine, free, count, align_by_uncore=True) == choice


def test_before_1_34_an_odd_request_is_not_cut_out_of_a_cache() -> None:
    """Then the packed order decides, which starts with half-free cores."""
    taken = packed(epyc_128(), "2-63,65-127", 3, align_by_uncore=True, odd_uncore_requests=False)
    assert taken == "2,65-66"
    taken = packed(epyc_128(), "4-7,68-71,64", 3, align_by_uncore=True, odd_uncore_requests=False)
    assert taken == "4,64,68"


@pytest.mark.parametrize(
    ("machine", "free", "count", "group", "choice"),
    [
        (dual_socket_ht(), "", 8, 1, "0-3,6-9"),
        (dual_socket_ht(), "1-5,7-11", 1, 1, "1"),
        (dual_socket_ht(), "1-5,7-11", 1, 2, "2"),
        (dual_socket_ht(), "", 7, 1, "0-3,6-8"),
        (dual_socket_ht(), "", 7, 2, "0-2,4,6,8,10"),
        (quad_numa(), "", 26, 1, "0-6,10-16,40-45,50-55"),
        (quad_numa(), "", 26, 2, "0-6,10-15,40-46,50-55"),
        (quad_numa(), "", 48, 1, "0-7,10-17,20-27,40-47,50-57,60-67"),
        (quad_numa(), "", 62, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-66,70-76"),
        (quad_numa(), "2-29,31-39,42-69,71-79", 48, 1, "10-17,20-27,31-38,50-57,60-67,71-78"),
        (quad_numa_interleaved(), "1-9,12-13,16-17", 6, 1, "1,4-5,8-9,12"),
    ],
)
def test_cpus_are_distributed_evenly_over_numa_nodes(
    machine: Machine, free: str, count: int, group: int, choice: str
) -> None:
    """As few nodes as possible, the same share of each, the machine left as even as possible."""
    assert distributed(machine, free, count, DistributedOrder(group_size=group)) == choice


@pytest.mark.parametrize(
    ("free", "choice"),
    [
        ("1-15", "1,3,5,7,9,11"),
        ("1-9,12-13,16-17", "1,3,5,7,9,13"),
        ("1-5,8-9,12-13", "1,4-5,8-9,12"),
    ],
)
def test_since_1_37_distribution_prefers_one_socket(free: str, choice: str) -> None:
    """With align-by-socket a combination inside a socket wins over an evener one across sockets."""
    order = DistributedOrder(align_by_socket=True, clamp_share=True)
    assert distributed(quad_numa_interleaved(), free, 6, order) == choice


def nodes_used(machine: Machine, cpus: str) -> dict[int, int]:
    """Return how many of *cpus* are on which NUMA node."""
    numa = CpuTopology.of(machine).numa
    bits = CpuSet.parse(cpus).bits
    return {node: (bits & members).bit_count() for node, members in numa.items() if bits & members}


@pytest.mark.parametrize(
    ("count", "defective", "intended"),
    [
        (100, {0: 25, 1: 25, 2: 25, 7: 25}, {0: 25, 1: 25, 2: 25, 3: 25}),
        (192, dict.fromkeys((0, 1, 2, 3, 4, 7), 32), dict.fromkeys(range(6), 32)),
        (
            200,
            {**dict.fromkeys(range(4), 29), 4: 28, 6: 28, 7: 28},
            {**dict.fromkeys(range(4), 29), 4: 28, 5: 28, 6: 28},
        ),
    ],
)
def test_the_kubelets_overwritten_combinations_are_reproduced_and_can_be_switched_off(
    count: int, defective: dict[int, int], intended: dict[int, int]
) -> None:
    """On more than four nodes the kubelet uses another combination than the one it found best."""
    machine = eight_numa()
    assert nodes_used(machine, distributed(machine, "", count, DistributedOrder())) == defective
    fixed = DistributedOrder(aliasing=False)
    assert nodes_used(machine, distributed(machine, "", count, fixed)) == intended


def test_single_cpus_of_a_core_do_not_make_whole_cores() -> None:
    """Fourteen CPUs are free, but seven cores on no set of NUMA nodes: they are taken as packed."""
    free = "1,7,19,21,31,33,35,41,45-46,56,66,74,77"
    assert distributed(quad_numa(), free, 14, DistributedOrder(group_size=2)) == free


def test_more_than_is_free_is_a_shortage_however_it_is_distributed() -> None:
    """With the numbers that the kubelet tells."""
    shortage = distributed(dual_socket_ht(), "1-3", 4, DistributedOrder())
    assert shortage == packed(dual_socket_ht(), "1-3", 4)
    assert "requested=4, available=3" in shortage
