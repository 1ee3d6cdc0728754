"""Which devices go together."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.kubelet.device_pairs import pairing
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.preferred_allocation import (
    AllocationWish,
    Chooser,
    OtherDevices,
    Preference,
    Ranked,
    chooser_of,
    prefer,
)


def members(**places: tuple[int | None, str]) -> dict[str, Ranked]:
    """Return devices by their ids, each with a NUMA node and a physical function."""
    return {id_: member(id_, node, pf) for id_, (node, pf) in places.items()}


def member(id_: str, node: int | None, pf: str) -> Ranked:
    """Return a device."""
    return Ranked(id_, () if node is None else (node,), pf, position=-1)


TWO_NODES = members(
    a0=(0, "A"), a1=(0, "A"), a2=(0, "A"), b0=(0, "B"), b1=(0, "B"), c0=(1, "C"), c1=(1, "C")
)


def chosen(
    size: int,
    *,
    must: str = "",
    available: str = "",
    how: Preference = Preference.MOST_FREE,
    among: dict[str, Ranked] = TWO_NODES,
) -> list[str]:
    """Return what is preferred of *available*, or of all."""
    names = available.split() or list(among)
    return prefer(AllocationWish(names, must.split(), size), among, how)


def test_devices_stay_on_one_numa_node() -> None:
    """On the one with most free, if it has enough."""
    assert chosen(5) == ["a0", "a1", "a2", "b0", "b1"]
    assert chosen(2, available="a0 b0 c0 c1") == ["a0", "b0"]
    assert chosen(2, available="a0 c0 c1") == ["c0", "c1"]


def test_the_physical_function_with_most_free_comes_first() -> None:
    """All from one if it has enough."""
    assert chosen(1) == ["a0"]
    assert chosen(1, available="a2 b0 b1") == ["b0"]
    assert chosen(2) == ["a0", "a1"]
    assert chosen(4) == ["a0", "a1", "a2", "b0"]


def test_packed_leaves_the_fullest_function_alone() -> None:
    """It takes the one with as few as will do."""
    assert chosen(1, how=Preference.PACKED) == ["b0"]
    assert chosen(2, how=Preference.PACKED) == ["b0", "b1"]
    assert chosen(3, how=Preference.PACKED) == ["a0", "a1", "a2"]


def test_spread_takes_different_functions_of_one_numa_node() -> None:
    """As for bonds; the freest first."""
    assert chosen(2, how=Preference.SPREAD) == ["a0", "b0"]
    assert chosen(3, how=Preference.SPREAD) == ["a0", "b0", "a1"]
    assert chosen(2, must="a1", how=Preference.SPREAD) == ["a1", "b0"]


def test_what_must_be_included_decides_the_numa_node() -> None:
    """It comes first in the answer."""
    assert chosen(2, must="c1") == ["c1", "c0"]
    assert chosen(3, must="c1") == ["c1", "c0", "a0"]


def test_devices_without_a_numa_node_come_last() -> None:
    """They are near to nothing."""
    among = members(x=(None, ""), y=(None, ""), z=(1, "C"))

    assert chosen(1, among=among) == ["z"]
    assert chosen(2, among=among) == ["z", "x"]


def test_a_device_that_is_not_known_is_taken_if_need_be() -> None:
    """The kubelet may know it from an earlier list."""
    assert chosen(2, available="c0 gone") == ["c0", "gone"]
    assert chosen(1, must="gone") == ["gone"]


@given(
    places=st.lists(
        st.tuples(st.none() | st.integers(0, 3), st.sampled_from(["", "A", "B", "C"])),
        max_size=12,
    ),
    size=st.integers(0, 14),
    how=st.sampled_from(Preference),
    data=st.data(),
)
def test_the_answer_has_the_size_and_no_more_numa_nodes_than_needed(
    places: list[tuple[int | None, str]], size: int, how: Preference, data: st.DataObject
) -> None:
    """Whatever is free and whatever must be included."""
    among = {f"d{number}": member(f"d{number}", *one) for number, one in enumerate(places)}
    must = data.draw(st.lists(st.sampled_from(sorted(among)), unique=True)) if among else []

    answer = prefer(AllocationWish(sorted(among), must, size), among, how)

    assert answer[: len(must)] == must
    assert len(answer) == len(set(answer)) == max(len(must), min(size, len(among)))
    if not must and all(ranked.numa_nodes for ranked in among.values()):
        counts: dict[int, int] = {}
        for ranked in among.values():
            counts[ranked.numa_nodes[0]] = counts.get(ranked.numa_nodes[0], 0) + 1
        needed, left = 0, min(size, len(among))
        for count in sorted(counts.values(), reverse=True):
            needed += left > 0
            left -= count
        assert len({among[id_].numa_nodes[0] for id_ in answer}) == needed


@given(
    places=st.lists(
        st.tuples(st.none() | st.integers(0, 2), st.sampled_from(["", "A", "B", "C"])),
        min_size=1,
        max_size=12,
    ),
    size=st.integers(1, 6),
    how=st.sampled_from(Preference),
    data=st.data(),
)
def test_groups_of_devices_are_all_that_the_choice_depends_on(
    places: list[tuple[int | None, str]], size: int, how: Preference, data: st.DataObject
) -> None:
    """Whatever functions and devices are called, who knows their groups chooses the same."""
    among = {f"d{number}": member(f"d{number}", *one) for number, one in enumerate(places)}
    plugin = Chooser(how, among)
    told = chooser_of(
        how, plugin.groups(), {ranked.id: ranked.numa_nodes for ranked in among.values()}
    )
    free = data.draw(st.lists(st.sampled_from(sorted(among)), unique=True))
    must = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []

    assert told(free, must, size) == plugin(free, must, size)


MACHINES = {
    "dgx-h100": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "hgx-b200": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "gb300": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "mi300x-8": ("amd.com/gpu", "amd.com/nic"),
    "telco-2s": ("intel.com/acc100", "intel.com/sriov"),
}


@pytest.mark.parametrize("name", MACHINES)
@given(data=st.data())
def test_no_other_choice_pairs_devices_better(name: str, data: st.DataObject) -> None:
    """Of all that the kubelet would accept: those available on the container's NUMA node."""
    machine = from_shape(name)
    gpus, cards = (
        [device for device in machine.devices[key] if device.numa_nodes == (0,)]
        for key in MACHINES[name]
    )
    held = data.draw(st.lists(st.sampled_from(gpus[:4]), min_size=1, max_size=3, unique=True))
    free = data.draw(st.lists(st.sampled_from(cards[:5]), min_size=1, unique=True))
    size = data.draw(st.integers(1, len(free)))
    how = data.draw(st.sampled_from([Preference.MOST_FREE, Preference.PACKED, Preference.SPREAD]))
    functions = {device.id: device.pci for device in free}
    chooser = Chooser(
        how, {device.id: member(device.id, 0, device.pci) for device in free}, near=True
    )
    wanted = tuple(device.pci for device in held)

    found = chooser.among(
        AllocationWish(list(functions), (), size), OtherDevices(machine.tree, functions, wanted)
    )

    best = min(
        pairing(machine.tree, [wanted, tuple(functions[id_] for id_ in ids)]) or 0
        for ids in combinations(functions, size)
    )
    assert len(found) == size
    assert pairing(machine.tree, [wanted, tuple(functions[id_] for id_ in found)]) == best


