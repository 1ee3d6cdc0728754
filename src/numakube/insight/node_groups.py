"""What nodes will be like that do not exist yet: those that an autoscaler would add to a group.

The topology of such a node is looked for, in this order, in

1. the annotation `MACHINE` of the node object: a kind of node in one line (`node_setup`),
2. the label `MACHINE`: the name of a known machine, or of one of the described groups,
3. the described groups: labels, and the kind of node that has them,
4. the nodes that are there: one of the same group, with the same instance type and amounts.

`with_nodes_like` adds nodes like one of a cluster, as they are when they have just joined it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count as numbers
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.codec import Wire
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import without_attribute
from numakube.api.pod import static_uid
from numakube.errors import ConfigError
from numakube.insight.node_setup import nodes_of_kinds
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.manager_settings import settings_of
from numakube.scheduling.snapshot.cluster_objects import Followed
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.model_report import node_of, nrt_of, remove_pod, report_of
from numakube.topology.report_codec import with_exact
from numakube.topology.topology_view import NodeTopology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.api.resource_slices import ResourceSlice
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.node_setup import NodeSetup
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief

MACHINE: Final = "numakube.dev/machine"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
GROUPS: Final = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "kops.k8s.io/instancegroup",
    INSTANCE_TYPE,
)
"""Labels that nodes of one group have in common."""
_VAGUE: Final = ("memory", "ephemeral-storage", "pods")
_REMEMBERED: Final = 256


class DescribedGroup(Wire, frozen=True, kw_only=True):
    """A group of nodes that was described.

    Attributes:
        name: what the label `MACHINE` of its nodes may say.
        labels: what its nodes have, unless they are found by the name.
        node: what they are like, as ``numakube plan simulate --nodes`` takes it.
    """

    name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    node: str


class NodeGroupList(Wire, frozen=True):
    """The file in which groups are described."""

    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Knows the groups that were described."""

    described: tuple[DescribedGroup, ...] = ()
    _reports: dict[str, NodeResourceTopology] = field(default_factory=dict)

    def check(self) -> None:
        """Try every description.

        Raises:
            ConfigError: one cannot be read; it says which, and why.
        """
        for group in self.described:
            if not group.name and not group.labels:
                raise ConfigError(f"group {group.node!r}: it has neither a name nor labels")
            self._described_as(group.node)

    def report_for(self, node: Node, known: Iterable[NodeInfo]) -> NodeResourceTopology | None:
        """Return what *node* will report when it has just joined; ``None`` if that is not known.

        Raises:
            ConfigError: the node object describes itself in a way that cannot be read.
        """
        text = self.text_for(node)
        if text:
            return self._described_as(text)
        belief = belief_of_its_like(node, known)
        if belief is None or belief.topology is None:
            return None
        return new_report(belief.nrt, belief.topology, node.metadata.name)

    def text_for(self, node: Node) -> str:
        """Return the line that describes *node*; empty if there is none."""
        meta = node.metadata
        named = meta.labels.get(MACHINE, "")
        by_name = {group.name: group.node for group in self.described if group.name}
        matching = (
            group.node
            for group in self.described
            if group.labels and group.labels.items() <= meta.labels.items()
        )
        return meta.annotations.get(MACHINE) or by_name.get(named, named) or next(matching, "")

    def _described_as(self, text: str) -> NodeResourceTopology:
        known = self._reports.get(text)
        if known is None:
            (first, *_) = nodes_of_kinds([text])
            known = _idle_report(first)
            if len(self._reports) >= _REMEMBERED:
                self._reports.clear()
            self._reports[text] = known
        return known


def _idle_report(node: NodeSetup) -> NodeResourceTopology:
    """Return what *node* reports before a pod has come to it."""
    try:
        settings = settings_of(node.config, node.machine)
        kubelet = KubeletNode(node.machine, settings, kubernetes=node.kubernetes)
    except ConfigError as error:
        raise ConfigError(f"node {node.name}: {error}") from None
    return report_written(node.name, kubelet, (), version=1, exact=True)


def report_written(
    name: str, kubelet: KubeletNode, pods: Iterable[PodInfo], *, version: int, exact: bool
) -> NodeResourceTopology:
    """Return what the exporter of the node *name* writes when *pods* run there."""
    told = {nrt_names.FINGERPRINT: fingerprint_of((pod.namespace, pod.name) for pod in pods)}
    report = nrt_of(name, kubelet, exact=exact, attributes=told)
    metadata = msgspec.structs.replace(
        report.metadata, uid=f"report-{name}", resource_version=str(version)
    )
    return msgspec.structs.replace(report, metadata=metadata)


def belief_of_its_like(node: Node, known: Iterable[NodeInfo]) -> NumaBelief | None:
    """Return what is believed of a node of the same group and amounts; exact data if possible."""
    labels = node.metadata.labels
    group = next((key for key in GROUPS if key in labels), None)
    if group is None:
        return None
    keys = [key for key in (group, INSTANCE_TYPE) if key in labels]
    alike = [
        (other.name, other.numa)
        for other in known
        if other.numa is not None
        and other.numa.topology is not None
        and all(other.labels.get(key) == labels[key] for key in keys)
        and _amounts(other.node) == _amounts(node)
    ]
    alike.sort(key=lambda one: (_has_no_exact_data(one[1]), one[0]))
    return alike[0][1] if alike else None


def _has_no_exact_data(belief: NumaBelief) -> bool:
    return belief.topology is None or belief.topology.report is None


def _amounts(node: Node) -> dict[str, str]:
    """Return what tells machines apart; memory differs a little from one boot to the next."""
    amounts = {name: str(amount) for name, amount in node.status.capacity.items()}
    return {name: text for name, text in amounts.items() if name not in _VAGUE and text != "0"}


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
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_PASSING))
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
    for piece in slices:
        if piece.spec.node_name == like:
            pool = msgspec.structs.replace(piece.spec.pool, name=f"{piece.spec.pool.name}@{name}")
            spec = msgspec.structs.replace(piece.spec, node_name=name, pool=pool)
            metadata = ObjectMeta(name=f"{piece.metadata.name}@{name}")
            copy = msgspec.structs.replace(piece, metadata=metadata, spec=spec)
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
        msgspec.structs.replace(resource, available=resource.allocatable)
        for resource in zone.resources
    )
    return msgspec.structs.replace(zone, resources=resources)
