"""Answers to recorded cases of dynamic resource allocation: the allocator, and the whole plugin.

A case of the allocator asks each node alone. A case of the plugin is a small cluster with an API of
its own; pods are scheduled, bound and given up in it step by step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import decode, encode, to_tree
from numakube.api.nodes import Node
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.allocated_state import state_of
from numakube.dra.allocator import Allocator
from numakube.dra.device_ids import AllocationError
from numakube.dra.features import features_of
from numakube.dra.pools import Inventory
from numakube.scheduling.dra_replay_steps import ReplayedCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = dict[str, Any]

GENERATED: Final = "<generated>"
"""Stands for every share id."""
_COMPILE_MARKS: Final = ("CEL compile error: ", "failed: ")


def answer(row: Row) -> Row:
    """Return our answer to a recorded case, in the recorded shape."""
    if row.get("layer") == "plugin":
        return {"id": row["id"], "expect": ReplayedCluster(row).run()}
    return {"id": row["id"], "expect": _allocated(row)}


def comparable(row: Row) -> Row:
    """Return what of a recorded or given answer is compared."""
    expect = row["expect"]
    if isinstance(expect, dict):
        expect = {node: _without_steps(one) for node, one in expect.items()}
    return {"id": row["id"], "expect": expect}


def _without_steps(one: Row) -> Row:
    kept = {key: value for key, value in one.items() if key != "steps"}
    if kept.get("kind") == "cel-compile":
        # What follows is the words of the parser.
        for mark in _COMPILE_MARKS:
            head, found, _ = kept["error"].partition(mark)
            if found:
                return {**kept, "error": head + found}
    return kept


def _allocated(row: Row) -> Row:
    features = features_of(row.get("gates"))
    held = (_read(ResourceClaim, tree).status.allocation for tree in row.get("allocated") or ())
    allocator = Allocator(
        Inventory((_read(ResourceSlice, tree) for tree in row["slices"]), features),
        state_of((one for one in held if one), sharing=features.consumable_capacity),
        {tree["metadata"]["name"]: _read(DeviceClass, tree) for tree in row["classes"]},
        new_id=lambda: GENERATED,
    )
    claims = [_read(ResourceClaim, tree) for tree in row["claims"]]
    nodes = [_read(Node, tree) for tree in row["nodes"]]
    return {node.metadata.name: _outcome(allocator, node, claims) for node in nodes}


def _read(kind: type[Any], tree: Row) -> Any:  # noqa: ANN401 - as *kind* says
    # Not by `convert`, which drops nulls, and those in parameters of drivers have to stay.
    return decode(kind, encode(tree))


def _outcome(allocator: Allocator, node: Node, claims: Sequence[ResourceClaim]) -> Row:
    try:
        found = allocator.allocate(node, claims)
    except AllocationError as error:
        scope = "node" if error.node_only else "pod"
        return {"error": str(error), "scope": scope, "kind": error.kind}
    if found is None:
        return {"fits": False}
    return {"fits": True, "allocations": list(_shown(found))}


def _shown(allocations: Iterable[Any]) -> Iterable[Row]:
    for one in allocations:
        yield {"devices": {}, **to_tree(one)}
