"""Another node of a kind, as it is when it has just joined the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import without_attribute
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.model_from_report import node_of, remove_pod, report_of
from numakube.topology.report_codec import encode_report
from numakube.topology.topology_view import NodeTopology

if TYPE_CHECKING:
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.insight.facts import ClusterFacts

_HOSTNAME: Final = "kubernetes.io/hostname"
_MIRROR: Final = "kubernetes.io/config.mirror"
_PASSING: Final = "node.kubernetes.io/"
"""What taints begin with that tell of troubles of one node."""


def stays_with_its_node(pod: PodInfo) -> bool:
    """Tell whether *pod* belongs to its node: static ones and daemons."""
    meta = pod.pod.metadata
    owner = meta.controller
    return _MIRROR in meta.annotations or (owner is not None and owner.kind == "DaemonSet")


def idle_copy(node: Node, name: str) -> Node:
    """Return a node like *node*, in good health."""
    labels = dict(node.metadata.labels)
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    metadata = msgspec.structs.replace(node.metadata, name=name, uid=name, labels=labels)
    taints = tuple(one for one in node.spec.taints if not one.key.startswith(_PASSING))
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
    return msgspec.structs.replace(node, metadata=metadata, spec=spec)


def bound_copy(pod: PodInfo, node: str) -> PodInfo:
    """Return a daemon like *pod* on another node."""
    metadata = msgspec.structs.replace(pod.pod.metadata, uid=f"{pod.uid}@{node}")
    spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
    return pod.sibling(msgspec.structs.replace(pod.pod, metadata=metadata, spec=spec))


def idle_report(topology: NodeResourceTopology) -> NodeResourceTopology:
    """Return what a node like that reports when nothing of it is given out."""
    attributes = without_attribute(topology.attributes, nrt_names.STALE)
    zones = tuple(map(_idle_zone, topology.zones))
    return msgspec.structs.replace(topology, attributes=attributes, zones=zones)


def with_nodes_like(facts: ClusterFacts, like: str, count: int) -> ClusterFacts:
    """Return the cluster with *count* more nodes like another, with its daemons alone on them."""
    nodes, topologies, pods = dict(facts.nodes), dict(facts.topologies), list(facts.pods)
    daemons = [pod for pod in map(PodInfo, facts.pods_on(like)) if stays_with_its_node(pod)]
    for number in range(1, count + 1):
        name = f"{like}-new-{number}"
        nodes[name] = idle_copy(facts.nodes[like], name)
        pods += (bound_copy(pod, name).pod for pod in daemons)
        topology, view = facts.topologies.get(like), facts.view(like)
        if topology is not None and isinstance(view, NodeTopology):
            topologies[name] = new_report(topology, view, name)
    return replace(facts, nodes=nodes, pods=tuple(pods), topologies=topologies)


def new_report(
    topology: NodeResourceTopology, view: NodeTopology, name: str
) -> NodeResourceTopology:
    """Return what a new node called *name* reports that is like the one of *topology*."""
    idle, annotations = idle_report(topology), {}
    model = node_of(view.report) if view.report is not None else None
    if isinstance(model, KubeletNode):
        for uid in tuple(model.pods):
            remove_pod(model, uid)
        model.collect_garbage()
        annotations[nrt_names.EXACT_ANNOTATION] = encode_report(report_of(model))
    metadata = ObjectMeta(name=name, uid=name, annotations=annotations)
    return msgspec.structs.replace(idle, metadata=metadata)


def _idle_zone(zone: Zone) -> Zone:
    resources = tuple(
        msgspec.structs.replace(one, available=one.allocatable) for one in zone.resources
    )
    return msgspec.structs.replace(zone, resources=resources)
