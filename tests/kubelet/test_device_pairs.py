"""How close the devices will be that a kubelet hands out, and where only luck decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import admit, container, pod, start, static_settings
from tests.kubelet.connected import GPU, NIC, asks, gpu_server

from numakube.api.pod import Container
from numakube.kubelet.admission_outcome import Admitted, ContainerPlacement
from numakube.kubelet.device_pairs import Prospect, certain_functions, foresee, pairing
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Closeness, Device, DeviceTree, Machine, PciPath, tree_of
from numakube.kubelet.preferred_allocation import Preference, chooser_of


def server(
    machine: Machine, policy: str = "single-numa-node", *, tells: bool = False
) -> KubeletNode:
    """Return a node; the plugin of its network cards *tells* how it chooses, or does not."""
    node = start(machine, static_settings(policy), devices=machine.devices)
    if tells:
        members = machine.devices[NIC]
        numa_nodes = {member.id: member.numa_nodes for member in members}
        chooser = chooser_of(Preference.MOST_FREE, [[member.id] for member in members], numa_nodes)
        node.register_devices(NIC, members, preferred=chooser)
    return node


def seen(node: KubeletNode, *containers: Container) -> tuple[Prospect, ...]:
    """Return what is foreseen of a pod."""
    demand = node.demand_of(pod(*containers))
    outcome = node.clone().admit(demand)
    assert isinstance(outcome, Admitted)
    return foresee(node, demand, outcome)


def test_the_last_gpu_and_the_last_card_are_given_for_certain() -> None:
    """All that are there are needed."""
    (found,) = seen(server(gpu_server()), asks(2, 2))
    assert found.chances == ((Closeness.PIX, 1.0),)
    assert (found.container, found.resources) == ("main", (GPU, NIC))


def test_one_of_two_gpus_and_one_of_two_cards_are_together_by_luck() -> None:
    """Half of the four choices has both behind one switch."""
    (found,) = seen(server(gpu_server()), asks(1, 1))
    assert found.chances == ((Closeness.PIX, 0.5), (Closeness.NODE, 0.5))
    assert (found.best, found.worst) == (Closeness.PIX, Closeness.NODE)
    assert found.likelihood(Closeness.PXB) == 0.5
    assert found.likelihood(Closeness.NODE) == 1.0


def test_without_alignment_luck_has_the_whole_machine() -> None:
    """One card in four is beside the GPU, whichever that is."""
    (found,) = seen(server(gpu_server(), "none"), asks(1, 1))
    assert dict(found.chances)[Closeness.PIX] == pytest.approx(0.25)
    assert dict(found.chances)[Closeness.SYS] == pytest.approx(0.5)


def test_a_plugin_that_tells_how_it_chooses_leaves_less_to_luck() -> None:
    """Its card is known, and one switch has both GPUs."""
    machine = gpu_server(("ggn", "n", "gn", "gn"))
    (found,) = seen(server(machine, tells=True), asks(1, 1))
    assert found.chances == ((Closeness.PIX, 1.0),)


def test_devices_of_several_containers_are_paired_if_no_container_has_both() -> None:
    """The pod is looked at as a whole then."""
    (found,) = seen(server(gpu_server()), asks(2, 0, "train"), asks(0, 2, "send"))
    assert found.container == ""
    assert found.best is Closeness.PIX


def test_pods_without_pairs_are_not_spoken_of() -> None:
    """One resource alone makes none."""
    assert seen(server(gpu_server()), asks(2, 0)) == ()


def test_what_is_not_connected_to_anything_known_is_unknown() -> None:
    """Neither good nor bad."""
    machine = gpu_server()
    node = server(machine)
    node.register_devices(
        NIC, [type(device)(device.id, device.numa_nodes) for device in machine.devices[NIC]]
    )
    (found,) = seen(node, asks(1, 1))
    assert found.best is None
    assert found.unknown == (NIC,)


def test_with_too_many_choices_best_and_worst_are_told() -> None:
    """Without a likelihood."""
    machine = gpu_server(("gn",) * 8)
    (found,) = seen(server(machine, "none"), asks(4, 4))
    assert found.chances == ((Closeness.PIX, None), (Closeness.SYS, None))
    assert found.likelihood(Closeness.PXB) is None
    assert found.likelihood(Closeness.SYS) == 1.0


@st.composite
def trees(draw: st.DrawFn) -> DeviceTree:
    """Draw a tree of up to eight functions at any distance of each other."""
    places = draw(
        st.lists(st.tuples(*(st.integers(0, 1) for _ in range(4))), min_size=2, max_size=8)
    )
    return tree_of(
        PciPath(f"0000:{n:02x}:00.0", f"pci{numa}:{root}", (f"{root}{port}", f"{switch}{n}"), numa)
        for n, (numa, root, port, switch) in enumerate(places)
    )


@settings(max_examples=100)
@given(trees(), st.data())
def test_the_worst_pair_is_as_good_as_any_way_to_pair_makes_it(
    tree: DeviceTree, data: st.DataObject
) -> None:
    """Compared with all ways to pair."""
    addresses = st.sampled_from(list(tree.paths))
    one = tuple(data.draw(st.lists(addresses, min_size=1, max_size=3)))
    other = tuple(data.draw(st.lists(addresses, min_size=1, max_size=4)))
    few, many = sorted((one, other), key=len)
    ways = [
        max(level(tree, a, b) for a, b in zip(few, way, strict=True))
        for way in permutations(many, len(few))
    ]
    assert pairing(tree, (one, other)) == min(ways)


def level(tree: DeviceTree, one: str, other: str) -> Closeness:
    """Return how close two functions are, which must be known."""
    found = tree.between(one, other)
    assert found is not None
    return found.closeness


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text("gn", min_size=1, max_size=3), min_size=4, max_size=4),
    st.integers(1, 2),
    st.integers(1, 2),
)
def test_chances_are_those_of_all_choices(switches: list[str], gpus: int, nics: int) -> None:
    """Every choice of devices near the NUMA node counts as much as any other."""
    machine = gpu_server(switches)
    node = server(machine, "best-effort")
    demand = node.demand_of(pod(asks(gpus, nics)))
    outcome = node.clone().admit(demand)
    if (
        not isinstance(outcome, Admitted)
        or GPU not in machine.devices
        or NIC not in machine.devices
    ):
        return
    placed = outcome.containers["main"]
    near = {
        name: [
            device.pci
            for device in machine.devices[name]
            if _near(device.numa_nodes, placed.hint.mask)
        ]
        for name in (GPU, NIC)
    }
    if len(near[GPU]) < gpus or len(near[NIC]) < nics:
        return
    choices = [
        pairing(machine.tree, choice)
        for choice in product(combinations(near[GPU], gpus), combinations(near[NIC], nics))
    ]
    expected = {key: count / len(choices) for key, count in Counter(choices).items()}
    (found,) = foresee(node, demand, outcome)
    assert dict(found.chances) == pytest.approx(expected)


def _near(numa_nodes: tuple[int, ...], mask: int | None) -> bool:
    return mask is not None and any(mask >> node & 1 for node in numa_nodes)


def test_a_card_alone_is_taken_from_beside_a_free_gpu() -> None:
    """Where a pod may come that wants both; devices without a PCI function are beside nothing."""
    machine = gpu_server()
    plain = {"vendor.example/fpga": (Device("f0", (0,)),)}
    node = start(machine, static_settings(), devices={**machine.devices, **plain})
    cards = machine.devices[NIC]
    places = {card.id: card.numa_nodes for card in cards}
    near = chooser_of(Preference.MOST_FREE, [[card.id] for card in cards], places, near=True)
    node.register_devices(NIC, cards, preferred=near)
    assert admit(node, pod(asks(1, 0), uid="gpu")).containers["main"].devices[GPU] == ("g0",)
    assert admit(node, pod(asks(0, 1), uid="card")).containers["main"].devices[NIC] == ("n1",)


@pytest.mark.parametrize("known", [True, False])
def test_a_resource_with_a_device_of_an_unknown_function_is_left_out(*, known: bool) -> None:
    """What is certain of the others does not tell how close that one is."""
    machine = gpu_server(("gn", "gn"))
    first, second = machine.devices[GPU]
    gpus = (first, second if known else replace(second, pci=""))
    node = start(machine, static_settings("none"), devices={**machine.devices, GPU: gpus})
    demand = node.demand_of(pod(asks(2, 2)))
    outcome = node.clone().admit(demand)
    assert isinstance(outcome, Admitted)
    cards = tuple(device.pci for device in machine.devices[NIC])
    both = tuple(device.pci for device in gpus)
    assert set(certain_functions(node, demand, outcome)) == ({both, cards} if known else {cards})


def test_a_card_for_a_gpu_is_taken_from_beside_it() -> None:
    """The GPU that the container has just been given; what an init container had is not known."""
    machine = gpu_server()
    node = start(machine, static_settings(), devices=machine.devices)
    cards = machine.devices[NIC]
    places = {card.id: card.numa_nodes for card in cards}
    near = chooser_of(Preference.MOST_FREE, [[card.id] for card in cards], places, near=True)
    node.register_devices(NIC, cards, preferred=near)
    given = admit(node, pod(asks(1, 1))).containers["main"].devices
    assert (given[GPU], given[NIC]) == (("g0",), ("n0",))


@st.composite
def linked_trees(draw: st.DrawFn) -> DeviceTree:
    """Draw a tree in which links join functions, whatever switches they are behind."""
    tree = draw(trees())
    pairs = list(combinations(tree.paths, 2))
    return tree_of(tree.paths.values(), dict.fromkeys(draw(st.sets(st.sampled_from(pairs))), 1))


@settings(max_examples=200)
@given(linked_trees(), st.data())
def test_the_worst_of_all_pairs_of_groups_counts(tree: DeviceTree, data: st.DataObject) -> None:
    """Of an address that the tree does not have, no pair is known."""
    addresses = st.sampled_from([*tree.paths, "unknown"])
    group = st.lists(addresses, min_size=1, max_size=3, unique=True).map(tuple)
    groups = data.draw(st.lists(group, min_size=2, max_size=3))
    worst = [best_way(tree, one, other) for one, other in combinations(groups, 2)]
    expected = None if None in worst else max(one for one in worst if one is not None)
    assert pairing(tree, groups) == expected


def best_way(tree: DeviceTree, one: tuple[str, ...], other: tuple[str, ...]) -> Closeness | None:
    """Return how close the worst pair is in the best of all ways to pair."""
    few, many = sorted((one, other), key=len)
    ways = []
    for way in permutations(many, len(few)):
        found = [tree.between(a, b) for a, b in zip(few, way, strict=True)]
        known = [connection.closeness for connection in found if connection is not None]
        if len(known) == len(few):
            ways.append(max(known))
    return min(ways, default=None)


def test_a_gpu_makes_way_for_one_that_has_no_other_card() -> None:
    """The first GPU is linked to both cards, the second to the first card alone."""
    paths = [PciPath(name, f"pci{name}", (), node) for node, name in enumerate("abcd")]
    tree = tree_of(paths, {("a", "c"): 1, ("a", "d"): 1, ("b", "c"): 1})
    assert pairing(tree, (("a", "b"), ("c", "d"))) is Closeness.LINK


@pytest.mark.parametrize(
    ("switches", "containers", "chances"),
    [
        # Two of four GPUs, in two containers, and one of two cards: three ways in six to have the
        # GPU beside the card, two to have the other one of its NUMA node.
        (
            ("gn", "gn", "g", "g"),
            (asks(1, 0, "a"), asks(1, 0, "b"), asks(0, 1, "c")),
            [{Closeness.PIX: 1 / 2, Closeness.NODE: 1 / 3, Closeness.SYS: 1 / 6}],
        ),
        # Three of four GPUs always have one near the card: none is taken twice.
        (
            ("gn", "gn", "g", "g"),
            (asks(3, 1),),
            [{Closeness.PIX: 3 / 4, Closeness.NODE: 1 / 4}],
        ),
        # What the first container takes is not there for the second.
        (
            ("gn", "gn"),
            (asks(1, 1, "a"), asks(1, 1, "b")),
            [{Closeness.PIX: 1 / 2, Closeness.SYS: 1 / 2}, {Closeness.PIX: 1}],
        ),
    ],
)
def test_luck_counts_each_device_once(
    switches: tuple[str, ...],
    containers: tuple[Container, ...],
    chances: list[dict[Closeness, float]],
) -> None:
    """Without alignment every free device of the machine is as likely as any other."""
    found = seen(server(gpu_server(switches), "none"), *containers)
    assert [dict(prospect.chances) for prospect in found] == [
        pytest.approx(chance) for chance in chances
    ]


def test_devices_of_other_pods_are_not_left_to_luck() -> None:
    """One GPU and one card are left."""
    node = server(gpu_server(("gn", "gn")), "none")
    admit(node, pod(asks(1, 1), uid="other"))
    (found,) = seen(node, asks(1, 1))
    assert found.chances == ((Closeness.PIX, 1.0),)


def test_only_devices_that_no_luck_decides_are_certain() -> None:
    """Both cards of the NUMA node are needed, and one of its two GPUs."""
    machine = gpu_server()
    node = server(machine)
    demand = node.demand_of(pod(asks(1, 2)))
    outcome = node.clone().admit(demand)
    assert isinstance(outcome, Admitted)
    cards = tuple(device.pci for device in machine.devices[NIC][:2])
    assert certain_functions(node, demand, outcome) == (cards,)


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("address", ["", "ffff:00:00.0"])
def test_one_card_of_unknown_place_leaves_all_unknown(address: str, number: int) -> None:
    """Whether its address is not known or not in the tree, with few choices and with many."""
    machine = gpu_server(("gn",) * 8)
    *cards, last = machine.devices[NIC]
    node = server(machine, "none")
    node.register_devices(NIC, [*cards, replace(last, pci=address)])
    (found,) = seen(node, asks(number, number))
    assert found.chances == ()
    assert found.unknown == (() if address else (NIC,))


@pytest.mark.parametrize(
    ("switches", "gpus", "nics", "chances"),
    [
        # All are behind one switch.
        (("g" * 8 + "n" * 8,), 4, 4, [(Closeness.PIX, 1.0)]),
        # One card is beside a GPU, the others are on the other NUMA node than all GPUs.
        (("gn", "g" * 7, "n" * 7), 1, 4, [(Closeness.PIX, None), (Closeness.SYS, None)]),
        (("gn", "g" * 7, "n" * 7), 2, 4, [(Closeness.SYS, 1.0)]),
        # Few GPUs and many cards: each GPU wants one card, not each card a GPU.
        (("gnn",) * 8, 2, 12, [(Closeness.PIX, None), (Closeness.SYS, None)]),
    ],
)
def test_the_best_of_many_choices_has_a_partner_for_each_device_of_the_fewer(
    switches: tuple[str, ...],
    gpus: int,
    nics: int,
    chances: list[tuple[Closeness, float | None]],
) -> None:
    """The worst is any two devices; where both are the same, that is certain."""
    (found,) = seen(server(gpu_server(switches), "none"), asks(gpus, nics))
    assert list(found.chances) == chances


def test_the_best_of_many_choices_is_that_of_the_two_resources_farthest_apart() -> None:
    """GPUs and cards are behind one switch, the third resource is on the other NUMA node."""
    machine = gpu_server(("g" * 8 + "n" * 8, "n" * 4))
    cards, fpgas = machine.devices[NIC][:8], machine.devices[NIC][8:]
    devices = {GPU: machine.devices[GPU], NIC: cards, "vendor.example/fpga": fpgas}
    node = server(replace(machine, devices=devices), "none")
    wants = container("main", **{GPU: "2", NIC: "2", "vendor.example/fpga": "1"})
    (found,) = seen(node, wants)
    assert found.chances == ((Closeness.SYS, 1.0),)


@pytest.mark.parametrize(("nics", "counted"), [(39, True), (40, False)])
def test_likelihoods_are_told_of_up_to_a_thousand_choices(nics: int, *, counted: bool) -> None:
    """One of 24 GPUs, or none yet, with one of 39 cards, or none yet, are a thousand."""
    cards = [nics // 4 + (number < nics % 4) for number in range(4)]
    machine = gpu_server(["g" * 6 + "n" * number for number in cards])
    (found,) = seen(server(machine, "none"), asks(1, 1))
    assert (found.likelihood(Closeness.PIX) is not None) == counted


@pytest.mark.parametrize(
    ("switches", "pods", "given"),
    [
        # A container that has nothing yet is not known: its card is beside a GPU still free.
        (("gn",) * 4, (asks(1, 0, "a"), asks(0, 1, "b")), {"a": ("g0",), "b": ("n1",)}),
        # Only other resources are looked at: the second card of the switch is near no GPU.
        (
            ("g", "nn", "gn", "", "", ""),
            (asks(1, 1, "a"), asks(1, 1, "b")),
            {"a": ("g0", "n0"), "b": ("g1", "n2")},
        ),
    ],
)
def test_a_card_is_near_what_its_container_has(
    switches: tuple[str, ...], pods: tuple[Container, ...], given: dict[str, tuple[str, ...]]
) -> None:
    """As far as a plugin can find that out."""
    node = near_server(switches)
    placed = admit(node, pod(*pods)).containers
    assert {name: devices_in(one) for name, one in placed.items()} == given


def test_what_an_init_container_had_is_not_known_to_a_plugin() -> None:
    """It had both GPUs; the app keeps the first, and its card is on that NUMA node."""
    node = near_server(("g", "n", "gn"))
    placed = admit(node, pod(asks(1, 1, "app"), init=(asks(2, 0, "init"),))).containers
    assert devices_in(placed["init"]) == ("g0", "g1")
    assert devices_in(placed["app"]) == ("g0", "n0")


def near_server(switches: tuple[str, ...]) -> KubeletNode:
    """Return a node without alignment whose network cards' plugin looks at other devices."""
    machine = gpu_server(switches)
    node = start(machine, static_settings(), devices=machine.devices)
    cards = machine.devices[NIC]
    places = {card.id: card.numa_nodes for card in cards}
    near = chooser_of(Preference.MOST_FREE, [[card.id] for card in cards], places, near=True)
    node.register_devices(NIC, cards, preferred=near)
    return node


def devices_in(placement: ContainerPlacement) -> tuple[str, ...]:
    """Return the ids of a container's devices."""
    return tuple(id_ for ids in placement.devices.values() for id_ in ids)
