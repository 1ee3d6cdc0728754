"""How close the devices will be that a kubelet hands out, and where only luck decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import admit, pod, start, static_settings
from tests.kubelet.connected import GPU, NIC, asks, gpu_server

from numakube.api.pod import Container
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.device_connections import Closeness, DeviceTree, PciPath, tree_of
from numakube.kubelet.device_pairs import Prospect, certain_functions, foresee, pairing
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, Machine
from numakube.kubelet.preferred_allocation import Preference, chooser_of


def server(
    machine: Machine, policy: str = "single-numa-node", *, tells: bool = False
) -> KubeletNode:
    """Return a node; the plugin of its network cards *tells* how it chooses, or does not."""
    node = start(machine, static_settings(policy), devices=machine.devices)
    if tells:
        members = machine.devices[NIC]
        numa_nodes = {one.id: one.numa_nodes for one in members}
        chooser = chooser_of(Preference.MOST_FREE, [[one.id] for one in members], numa_nodes)
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
    node.register_devices(NIC, [type(one)(one.id, one.numa_nodes) for one in machine.devices[NIC]])
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
        name: [one.pci for one in machine.devices[name] if _near(one.numa_nodes, placed.hint.mask)]
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
    places = {one.id: one.numa_nodes for one in cards}
    near = chooser_of(Preference.MOST_FREE, [[one.id] for one in cards], places, near=True)
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
    cards = tuple(one.pci for one in machine.devices[NIC])
    both = tuple(one.pci for one in gpus)
    assert set(certain_functions(node, demand, outcome)) == ({both, cards} if known else {cards})


def test_a_card_for_a_gpu_is_taken_from_beside_it() -> None:
    """The GPU that the container has just been given; what an init container had is not known."""
    machine = gpu_server()
    node = start(machine, static_settings(), devices=machine.devices)
    cards = machine.devices[NIC]
    places = {one.id: one.numa_nodes for one in cards}
    near = chooser_of(Preference.MOST_FREE, [[one.id] for one in cards], places, near=True)
    node.register_devices(NIC, cards, preferred=near)
    given = admit(node, pod(asks(1, 1))).containers["main"].devices
    assert (given[GPU], given[NIC]) == (("g0",), ("n0",))
