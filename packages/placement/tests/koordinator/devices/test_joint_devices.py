"""Devices that are placed together are as close as any choice of them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from numakube.api.koordinator.devices import GPU, RDMA
from numakube_placement.koordinator.device_groups import Left, Want, selections
from numakube_placement.koordinator.joint_devices import together
from numakube_placement.koordinator.node_facts import DevicePlace


def device(
    kind: str, minor: int, numa: int, switch: int, *bridges: str, in_use: bool = False
) -> Left:
    """Return a device with nothing taken of it."""
    pcie = f"{numa}-{switch}"
    place = DevicePlace(type=kind, minor=minor, numa=numa, pcie=pcie, bridges=bridges)
    return Left(place=place, amounts={}, vfs=(), in_use=in_use)


@st.composite
def offered(draw: st.DrawFn, kind: str) -> list[Left]:
    """Draw devices of a type anywhere on two NUMA nodes with two switches each."""
    count = draw(st.integers(1, 5))
    place = st.integers(0, 1)
    return [
        device(kind, minor, draw(place), draw(place), in_use=draw(st.booleans()))
        for minor in range(count)
    ]


def misses(gpus: tuple[Left, ...], cards: tuple[Left, ...]) -> tuple[int, int]:
    """Return how many pairs are not on one NUMA node, and not behind one switch."""
    wanted = min(len(gpus), len(cards))
    numa = Counter(one.place.numa for one in gpus) & Counter(card.place.numa for card in cards)
    pcie = Counter(one.place.pcie for one in gpus) & Counter(card.place.pcie for card in cards)
    return wanted - numa.total(), wanted - pcie.total()


@given(gpus=offered(GPU), cards=offered(RDMA), data=st.data())
def test_no_other_choice_has_closer_pairs(
    gpus: list[Left], cards: list[Left], data: st.DataObject
) -> None:
    """Compared with all of them."""
    first = Want(type=GPU, count=data.draw(st.integers(1, len(gpus))), each={})
    second = Want(type=RDMA, count=data.draw(st.integers(1, len(cards))), each={})
    ways = partial(selections, all_left=[*gpus, *cards])
    offers = {GPU: gpus, RDMA: cards}
    chosen = together([first, second], offers, ways, strictly=False, freely=True)
    assert chosen is not None
    (_, leaders), (_, beside) = chosen
    best = min(
        misses(one, other)
        for one in combinations(gpus, first.count)
        for other in combinations(cards, second.count)
    )
    assert misses(tuple(leaders), tuple(beside)) == best


def test_gpus_go_where_a_card_is_free_though_the_pod_does_not_insist() -> None:
    """The first GPU's switch has no card left."""
    gpus = [device(GPU, 0, 0, 0), device(GPU, 1, 0, 1)]
    cards = [device(RDMA, 1, 0, 1)]
    assert paired(gpus, cards, 1) == [1, 1]


def test_of_devices_below_one_root_those_behind_one_switch_go_together() -> None:
    """And of these the ones behind the same of several cascaded switches."""
    gpus = [
        device(GPU, 0, 0, 0, "port0", "up", "down0"),
        device(GPU, 1, 0, 0, "port1", "up0", "down0", "up1", "down1"),
    ]
    cards = [
        device(RDMA, 0, 0, 0, "port2", "up", "down0"),
        device(RDMA, 1, 0, 0, "port1", "up0", "down2"),
        device(RDMA, 2, 0, 0, "port1", "up0", "down0", "up1", "down2"),
    ]
    assert paired(gpus, cards, 1) == [1, 2]
    assert paired(gpus, cards[:2], 1) == [1, 1]


def test_many_devices_are_paired_as_well() -> None:
    """Every third GPU has a card behind its switch; all choices would be thousands."""
    gpus = [device(GPU, number, number // 10, number) for number in range(20)]
    cards = [device(RDMA, number, number // 10, 3 * number) for number in range(7)]
    cards[4:] = [device(RDMA, number, 1, 3 * number) for number in range(4, 7)]
    chosen = paired(gpus, cards, 7)
    assert sorted(chosen[:7]) == [0, 3, 6, 9, 12, 15, 18]


def paired(gpus: list[Left], cards: list[Left], count: int) -> list[int]:
    """Return the GPUs and cards that are taken together, by their minors."""
    wants = [Want(type=GPU, count=count, each={}), Want(type=RDMA, count=count, each={})]
    ways = partial(selections, all_left=[*gpus, *cards])
    chosen = together(wants, {GPU: gpus, RDMA: cards}, ways, strictly=False, freely=True)
    assert chosen is not None
    return [one.place.minor for _, devices in chosen for one in devices]
