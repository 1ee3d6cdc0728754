"""Nodes of one kind: what is found for one holds for all, until something changes."""

from __future__ import annotations

from typing import Any

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.resource_claims import AllocationResult
from numakube.api.resource_slices import ResourceSlice
from numakube.dra.alike_nodes import NodeKinds
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.device_ids import PoolId
from numakube.dra.features import Features
from numakube.dra.pools import DeviceInventory

NAMES = ("n1", "n2", "n3")


def slice_of(name: str) -> ResourceSlice:
    """Return two devices of a node."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "a"}, {"name": "b"}]
    spec = {"driver": "d", "pool": pool, "nodeName": name, "devices": devices}
    return convert(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def node_of(name: str, *features: str) -> Node:
    """Return a node that declares features."""
    tree: dict[str, Any] = {"metadata": {"name": name}}
    return convert(Node, {**tree, "status": {"declaredFeatures": list(features)}})


def taken(state: AllocatedState, node: str, device: str) -> None:
    """Let a claim have a device."""
    result = {"request": "r", "driver": "d", "pool": node, "device": device}
    held = convert(AllocationResult, {"devices": {"results": [result]}})
    state.add(held, sharing=True)


def test_a_node_that_has_changed_is_looked_at_again() -> None:
    """What it declares is part of its kind."""
    kinds = NodeKinds(DeviceInventory(map(slice_of, NAMES), Features()), AllocatedState())
    first, second, third = map(node_of, NAMES)
    assert kinds.of(first) == kinds.of(second) == kinds.of(third)
    changed = node_of("n2", "Something")
    assert kinds.of(changed) != kinds.of(first)
    assert kinds.of(node_of("n2")) == kinds.of(first)
    assert kinds.changed == []


def test_nodes_whose_devices_were_taken_are_of_another_kind_and_are_named() -> None:
    """Alike again are those of which the same devices are taken."""
    state = AllocatedState()
    kinds = NodeKinds(DeviceInventory(map(slice_of, NAMES), Features()), state)
    nodes = {name: node_of(name) for name in NAMES}
    before = [kinds.of(node) for node in nodes.values()]
    assert len(set(before)) == 1
    taken(state, "n2", "a")
    # Until it is told of the change, it knows what it knew.
    assert kinds.of(nodes["n2"]) == before[0]
    kinds.pool_changed(PoolId("d", "n2"))
    kinds.pool_changed(PoolId("d", "elsewhere"))
    assert kinds.changed == ["n2"]
    assert kinds.of(nodes["n2"]) not in before
    taken(state, "n3", "a")
    kinds.pool_changed(PoolId("d", "n3"))
    assert kinds.of(nodes["n3"]) == kinds.of(nodes["n2"])
    assert not kinds.is_worn


def test_a_node_whose_pool_goes_on_elsewhere_is_of_no_kind() -> None:
    """What others do to the rest of the pool counts there, whatever else the node has."""
    slices = [slice_of("n1"), slice_of("n2")]
    for name in ("n1", "n2"):
        pool = {"name": "wide", "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": "d", "pool": pool, "nodeName": name, "devices": [{"name": name}]}
        tree = {"metadata": {"name": f"wide-{name}"}, "spec": spec}
        slices.append(convert(ResourceSlice, tree))
    assert DeviceInventory(slices[:2], Features()).kind_of(node_of("n1")) is not None
    assert DeviceInventory(slices, Features()).kind_of(node_of("n1")) is None
