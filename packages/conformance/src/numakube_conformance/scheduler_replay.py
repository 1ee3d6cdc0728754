"""Answers to recorded cases of kube-scheduler: what each filter and score says of each pod.

A case is a cluster and pods that are tried one at a time against the same state. The answer names,
for every node, the first filter that refuses it, or the scores of all plugins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.storage_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from numakube.api.workloads import (
    Namespace,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from numakube.kubelet import DEFAULT
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.scheduling.framework import Code, CycleState, Status
from numakube.scheduling.framework.registry import Profile, profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.framework.status import Diagnosis
from numakube.scheduling.plugins.default_plugins import default_plugins, default_weights
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

Row = dict[str, Any]

_STORAGE_SCORES: Final = (1, 37)
"""Since when kube-scheduler rates nodes by storage capacity unless configured otherwise."""

_KINDS: Mapping[str, tuple[str, type[Any]]] = {
    "persistentVolumes": ("volumes", PersistentVolume),
    "persistentVolumeClaims": ("claims", PersistentVolumeClaim),
    "storageClasses": ("storage_classes", StorageClass),
    "csiNodes": ("csi_nodes", CSINode),
    "csiDrivers": ("csi_drivers", CSIDriver),
    "csiStorageCapacities": ("csi_capacities", CSIStorageCapacity),
    "volumeAttachments": ("attachments", VolumeAttachment),
    "services": ("services", Service),
    "replicationControllers": ("replication_controllers", ReplicationController),
    "replicaSets": ("replica_sets", ReplicaSet),
    "statefulSets": ("stateful_sets", StatefulSet),
}
"""Key of a case, and the field of `ClusterObjects` that its objects go to."""


def answer(row: Row) -> Row:
    """Return our answer to a recorded case, in the recorded shape."""
    cluster = cluster_of(row)
    runtime = Runtime(_profile(row.get("kubernetes", DEFAULT)))
    pods = [PodInfo(convert(Pod, tree)) for tree in row["pods"]]
    expect = {pod.name: _try(pod, runtime, cluster.snapshot()) for pod in pods}
    return {"id": row["id"], "expect": expect}


def _profile(kubernetes: str) -> Profile:
    """Return the default profile of that version of kube-scheduler."""
    profile = profile_of("default-scheduler", default_plugins(), default_weights())
    if behaviour_of(kubernetes).version >= _STORAGE_SCORES:
        return profile
    scores = tuple(plugin for plugin in profile.points["score"] if plugin.name != "VolumeBinding")
    return replace(profile, points={**profile.points, "score": scores})


def cluster_of(row: Row) -> Cluster:
    """Return the cluster of a recorded case."""
    cluster = Cluster()
    nodes = [convert(Node, tree) for tree in row["nodes"]]
    # The API server lists by name; whose size of an image counts depends on the order.
    for node in sorted(nodes, key=lambda one: one.metadata.name):
        cluster.set_node(node)
    for tree in row.get("existing") or ():
        pod = PodInfo(convert(Pod, tree))
        if not pod.has_ended:
            cluster.place(pod, pod.node_name)
    _fill(cluster.objects, row)
    return cluster


def _fill(objects: ClusterObjects, row: Row) -> None:
    for tree in row.get("namespaces") or ():
        namespace = convert(Namespace, tree)
        objects.namespace_labels[namespace.metadata.name] = namespace.metadata.labels
    for key, (field, kind) in _KINDS.items():
        for tree in row.get(key) or ():
            one = convert(kind, tree)
            getattr(objects, field)[one.metadata.key] = one


def _try(pod: PodInfo, runtime: Runtime, snapshot: Snapshot) -> Row:
    """Return what the plugins say of *pod*."""
    state, diagnosis = CycleState(), Diagnosis()
    rows = runtime.pre_filter(state, pod, snapshot, diagnosis)
    if diagnosis.pre_filter is not None:
        return {"preFilter": _refusal(diagnosis.pre_filter, 'running PreFilter plugin "{}"')}
    rows = runtime.filter(state, pod, snapshot, rows, diagnosis)
    nodes: dict[int, Row] = {}
    for excluded, _ in diagnosis.excluded:
        nodes |= {int(row): {"fits": False, "plugin": "PreFilterResult"} for row in excluded}
    for run in diagnosis.runs:
        for refused, status in run.refused():
            verdict = _refusal(status, 'running "{}" filter plugin')
            nodes |= {int(row): dict(verdict) for row in refused}
    nodes |= {int(row): {"fits": True} for row in rows}
    if len(rows) > 1:
        _add_scores(nodes, pod, runtime, state, snapshot, rows)
    return {"nodes": {snapshot.at(row).name: nodes[row] for row in sorted(nodes)}}


def _refusal(status: Status, where: str) -> Row:
    reasons = list(status.reasons)
    if status.code is Code.ERROR:
        reasons = [f"{where.format(status.plugin)}: {status.message}"]
    return {"fits": False, "plugin": status.plugin, "code": status.code.label, "reasons": reasons}


def _add_scores(
    nodes: dict[int, Row],
    pod: PodInfo,
    runtime: Runtime,
    state: CycleState,
    snapshot: Snapshot,
    rows: Rows,
) -> None:
    scores = runtime.score(state, pod, snapshot, rows)
    if isinstance(scores, Status):
        return
    for position, row in enumerate(rows):
        by_plugin = {name: int(amount[position]) for name, amount in scores.by_plugin.items()}
        nodes[int(row)] |= {"scores": by_plugin, "total": int(scores.total[position])}
