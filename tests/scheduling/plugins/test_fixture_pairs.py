"""On machines that people have, claims get the best pair of devices that any choice has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.plugins.mixed_pods import claiming, decide, names
from tests.scheduling.plugins.test_claim_pairs import at, world_with

from numakube.kubelet.device_pairs import pairing
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.synthetic import from_shape

MACHINES = {
    "dgx-h100": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "hgx-b200": ("nvidia.com/gpu", "nvidia.com/hostdev"),
    "mi300x-8": ("amd.com/gpu", "amd.com/nic"),
}


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_choice_of_free_devices_has_closer_pairs(name: str, data: st.DataObject) -> None:
    """Whichever devices of a NUMA node are left: compared with all choices, by the worst pair."""
    machine = from_shape(name)
    gpus, cards = (_left(data, machine.devices[resource]) for resource in MACHINES[name])
    count = data.draw(st.integers(1, 2))
    world = world_with(
        [at(one.id, one.numa_nodes[0], address=one.pci) for one in gpus],
        [at(one.id, one.numa_nodes[0], address=one.pci) for one in cards],
        gpu=count,
        nic=count,
    )
    world.add_node("n", "none", machine=machine)
    known = {one.id: one for one in (*gpus, *cards)}

    chosen = [known[id_] for id_ in names(decide(world, claiming("p", "gpu", "nic")))]

    def worst(*groups: Sequence[Device]) -> int:
        return pairing(machine.tree, [tuple(one.pci for one in some) for some in groups]) or 0

    best = min(
        worst(some, others)
        for some, others in product(combinations(gpus, count), combinations(cards, count))
    )
    assert worst(chosen[:count], chosen[count:]) == best


def _left(data: st.DataObject, devices: tuple[Device, ...]) -> list[Device]:
    """Draw the devices of NUMA node 0 that are free, two at least."""
    near = [one for one in devices if one.numa_nodes == (0,)]
    return data.draw(st.lists(st.sampled_from(near), min_size=2, max_size=4, unique=True))
