"""Answers to recorded cases of dynamic resource allocation: the allocator, and the whole plugin.

A case of the allocator asks each node alone. A case of the plugin is a small cluster with an API of
its own; pods are scheduled, bound and given up in it step by step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numakube.api.codec import decode, encode, to_tree
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, DeviceTaintRule, ResourceSlice
from numakube.dra.allocated_state import state_of
from numakube.dra.allocator import Allocator
from numakube.dra.device_ids import AllocationError
from numakube.dra.features import features_of
from numakube.dra.pools import DeviceInventory
from numakube.scheduling.framework import CycleState
from numakube.scheduling.framework.cycle_state import as_bound
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.plugins.plugin_arguments import DynamicResourcesArgs
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.claim_api import ReplayedApi, finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.scheduling.framework import Plugin, Status
    from numakube.scheduling.snapshot.nodes import NodeInfo


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
        DeviceInventory((_read(ResourceSlice, tree) for tree in row["slices"]), features),
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
    return {"fits": True, "allocations": list(_with_devices(found))}


def _with_devices(allocations: Iterable[Any]) -> Iterable[Row]:
    for allocation in allocations:
        yield {"devices": {}, **to_tree(allocation)}


# The steps of a recorded case of the plugin: scheduling, binding, giving up, and hints.

_KINDS: Mapping[str, tuple[str, type[Any]]] = {
    "slices": ("resource_slices", ResourceSlice),
    "classes": ("device_classes", DeviceClass),
    "claims": ("resource_claims", ResourceClaim),
    "taintRules": ("device_taint_rules", DeviceTaintRule),
}


class ReplayedCluster:
    """The cluster of a recorded case, and what happens in it."""

    def __init__(self, row: Row) -> None:
        self._steps = row["steps"]
        self._cluster = Cluster()
        objects = self._cluster.objects
        for key, (field, kind) in _KINDS.items():
            for tree in row.get(key) or ():
                one = decode(kind, encode(tree))
                getattr(objects, field)[one.metadata.key] = one
        self._order = [tree["metadata"]["name"] for tree in row["nodes"]]
        for tree in row["nodes"]:
            self._cluster.set_node(decode(Node, encode(tree)))
        self._api = ReplayedApi(objects)
        args = DynamicResourcesArgs(binding_timeout="1s", feature_gates=row.get("gates") or {})
        self._plugin = DynamicResources(args, objects=objects, actions=self._api)
        self._fit = NodeResourcesFit(by_claims=self._plugin.serves)
        self._pods: dict[str, PodInfo] = {}
        self._reserved: dict[str, tuple[CycleState, str]] = {}

    def run(self) -> list[Row]:
        """Return the outcome of every step."""
        return [self._step(step) for step in self._steps]

    def _step(self, step: Row) -> Row:
        before = self._api.claims
        self._api.pod_status = {}
        match step["op"]:
            case "schedule":
                entry = self._schedule(step)
            case "bind":
                entry = self._bind(step["name"])
                self._reserved.pop(step["name"], None)
            case "unreserve":
                entry = self._unreserve(step["name"])
            case "bindThenFail":
                entry = self._bind(step["name"])
                entry |= self._unreserve(step["name"])
            case _:
                return self._hint(step)
        changes = _changes(before, self._api.claims)
        if changes:
            entry["claims"] = changes
        if self._api.pod_status:
            entry["podStatus"] = self._api.pod_status
        return entry

    def _schedule(self, step: Row) -> Row:
        pod = PodInfo(decode(Pod, encode(step["pod"])))
        pod = self._pods.setdefault(pod.name, pod)
        status = self._plugin.pre_enqueue(pod)
        if not status.ok:
            return {"preEnqueue": _shown(self._plugin, status)}
        state = CycleState()
        snapshot = self._cluster.snapshot()
        self._fit.pre_filter(state, pod, snapshot)
        result = self._plugin.pre_filter(state, pod, snapshot)
        entry: Row = {}
        if result.status.skipped:
            entry["skipped"] = True
        elif not result.status.ok:
            return {"preFilter": _shown(self._plugin, result.status)}
        entry["nodes"], fitting = self._filtered(state, pod, skipped=result.status.skipped)
        if not fitting:
            _, status = self._plugin.post_filter(state, pod, snapshot, {})
            entry["postFilter"] = _shown(self._plugin, status)
            return entry
        return entry | self._placed(step, state, pod, fitting)

    def _filtered(
        self, state: CycleState, pod: PodInfo, *, skipped: bool
    ) -> tuple[Row, list[NodeInfo]]:
        verdicts: Row = {}
        fitting: list[NodeInfo] = []
        nodes = (self._cluster.node(name) for name in self._order)
        for node in filter(None, nodes):
            plugin: Plugin = self._fit
            status = self._fit.filter(state, pod, node)
            if status.ok and not skipped:
                plugin, status = self._plugin, self._plugin.filter(state, pod, node)
            verdicts[node.name] = _shown(plugin, status) if not status.ok else {"code": "Success"}
            if status.ok:
                fitting.append(node)
        return verdicts, fitting

    def _placed(self, step: Row, state: CycleState, pod: PodInfo, fitting: list[NodeInfo]) -> Row:
        raw = np.array([self._plugin.score(state, pod, node) for node in fitting], dtype=np.int64)
        scores = self._plugin.normalize(state, pod, raw)
        names = [node.name for node in fitting]
        entry: Row = {
            "scores": dict(zip(names, map(int, scores), strict=True)),
            "rawScores": dict(zip(names, map(int, raw), strict=True)),
        }
        if step.get("upTo") == "filter":
            return entry
        node = fitting[int(np.argmax(scores))]
        entry["chosen"] = node.name
        status = self._plugin.reserve(state, pod, node).status
        self._reserved[pod.name] = (state, node.name)
        if not status.ok:
            self._unreserve(pod.name)
            return entry | {"reserve": _shown(self._plugin, status)}
        if step.get("upTo") == "reserve":
            return entry
        entry |= self._bind(pod.name)
        self._reserved.pop(pod.name, None)
        return entry

    def _bind(self, name: str) -> Row:
        if name not in self._reserved:
            return {}
        pod, (state, node) = self._pods[name], self._reserved[name]
        status: Status = finished(self._plugin.pre_bind(state, pod, node))
        if not status.ok:
            self._unreserve(name)
            return {"preBind": _shown(self._plugin, status)}
        self._cluster.place(as_bound(state, pod), node)
        return {}

    def _unreserve(self, name: str) -> Row:
        if name not in self._reserved:
            return {}
        pod, (state, node) = self._pods[name], self._reserved.pop(name)
        self._plugin.unreserve(state, pod, node)
        self._cluster.remove_pod(pod.uid)
        return {}

    def _hint(self, step: Row) -> Row:
        pod = PodInfo(decode(Pod, encode(step["pod"])))
        old, new = (
            decode(ResourceClaim, encode(step[key])) if step.get(key) else None
            for key in ("old", "new")
        )
        helps = self._plugin.claim_helps(pod, old, new, self._cluster.objects)
        return {"hint": "Queue" if helps else "QueueSkip"}


def _shown(plugin: Plugin, status: Status) -> Row:
    shown: Row = {"plugin": plugin.name, "code": status.code.label}
    reasons = list(status.reasons)
    if reasons:
        is_fit = isinstance(plugin, NodeResourcesFit)
        shown["reasons"] = sorted(reasons) if is_fit else reasons
    return shown


def _changes(before: dict[str, ResourceClaim], after: dict[str, ResourceClaim]) -> Row:
    changes: Row = {}
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if new is None:
            changes[key] = None
        elif old is None or old.metadata.resource_version != new.metadata.resource_version:
            changes[key] = _claim(new, created=old is None)
    return changes


def _claim(claim: ResourceClaim, *, created: bool) -> Row:
    tree = to_tree(claim)
    shown: Row = {}
    status = tree.get("status", {})
    allocation = status.get("allocation", {})
    if "allocation" in status:
        allocation.setdefault("devices", {})
        if allocation.pop("allocationTimestamp", None) is not None:
            shown["allocationTimestamp"] = True
        for result in allocation["devices"].get("results", ()):
            if "shareID" in result:
                result["shareID"] = "<generated>"
    if tree["metadata"].get("finalizers"):
        shown["finalizers"] = tree["metadata"]["finalizers"]
    shown["status"] = status
    if created:
        for key in ("annotations", "ownerReferences"):
            shown[key] = tree["metadata"].get(key)
        shown["spec"] = tree["spec"]
    return shown
