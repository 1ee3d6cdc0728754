"""Another node of a kind, as it is when it has just joined the cluster."""

from __future__ import annotations

from dataclasses import replace
from itertools import count as numbers
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import without_attribute
from numakube.api.static_pods import static_uid
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.snapshot.cluster_objects import Followed
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.model_from_report import node_of, remove_pod, report_of
from numakube.topology.report_binding import with_exact
from numakube.topology.topology_view import NodeTopology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.api.resource_slices import ResourceSlice
    from numakube.insight.facts import ClusterFacts

_HOSTNAME: Final = "kubernetes.io/hostname"
_PASSING: Final = "node.kubernetes.io/"
"""What taints begin with that tell of troubles of one node."""


def stays_with_its_node(pod: PodInfo) -> bool:
    """Tell whether *pod* belongs to its node: static ones and daemons."""
    owner = pod.pod.metadata.controller
    return static_uid(pod.pod) is not None or (owner is not None and owner.kind == "DaemonSet")


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
    """Return a daemon like *pod* on another node; its affinity named the node that it is on."""
    metadata = msgspec.structs.replace(pod.pod.metadata, uid=f"{pod.uid}@{node}")
    spec = msgspec.structs.replace(pod.pod.spec, node_name=node, affinity=None)
    return pod.sibling(msgspec.structs.replace(pod.pod, metadata=metadata, spec=spec))


def idle_report(topology: NodeResourceTopology) -> NodeResourceTopology:
    """Return what a node like that reports when nothing of it is given out."""
    attributes = without_attribute(topology.attributes, nrt_names.STALE)
    zones = tuple(map(_idle_zone, topology.zones))
    return msgspec.structs.replace(topology, attributes=attributes, zones=zones)


def idle_slices(slices: Iterable[ResourceSlice], like: str, name: str) -> dict[str, ResourceSlice]:
    """Return what drivers on a node called *name* offer if it is like another: pools of its own."""
    found = {}
    for one in slices:
        if one.spec.node_name == like:
            pool = msgspec.structs.replace(one.spec.pool, name=f"{one.spec.pool.name}@{name}")
            spec = msgspec.structs.replace(one.spec, node_name=name, pool=pool)
            metadata = ObjectMeta(name=f"{one.metadata.name}@{name}")
            copy = msgspec.structs.replace(one, metadata=metadata, spec=spec)
            found[metadata.name] = copy
    return found


def with_nodes_like(facts: ClusterFacts, like: str, count: int) -> ClusterFacts:
    """Return the cluster with *count* more nodes like another, with its daemons alone on them."""
    nodes, topologies, pods = dict(facts.nodes), dict(facts.topologies), list(facts.pods)
    slices = dict(facts.objects.resource_slices)
    daemons = [pod for pod in map(PodInfo, facts.pods_on(like)) if stays_with_its_node(pod)]
    names = (name for number in numbers(1) if (name := f"{like}-new-{number}") not in facts.nodes)
    topology, view = facts.topologies.get(like), facts.view(like)
    report = None
    if topology is not None and isinstance(view, NodeTopology):
        report = new_report(topology, view, like)
    for name in islice(names, count):
        nodes[name] = idle_copy(facts.nodes[like], name)
        slices |= idle_slices(facts.objects.resource_slices.values(), like, name)
        pods += (bound_copy(pod, name).pod for pod in daemons)
        if report is not None:
            metadata = msgspec.structs.replace(report.metadata, name=name, uid=name)
            topologies[name] = msgspec.structs.replace(report, metadata=metadata)
    objects = replace(facts.objects, resource_slices=Followed(slices))
    return replace(facts, nodes=nodes, pods=tuple(pods), topologies=topologies, objects=objects)


def new_report(
    topology: NodeResourceTopology, view: NodeTopology, name: str
) -> NodeResourceTopology:
    """Return what a new node called *name* reports that is like the one of *topology*."""
    idle = idle_report(topology)
    attributes = without_attribute(idle.attributes, nrt_names.EXPORTER)
    metadata = ObjectMeta(name=name, uid=name)
    idle = msgspec.structs.replace(idle, metadata=metadata, attributes=attributes)
    model = node_of(view.report) if view.report is not None else None
    if isinstance(model, KubeletNode):
        for uid in tuple(model.pods):
            remove_pod(model, uid)
        model.collect_garbage()
        return with_exact(idle, report_of(model))
    return idle


def _idle_zone(zone: Zone) -> Zone:
    resources = tuple(
        msgspec.structs.replace(one, available=one.allocatable) for one in zone.resources
    )
    return msgspec.structs.replace(zone, resources=resources)
