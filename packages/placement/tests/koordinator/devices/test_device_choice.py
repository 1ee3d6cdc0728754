"""Devices that a pod gets: how many, which, and close to what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from packages.placement.tests.koordinator.devices.offering import offer_of

from numakube.api.koordinator.devices import (
    FPGA,
    FPGA_SHARE,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    RDMA,
    RDMA_SHARE,
    DeviceHint,
)
from numakube.api.meta import LabelSelector
from numakube.api.strictness import RequiredCloseness
from numakube.topology.allotments import Allotment, HeldDevice, Share
from numakube.values.numamask import masks_over
from numakube_placement.koordinator.device_choice import allot_devices
from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why
from numakube_placement.koordinator.pod_wish import DeviceWish

GIB = 1 << 30
GPU_RESOURCES = {GPU_CORE: 100, GPU_MEMORY: 80 * GIB, GPU_MEMORY_RATIO: 100}


def gpu(minor: int, numa: int | None, pcie: str, **more: Any) -> DevicePlace:
    """Return a GPU."""
    values = {"type": GPU, "minor": minor, "numa": numa, "pcie": pcie, "resources": GPU_RESOURCES}
    return DevicePlace(**{**values, **more})


def nic(minor: int, numa: int | None, pcie: str, **more: Any) -> DevicePlace:
    """Return a network card with two virtual functions."""
    vfs = (f"0000:{minor:02x}:00.2", f"0000:{minor:02x}:00.3")
    values = {"type": RDMA, "minor": minor, "numa": numa, "pcie": pcie, "vfs": vfs}
    return DevicePlace(**{**values, "resources": {RDMA_SHARE: 100}, **more})


def big() -> list[DevicePlace]:
    """Return eight GPUs and four cards on two NUMA nodes, two GPUs and a card to a switch."""
    gpus = [gpu(minor, minor // 4, f"sw{minor // 2}") for minor in range(8)]
    return gpus + [nic(minor, minor // 2, f"sw{minor}") for minor in range(4)]


def ledger(places: list[DevicePlace], *held: HeldDevice) -> NodeLedger:
    """Return a ledger of a node with these devices, some of which are held."""
    facts = NodeFacts(node="n", devices=tuple(places))
    return NodeLedger.of(facts, {"other": Allotment(total=Share(devices=held))})


def whole(*minors: int, kind: str = GPU) -> list[HeldDevice]:
    """Return whole devices that somebody holds."""
    resources = GPU_RESOURCES if kind == GPU else {RDMA_SHARE: 100}
    return [HeldDevice(type=kind, minor=minor, resources=resources) for minor in minors]


def gpus(count: int) -> dict[str, int]:
    """Return a request for whole GPUs."""
    return {GPU_CORE: 100 * count, GPU_MEMORY_RATIO: 100 * count}


def wish(requests: Mapping[str, Mapping[str, int]], **more: Any) -> DeviceWish:
    """Return a wish."""
    return DeviceWish(requests=requests, **more)


def minors(given: tuple[HeldDevice, ...] | PlacementRefusal, kind: str = GPU) -> list[int]:
    """Return the minors of one type that were given."""
    assert not isinstance(given, PlacementRefusal), given
    return [device.minor for device in given if device.type == kind]


def allot(places: list[DevicePlace], wanted: DeviceWish, *held: HeldDevice) -> Any:
    """Allot on any NUMA node."""
    return allot_devices(ledger(places, *held), wanted, mask=None)


def refused(answer: object, why: Why) -> PlacementRefusal:
    """Return the refusal that must have come."""
    assert isinstance(answer, PlacementRefusal)
    assert answer.why is why
    return answer


# How many, and how much of each.


@pytest.mark.parametrize(
    ("amounts", "count", "each"),
    [
        (gpus(1), 1, {GPU_CORE: 100, GPU_MEMORY: 80 * GIB, GPU_MEMORY_RATIO: 100}),
        (gpus(3), 3, {GPU_CORE: 100, GPU_MEMORY: 80 * GIB, GPU_MEMORY_RATIO: 100}),
        (
            {GPU_CORE: 50, GPU_MEMORY_RATIO: 25},
            1,
            {GPU_CORE: 50, GPU_MEMORY: 20 * GIB, GPU_MEMORY_RATIO: 25},
        ),
        ({GPU_MEMORY: 20 * GIB}, 1, {GPU_MEMORY: 20 * GIB, GPU_MEMORY_RATIO: 25}),
        (
            {GPU_SHARED: 2, GPU_MEMORY_RATIO: 100, GPU_CORE: 40},
            2,
            {GPU_CORE: 20, GPU_MEMORY: 40 * GIB, GPU_MEMORY_RATIO: 50},
        ),
    ],
)
def test_amounts_of_gpus_are_spread_over_as_many_as_they_need(
    amounts: dict[str, int], count: int, each: dict[str, int]
) -> None:
    """Memory in bytes and in percent imply each other."""
    given = allot(big(), wish({GPU: amounts}))
    assert [dict(one.resources) for one in given] == [each] * count


@pytest.mark.parametrize("amount", [150, 250])
def test_what_is_no_whole_number_of_devices_is_refused(amount: int) -> None:
    """The reading of the pod notes it too; here nothing is given by halves."""
    answer = allot(big(), wish({RDMA: {RDMA_SHARE: amount}}))
    assert "no whole number" in refused(answer, Why.DEVICES).detail


@pytest.mark.parametrize(
    ("strategy", "exclusive", "amount", "given", "each"),
    [
        ("", "", 50, [0], 50),
        ("", "", 200, [0, 1], 100),
        ("ApplyForAll", "", 10, [0, 1, 2, 3], 10),
        ("RequestsAsCount", "", 2, [0, 1], 1),
        ("RequestsAsCount", "DeviceLevel", 2, [0, 1], 100),
    ],
)
def test_cards_are_counted_as_the_pod_says(
    strategy: str, exclusive: str, amount: int, given: list[int], each: int
) -> None:
    """In percent, for all of them, or as a number of cards."""
    hint = DeviceHint(allocate_strategy=strategy, exclusive_policy=exclusive)
    answer = allot(big(), wish({RDMA: {RDMA_SHARE: amount}}, hints={RDMA: hint}))
    assert minors(answer, RDMA) == given
    assert {one.resources[RDMA_SHARE] for one in answer} == {each}


# Which.


def test_two_gpus_come_from_one_switch_and_four_from_one_numa_node() -> None:
    """The smallest branch of the tree that has them."""
    assert minors(allot(big(), wish({GPU: gpus(2)}), *whole(0))) == [2, 3]
    assert minors(allot(big(), wish({GPU: gpus(4)}), *whole(0))) == [4, 5, 6, 7]
    assert minors(allot(big(), wish({GPU: gpus(5)}), *whole(7))) == [0, 1, 2, 3, 4]


def test_a_single_gpu_comes_from_where_others_are_in_use() -> None:
    """So that untouched switches stay whole."""
    assert minors(allot(big(), wish({GPU: gpus(1)}), *whole(4))) == [5]


def test_parts_of_gpus_are_put_together() -> None:
    """A GPU in use takes the next part if it fits, else the next GPU does."""
    half = HeldDevice(type=GPU, minor=3, resources={GPU_CORE: 50, GPU_MEMORY_RATIO: 50})
    assert minors(allot(big(), wish({GPU: {GPU_CORE: 50, GPU_MEMORY_RATIO: 50}}), half)) == [3]
    assert minors(allot(big(), wish({GPU: {GPU_CORE: 60, GPU_MEMORY_RATIO: 60}}), half)) == [2]


@pytest.mark.parametrize(("scope", "count", "fits"), [("PCIe", 2, True), ("PCIe", 3, False)])
def test_a_scope_that_the_pod_insists_on_holds(scope: str, count: int, *, fits: bool) -> None:
    """Coarser branches are not tried."""
    hints = {GPU: DeviceHint(required_topology_scope=scope)}
    answer = allot(big(), wish({GPU: gpus(count)}, hints=hints))
    if fits:
        assert len(minors(answer)) == count
    else:
        assert "no PCIe has 3" in refused(answer, Why.DEVICES).detail


def test_devices_that_are_not_healthy_are_not_given() -> None:
    """And the refusal tells of them."""
    places = [gpu(0, 0, "a", healthy=False), gpu(1, 0, "a")]
    assert minors(allot(places, wish({GPU: gpus(1)}))) == [1]
    answer = refused(allot(places, wish({GPU: gpus(2)})), Why.DEVICES)
    assert answer.resource == GPU
    assert answer.detail == "2 wanted, 1 of 2 available; 1 not healthy"


def test_selectors_choose_among_devices() -> None:
    """By the labels in the Device resource."""
    places = [nic(0, 0, "a"), nic(1, 0, "a", labels={"type": "fast"})]
    hints = {RDMA: DeviceHint(selector=LabelSelector(match_labels={"type": "fast"}))}
    assert minors(allot(places, wish({RDMA: {RDMA_SHARE: 1}}, hints=hints)), RDMA) == [1]


def test_the_first_free_virtual_function_is_given() -> None:
    """One of each card, and only if it has the labels that are wanted."""
    hints = {RDMA: DeviceHint(vf_selector=LabelSelector())}
    wanted = wish({RDMA: {RDMA_SHARE: 1}}, hints=hints)
    held = HeldDevice(type=RDMA, minor=0, resources={RDMA_SHARE: 1}, vfs=("0000:00:00.2",))
    (given,) = allot([nic(0, 0, "a")], wanted, held)
    assert given.vfs == ("0000:00:00.3",)
    labelled = nic(0, 0, "a", vf_labels={"0000:00:00.3": {"speed": "100"}})
    picky = {RDMA: DeviceHint(vf_selector=LabelSelector(match_labels={"speed": "100"}))}
    (given,) = allot([labelled], wish({RDMA: {RDMA_SHARE: 1}}, hints=picky))
    assert given.vfs == ("0000:00:00.3",)
    refused(allot([nic(0, 0, "a")], wish({RDMA: {RDMA_SHARE: 1}}, hints=picky)), Why.DEVICES)


@pytest.mark.parametrize(("level", "given"), [("DeviceLevel", [1]), ("PCIeLevel", [2])])
def test_exclusive_devices_are_not_shared(level: str, given: list[int]) -> None:
    """Nor, if the pod says so, is a switch."""
    places = [nic(0, 0, "a"), nic(1, 0, "a"), nic(2, 0, "b")]
    hints = {RDMA: DeviceHint(exclusive_policy=level)}
    held = HeldDevice(type=RDMA, minor=0, resources={RDMA_SHARE: 1})
    assert minors(allot(places, wish({RDMA: {RDMA_SHARE: 1}}, hints=hints), held), RDMA) == given


# Together.


def together(count: int, *, same_pcie: bool = False, cards: int = 1) -> DeviceWish:
    """Return a wish for GPUs with cards close to them."""
    return wish(
        {GPU: gpus(count), RDMA: {RDMA_SHARE: cards}},
        joint=(GPU, RDMA),
        same_pcie=same_pcie,
        hints={RDMA: DeviceHint(allocate_strategy="RequestsAsCount")},
    )


def test_a_card_is_given_on_the_switch_of_its_gpu() -> None:
    """Not the first one there is."""
    answer = allot(big(), together(2), *whole(0, 1, 2))
    assert (minors(answer), minors(answer, RDMA)) == ([4, 5], [2])


def test_else_on_the_same_numa_node_and_else_anywhere() -> None:
    """Closeness is a preference unless the pod insists."""
    taken = whole(3, kind=RDMA)
    answer = allot(big(), together(2), *whole(0, 1, 2, 3, 4, 5), *taken)
    assert (minors(answer), minors(answer, RDMA)) == ([6, 7], [2])
    answer = allot(big(), together(2), *whole(0, 1, 2, 3, 4, 5), *whole(2, 3, kind=RDMA))
    assert minors(answer, RDMA) == [0]


def test_cards_take_turns_among_the_switches() -> None:
    """Four GPUs on two switches with two cards get one on each."""
    answer = allot(big(), together(4, cards=2))
    assert (minors(answer), minors(answer, RDMA)) == ([0, 1, 2, 3], [0, 1])


def test_a_pod_that_insists_gets_gpus_where_cards_are_free() -> None:
    """The first switch has free GPUs but its card is taken."""
    answer = allot(big(), together(2, same_pcie=True), *whole(0, kind=RDMA))
    assert (minors(answer), minors(answer, RDMA)) == ([2, 3], [1])


def test_containers_with_a_type_each_are_paired_with_each_other() -> None:
    """The card's container comes second; its devices must be close to the GPU of the first."""
    parts = {"a": {GPU: gpus(1)}, "b": {RDMA: {RDMA_SHARE: 100}}}
    wanted = wish(
        {GPU: gpus(1), RDMA: {RDMA_SHARE: 100}},
        by_container=parts,
        joint=(GPU, RDMA),
        closeness=RequiredCloseness.SAME_ROOT,
    )
    node = ledger([gpu(0, 0, "a"), nic(0, 0, "b")])
    first = allot_devices(node, wanted, mask=None, container="a")
    assert minors(first) == [0]
    assert not isinstance(first, PlacementRefusal)
    second = allot_devices(node, wanted, mask=None, container="b", taken=first)
    assert refused(second, Why.CLOSENESS).detail == "same-root: rdma and gpu would be NODE"


