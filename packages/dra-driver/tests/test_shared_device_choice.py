"""Claims for parts of devices: which NUMA node they come from."""

from __future__ import annotations

from benchmarks.claims_until_full import Filling, Wanted, run


def places(*pods: Wanted, nodes: int = 1) -> list[int]:
    """Return the NUMA node of each pod's devices, one pod after the other; -1 for none."""
    filling = Filling("Aligned", nodes)
    return [filling.place(wanted) for wanted in pods]


def test_the_fullest_numa_node_that_has_room_is_taken() -> None:
    """So whole ones are left to pods that need them."""
    assert places(Wanted(10, 8), Wanted(12, 8), Wanted(2, 8), Wanted(4, 8)) == [1, 2, 2, 1]


def test_memory_counts_as_much_as_cpus() -> None:
    """The third goes where memory runs out, though more CPUs are taken elsewhere."""
    assert places(Wanted(12, 4), Wanted(8, 40), Wanted(2, 20)) == [1, 2, 2]


def test_a_numa_node_with_devices_that_nobody_asked_for_is_left_to_those_who_do() -> None:
    """First fit would fill NUMA node 0, which has network functions, with pods that need none."""
    assert places(Wanted(4, 8), Wanted(4, 8, 1)) == [1, 0]


def test_more_pods_find_a_place_than_by_first_fit() -> None:
    """Over ten rows of pods: in one alone, luck may have it otherwise."""
    found = {result["metric"]: result["value"] for result in run(sizes=(1,))}
    for what in ("pods placed", "CPUs claimed"):
        assert found[f"{what}, 1 node, ours"] > found[f"{what}, 1 node, first fit"]
