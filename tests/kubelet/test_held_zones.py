"""Zones of pods by the kubelet model, and islands of linked devices."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from numakube.api.zone_relations import ZoneLevel
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.device_islands import islands_of
from numakube.kubelet.device_links import linked_chance
from numakube.kubelet.device_pairs import DeviceHandout
from numakube.kubelet.held_zones import ZoneMap
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, PciPath, tree_of
from numakube.kubelet.machines.shape_text import from_shape, to_shape
from numakube.testing import kubelet_settings, pod

ADDRESSES = [f"0000:{number:02x}:00.0" for number in range(1, 9)]


def islands(links: list[tuple[int, int]], count: int = 8) -> list[set[int]]:
    """Return the islands of *count* functions of which some are linked, by their numbers."""
    functions = ADDRESSES[:count]
    tree = tree_of(
        (PciPath(one, "pci0000:00") for one in functions),
        {(functions[one], functions[other]): 1 for one, other in links},
    )
    return [{functions.index(one) for one in island} for island in islands_of(tree, functions)]


def test_functions_that_are_pairwise_linked_are_one_island() -> None:
    fours = [*combinations(range(4), 2), *combinations(range(4, 8), 2)]
    assert islands(fours) == [{0, 1, 2, 3}, {4, 5, 6, 7}]
    assert islands([(0, 1), (2, 3)], 4) == [{0, 1}, {2, 3}]
    assert islands([(0, 1)], 3) == [{0, 1}, {2}]


def test_where_nothing_is_linked_nothing_is_known_of_islands() -> None:
    assert islands([]) == []


def test_of_a_ring_every_function_is_in_an_island_whose_members_are_all_linked() -> None:
    ring = [*pairwise(range(8)), (0, 7)]
    found = islands(ring)
    assert set.union(*found) == set(range(8))
    linked = {frozenset(pair) for pair in ring}
    assert all(frozenset(pair) in linked for one in found for pair in combinations(one, 2))


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "best-effort"])
def test_what_is_foreseen_for_certain_is_what_the_kubelet_gives(policy: str) -> None:
    machine = from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 4, 1 switch")
    kubelet = KubeletNode(machine, kubelet_settings(policy))
    for number in range(6):
        one = pod(f"p{number}", "1", gpu=1)
        demand = kubelet.demand_of(one)
        for level in (ZoneLevel.NUMA, ZoneLevel.PCI_ROOT):
            copy = kubelet.clone()
            outcome = copy.admit(demand)
            assert isinstance(outcome, Admitted)
            foreseen = ZoneMap(kubelet, level).foreseen(demand, outcome)
            held = ZoneMap(copy, level).held(one.metadata.uid)
            assert held is not None
            assert foreseen.certain <= held <= foreseen.possible
        kubelet.admit(demand)


def test_any_device_of_a_numa_node_with_two_roots_may_be_taken() -> None:
    machine = from_shape("1 socket, 4 cores, smt 2, 16Gi, gpu 4, 2 switches")
    kubelet = KubeletNode(machine, kubelet_settings())
    zones = ZoneMap(kubelet, ZoneLevel.PCI_ROOT)
    for count, certain in ((1, 0), (2, 0), (3, 2), (4, 2)):
        demand = kubelet.demand_of(pod("p", gpu=count))
        outcome = kubelet.clone().admit(demand)
        assert isinstance(outcome, Admitted)
        foreseen = zones.foreseen(demand, outcome)
        assert (len(foreseen.certain), len(foreseen.possible)) == (certain, 2)


def test_a_shape_parts_devices_into_islands() -> None:
    text = "2 sockets, 4 cores, 16Gi, npu 8, 2 switches, islands 2 npu"
    machine = from_shape(text)
    (name,) = machine.devices
    functions = [device.pci for device in machine.devices[name]]
    assert [len(one) for one in islands_of(machine.tree, functions)] == [8, 8]
    assert "islands 2 npu" in to_shape(machine)


def test_there_are_no_more_islands_than_devices() -> None:
    """However many a shape asks for."""
    text = f"1 socket, 4 cores, 16Gi, npu 4, 2 switches, islands {10**18 - 1} npu"
    assert from_shape(text).tree.links == {}


@pytest.mark.parametrize(
    ("free", "wanted", "chance"), [((6, 2), 8, 0.0), ((8, 0), 8, 1.0), ((2, 2), 2, 2 / 6)]
)
def test_how_likely_devices_are_linked(free: tuple[int, int], wanted: int, chance: float) -> None:
    islands = [frozenset(f"{island}-{at}" for at in range(8)) for island in "ab"]
    devices = tuple(
        Device(one)
        for island, count in zip(islands, free, strict=True)
        for one in sorted(island)[:count]
    )
    certain = DeviceHandout("npu", devices)
    luck = DeviceHandout("npu", (), devices, wanted)
    handout = certain if len(devices) == wanted else luck
    assert linked_chance(islands, handout) == pytest.approx(chance)
