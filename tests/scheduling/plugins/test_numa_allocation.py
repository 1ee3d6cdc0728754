"""Where the devices of a pod are, by the NUMA nodes that they are local to."""

from __future__ import annotations

import pytest
from tests.scheduling.plugins.mixed_pods import SHAPE, device, offer

from numakube.api.codec import convert
from numakube.api.resource_claims import AllocationResult
from numakube.dra.features import Features
from numakube.dra.pools import Inventory
from numakube.scheduling.plugins.dynamic_resources.cycle_claims import CycleClaims, NodeAllocation
from numakube.scheduling.plugins.dynamic_resources.numa_allocation import Held, NearDevices
from numakube.testing import World


def devices_of(*places: int | list[int] | None) -> tuple[NearDevices, NodeAllocation]:
    """Return a node with a device at each of *places*, and an allocation of all of them."""
    world = World()
    world.add_node("n", machine=SHAPE)
    offered = [device(f"d{number}", at) for number, at in enumerate(places)]
    offer(world, "n", *offered)
    engine = world.scheduler().engine
    node = engine.cluster.node("n")
    assert node is not None
    objects = engine.cluster.objects
    inventory = Inventory(objects.resource_slices.values(), Features())
    known = CycleClaims(objects, [], [], inventory=inventory)
    results = [
        {"request": "r", "driver": "gpu.example", "pool": "n", "device": one["name"]}
        for one in offered
    ]
    allocation = convert(AllocationResult, {"devices": {"results": results}})
    return NearDevices(known, node), NodeAllocation(allocations=(allocation,))


@pytest.mark.parametrize(
    ("places", "nodes"),
    [
        ((), set()),
        ((None,), set()),
        ((0,), {0}),
        ((1, None), {1}),
        ((0, 1), {0, 1}),
        (([0, 1], 1), {1}),
        (([0, 1], [0, 1]), {0, 1}),
        (([0, 1], 0, 1), {0, 1}),
    ],
)
def test_devices_are_on_the_numa_nodes_that_all_are_local_to_or_else_any(
    places: tuple[int | list[int] | None, ...], nodes: set[int]
) -> None:
    """Those of unknown places do not count."""
    near, found = devices_of(*places)
    assert near.numa_nodes(found) == nodes


@pytest.mark.parametrize(
    ("places", "near", "is_near"),
    [
        (({0}, {0}), {0}, True),
        (({0}, {1}), {0}, False),
        (({0}, {1}), {0, 1}, True),
        (({0, 1}, {1}), {1}, True),
        ((), {0}, True),
    ],
)
def test_a_claim_is_near_if_every_device_is(
    places: tuple[set[int], ...], near: set[int], is_near: bool
) -> None:
    """Local to one of the NUMA nodes is enough for a device."""
    held = Held(0, tuple(map(frozenset, places)))
    assert held.is_near(frozenset(near)) is is_near
    assert held.nodes == set().union(*places)
