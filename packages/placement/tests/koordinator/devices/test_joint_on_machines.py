"""On machines that people have, joint devices are the best pair that any choice has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.paired_machines import MACHINES, free

from numakube.api.koordinator.devices import GPU, GPU_CORE, GPU_MEMORY_RATIO, RDMA, RDMA_SHARE
from numakube.api.strictness import RequiredCloseness
from numakube.kubelet.device_pairs import WITHIN, pairing
from numakube.kubelet.machine import Device, Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube_placement.koordinator.device_choice import allot_devices
from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why
from numakube_placement.koordinator.pod_wish import DeviceWish

SIZES = {GPU: {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}, RDMA: {RDMA_SHARE: 100}}


def place(machine: Machine, kind: str, minor: int, device: Device) -> DevicePlace:
    """Return a device as the facts of its node have it."""
    path = machine.tree.paths[device.pci]
    return DevicePlace(
        type=kind,
        minor=minor,
        numa=path.numa_node,
        pcie=path.root,
        bridges=path.bridges,
        resources=SIZES[kind],
    )


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_other_choice_has_a_closer_worst_pair(name: str, data: st.DataObject) -> None:
    """Whatever is free, and however many are wanted; a pod that requires more is refused."""
    machine = from_shape(name)
    left = [free(data, machine.devices[resource]) for resource in MACHINES[name]]
    counts = [data.draw(st.integers(1, min(3, len(some)))) for some in left]
    asked = data.draw(st.sampled_from([None, *RequiredCloseness]))
    facts = NodeFacts(
        node="n",
        devices=tuple(
            place(machine, kind, minor, device)
            for kind, some in zip((GPU, RDMA), left, strict=True)
            for minor, device in enumerate(some)
        ),
    )
    requests = {
        kind: {part: count * size for part, size in SIZES[kind].items()}
        for kind, count in zip((GPU, RDMA), counts, strict=True)
    }
    wish = DeviceWish(requests=requests, joint=(GPU, RDMA), closeness=asked)

    chosen = allot_devices(NodeLedger.of(facts, {}), wish, mask=None)

    def worst(*groups: Sequence[Device]) -> int:
        found = pairing(machine.tree, [tuple(device.pci for device in some) for some in groups])
        assert found is not None
        return found

    choices = (combinations(some, count) for some, count in zip(left, counts, strict=True))
    best = min(worst(*choice) for choice in product(*choices))
    if asked is not None and best > WITHIN[asked]:
        assert isinstance(chosen, PlacementRefusal)
        assert chosen.why is Why.CLOSENESS
        return
    assert not isinstance(chosen, PlacementRefusal), chosen
    groups = [
        [some[device.minor] for device in chosen if device.type == kind]
        for kind, some in zip((GPU, RDMA), left, strict=True)
    ]
    assert worst(*groups) == best
