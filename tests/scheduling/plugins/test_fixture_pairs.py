"""On machines that people have, claims get the best pair of devices that any choice has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.paired_machines import MACHINES, free
from tests.scheduling.plugins.mixed_pods import claiming, decide, names
from tests.scheduling.plugins.test_claim_pairs import at, world_with

from numakube.kubelet.device_pairs import pairing
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_no_choice_of_free_devices_has_closer_pairs(name: str, data: st.DataObject) -> None:
    """Whichever devices of the machine are left: compared with all choices, by the worst pair."""
    machine = from_shape(name)
    gpus, cards = (free(data, machine.devices[resource]) for resource in MACHINES[name])
    counts = [data.draw(st.integers(1, min(3, len(some)))) for some in (gpus, cards)]
    world = world_with(
        [at(_name(device), device.numa_nodes[0], address=device.pci) for device in gpus],
        [at(_name(card), card.numa_nodes[0], address=card.pci) for card in cards],
        gpu=counts[0],
        nic=counts[1],
    )
    world.add_node("n", machine=machine, settings=KubeletSettings())
    known = {_name(card): card for card in (*gpus, *cards)}

    chosen = [known[id_] for id_ in names(decide(world, claiming("p", "gpu", "nic")))]

    def worst(*groups: Sequence[Device]) -> int:
        found = pairing(machine.tree, [tuple(device.pci for device in some) for some in groups])
        assert found is not None
        return found

    choices = (combinations(some, count) for some, count in zip((gpus, cards), counts, strict=True))
    best = min(worst(*choice) for choice in product(*choices))
    assert worst(chosen[: counts[0]], chosen[counts[0] :]) == best


def _name(device: Device) -> str:
    """Return the id of a device as slices take it."""
    return device.id.replace(":", "-").replace(".", "-")