def test_a_pod_that_insists_is_refused_where_they_are_not_together() -> None:
    """Two switches need two cards, and each a card of its own."""
    answer = allot(big(), together(4, same_pcie=True, cards=1))
    assert "behind one PCIe switch" in refused(answer, Why.JOINT_DEVICES).detail
    answer = allot(big(), together(4, same_pcie=True, cards=2))
    assert (minors(answer), minors(answer, RDMA)) == ([0, 1, 2, 3], [0, 1])


# On which NUMA nodes.


def test_only_devices_of_the_mask_are_given_and_those_of_no_numa_node() -> None:
    """A device that is close to none in particular is close enough to all."""
    places = [gpu(0, 0, "a"), gpu(1, 1, "b"), gpu(2, None, "c")]
    answer = allot_devices(ledger(places), wish({GPU: gpus(1)}), mask=0b10)
    assert minors(answer) in ([1], [2])
    answer = allot_devices(ledger(places), wish({GPU: gpus(2)}), mask=0b10)
    assert sorted(minors(answer)) == [1, 2]
    answer = allot_devices(ledger(places), wish({GPU: gpus(3)}), mask=0b10)
    refused(answer, Why.DEVICES)


def test_earlier_containers_of_the_pod_keep_what_they_took() -> None:
    """Each container has its part of the wish."""
    wanted = wish({GPU: gpus(2)}, by_container={"a": {GPU: gpus(1)}, "b": {GPU: gpus(1)}})
    book = ledger([gpu(0, 0, "a"), gpu(1, 0, "a")])
    first = allot_devices(book, wanted, mask=0b1, container="a")
    assert not isinstance(first, PlacementRefusal)
    second = allot_devices(book, wanted, mask=0b1, container="b", taken=first)
    assert sorted(minors(first) + minors(second)) == [0, 1]
    assert allot_devices(book, wanted, mask=0b1, container="c", taken=first) == ()


