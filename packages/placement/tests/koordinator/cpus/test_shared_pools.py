"""Shared pools: a pod without CPUs of its own keeps off those of others."""

from hypothesis import given
from hypothesis import strategies as st

from numakube.kubelet.machines.shape_text import from_shape
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet, union
from numakube_placement.koordinator.cpu_pick import pools_of
from numakube_placement.koordinator.node_facts import CpuLayout
from numakube_placement.koordinator.read_cpus import layout_of

TWO_NODES = layout_of(from_shape("2 sockets, 8 cores, 16Gi"))
BITS = st.integers(min_value=0, max_value=TWO_NODES.all)


def bits(text: str) -> CpuMask:
    """Return a CPU list as bits."""
    return CpuSet.parse(text).mask


def test_every_cpu_is_shared_if_nobody_has_one_of_its_own() -> None:
    """Without bound pods both pools are the machine."""
    pools = pools_of(TWO_NODES, taken=NO_CPUS)
    assert pools.shared == pools.best_effort == {0: bits("0-7"), 1: bits("8-15")}


def test_a_pool_is_that_of_the_numa_nodes_that_a_pod_was_placed_on() -> None:
    """A mask selects pools; none selects all."""
    pools = pools_of(TWO_NODES, taken=bits("2-3,15"))
    assert pools.within(0b01) == bits("0-1,4-7")
    assert pools.within(0b10) == bits("8-14")
    assert pools.within(0b11) == pools.within(0) == bits("0-1,4-14")


def test_pods_of_class_be_share_cpus_that_are_not_taken_for_good() -> None:
    """CPUs of LSR pods are in the BE pool."""
    pools = pools_of(TWO_NODES, taken=bits("0-3"), taken_for_good=bits("0-1"))
    assert pools.shared[0] == bits("4-7")
    assert pools.best_effort[0] == bits("2-7")
    assert pools.within(0b01, best_effort=True) == bits("2-7")


def test_cpus_apart_are_in_no_pool() -> None:
    """What the kubelet pinned or an owner keeps back is nobody's."""
    pools = pools_of(TWO_NODES, taken=NO_CPUS, apart=bits("8-9"))
    assert pools.shared[1] == pools.best_effort[1] == bits("10-15")


def test_a_pool_that_has_run_dry_is_replaced_by_that_of_the_whole_node() -> None:
    """No pod is left without a CPU."""
    pools = pools_of(TWO_NODES, taken=bits("0-7"))
    assert pools.shared[0] == 0
    assert pools.within(0b01) == bits("8-15")


def test_a_numa_node_without_cpus_has_no_pool() -> None:
    """Memory-only NUMA nodes and empty layouts are no trouble."""
    assert pools_of(TWO_NODES, taken=NO_CPUS).within(0b100) == TWO_NODES.all
    assert pools_of(CpuLayout(()), taken=NO_CPUS).within(0b1) == 0


@given(taken=BITS, for_good=BITS, apart=BITS)
def test_pools_and_what_is_taken_make_up_the_node(
    taken: CpuMask, for_good: CpuMask, apart: CpuMask
) -> None:
    """Nothing is lost, and nothing is in two places."""
    pools = pools_of(TWO_NODES, taken=taken, taken_for_good=taken & for_good, apart=apart)
    assert union(pools.shared.values()) == TWO_NODES.all & ~(taken | apart)
    assert union(pools.shared.values()) & ~union(pools.best_effort.values()) == 0
    assert union(pools.best_effort.values()) & (taken & for_good) == 0