def test_one_of_which_nothing_is_known_is_given_what_is_beside_a_free_device() -> None:
    """Of GPUs, three of which are taken already."""
    machine = from_shape("dgx-h100")
    cards = {device.id: device.pci for device in machine.devices["nvidia.com/hostdev"][:4]}
    free = frozenset({machine.devices["nvidia.com/gpu"][2].pci})
    chooser = Chooser(
        Preference.MOST_FREE, {id_: member(id_, 0, pci) for id_, pci in cards.items()}, near=True
    )

    found = chooser.among(
        AllocationWish(list(cards), (), 1), OtherDevices(machine.tree, cards, free=free)
    )

    assert found == ["hostdev-2"]


def test_beside_one_of_several_free_devices_is_near_enough() -> None:
    """No card is beside all GPUs."""
    machine = from_shape("dgx-h100")
    gpus, cards = machine.devices["nvidia.com/gpu"], machine.devices["nvidia.com/hostdev"]
    free = frozenset({gpus[2].pci, gpus[3].pci})
    functions = {card.id: card.pci for card in cards}
    around = OtherDevices(machine.tree, functions, free=free)
    near = [card.id for card in cards if around.rank(member(card.id, 0, card.pci), ()) == 0]
    assert near == ["hostdev-2", "hostdev-3"]