def test_a_node_that_publishes_no_devices_leaves_them_to_its_kubelet() -> None:
    """Nothing is refused and nothing given."""
    assert allot([], wish({GPU: gpus(1)})) == ()
    assert offer_of(ledger([]), wish({GPU: gpus(1)})).types == ()


def offered(node: NodeLedger, wanted: DeviceWish) -> list[tuple[int | None, int]]:
    """Return the NUMA nodes on which *wanted* is available, with their scores."""
    numas = {device.numa for device in node.facts.devices if device.numa is not None}
    masks = masks_over(tuple(sorted(numas)))
    return [(hint.mask, hint.score) for hint in offer_of(node, wanted).hints(masks, preferred=True)]


def test_a_gpu_and_a_card_can_be_had_on_either_numa_node() -> None:
    """The one that gives the GPU which the pod would get anyway has the best score."""
    wanted = wish({GPU: gpus(1), RDMA: {RDMA_SHARE: 1}})
    assert offered(ledger(big()), wanted) == [(0b01, 500), (0b10, 0), (0b11, 500)]


def test_four_gpus_with_one_of_the_first_numa_node_taken() -> None:
    """Only the second node has four."""
    found = offered(ledger(big(), *whole(0)), wish({GPU: gpus(4)}))
    assert found == [(0b10, 500), (0b11, 500)]


@pytest.mark.parametrize("functions", [False, True])
def test_two_cards_can_be_had_on_either_numa_node(*, functions: bool) -> None:
    """Without GPUs all are as good."""
    hint = DeviceHint(
        allocate_strategy="RequestsAsCount", vf_selector=LabelSelector() if functions else None
    )
    found = offered(ledger(big()), wish({RDMA: {RDMA_SHARE: 2}}, hints={RDMA: hint}))
    assert found == [(0b01, 500), (0b10, 500), (0b11, 500)]


def test_four_virtual_functions_need_four_cards() -> None:
    """Two NUMA nodes with two cards each must do."""
    hint = DeviceHint(allocate_strategy="RequestsAsCount", vf_selector=LabelSelector())
    found = offered(ledger(big()), wish({RDMA: {RDMA_SHARE: 4}}, hints={RDMA: hint}))
    assert found == [(0b11, 500)]


def test_devices_that_the_node_lacks_are_refused_at_once() -> None:
    """No FPGA at all, or more GPUs than there are."""
    refused(offer_of(ledger(big()), wish({FPGA: {FPGA_SHARE: 100}})).best, Why.DEVICES)
    refused(offer_of(ledger(big()), wish({GPU: gpus(9)})).best, Why.DEVICES)
