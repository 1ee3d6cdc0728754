"""Nodes whose kubelet is the model: those of a simulation, and those that are counted on.

A node of a simulation: its kubelet is the model, and decides about every pod bound to it.

As in a kubelet, the resource managers are asked first, then whether the node as a whole has room,
then selectors, ports and taints; the first refusal is the reason.

Nodes that are counted on besides those of a cluster: described in a line, or like one of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeSpec, NodeStatus
from numakube.errors import ConfigError
from numakube.insight.node_groups import (
    NodeGroups,
    idle_copy,
    new_report,
    report_written,
    with_nodes_like,
)
from numakube.insight.node_setup import nodes_like, nodes_of_kinds
from numakube.kubelet import (
    KubeletNode,
    Rejected,
    allocatable_of,
    capacity_of,
    overridden,
    settings_of,
)
from numakube.kubelet.predicates import check_placement, check_system, fit_rejection
from numakube.scheduling.snapshot.pod_equivalence import kubelet_demand, kubelet_key
from numakube.topology import node_of
from numakube.values.resources import quantities_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.fit_question import NewNodes
    from numakube.api.nrt import NodeResourceTopology
    from numakube.insight import ClusterFacts
    from numakube.insight.node_setup import NodeSetup
    from numakube.kubelet import Admitted
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts

_HOSTNAME = "kubernetes.io/hostname"


class NodeFactory:
    """Makes nodes; kubelets that are alike are started once and copied."""

    def __init__(self, words: Mapping[str, str]) -> None:
        """Prepare to make nodes whose kubelets are configured with *words* besides."""
        self._words = words
        self._started: dict[tuple[int, int, str], tuple[KubeletNode, Amounts, Amounts]] = {}
        self._kept: list[NodeSetup] = []

    def make(self, node: NodeSetup) -> VirtualNode:
        """Return *node* with a kubelet that has just started.

        Raises:
            ConfigError: its kubelet does not start with this configuration.
        """
        key = id(node.machine), id(node.config), node.kubernetes
        if key not in self._started:
            # The ids are those of objects that must live on.
            self._kept.append(node)
            try:
                self._started[key] = self._start(node)
            except ConfigError as error:
                raise ConfigError(f"node {node.name}: {error}") from None
        kubelet, capacity, allocatable = self._started[key]
        return VirtualNode(
            node,
            self._in_use(node) or kubelet.clone(),
            capacity={**capacity, **node.also},
            allocatable={**allocatable, **node.also},
        )

    def _in_use(self, node: NodeSetup) -> KubeletNode | None:
        """Return the kubelet with what its pods hold, if that is known and nothing has changed."""
        if node.held is None or self._words:
            return None
        found = node_of(node.held)
        return found if isinstance(found, KubeletNode) else None

    def _start(self, node: NodeSetup) -> tuple[KubeletNode, Amounts, Amounts]:
        config = overridden(node.config, node.machine, self._words)
        settings = settings_of(config, node.machine)
        return (
            KubeletNode(node.machine, settings, kubernetes=node.kubernetes),
            capacity_of(node.machine, max_pods=config.max_pods or 110),
            allocatable_of(config, node.machine),
        )


class VirtualNode:
    """The true state of one node.

    Attributes:
        kubelet: the resource managers.
        pods: the pods that run, by uid, in order of admission.
        used: what they request together.
    """

    def __init__(
        self, node: NodeSetup, kubelet: KubeletNode, *, capacity: Amounts, allocatable: Amounts
    ) -> None:
        self.name = node.name
        self.kubelet = kubelet
        self.allocatable = allocatable
        self.pods: dict[str, PodInfo] = {}
        self.used: dict[str, int] = {}
        # What the managers have rejected, by kind of pod, since a pod last came or went: it is
        # mostly the same pod that comes again.
        self._rejected: dict[PodKey, Rejected] = {}
        self._labels = {_HOSTNAME: node.name, **node.labels}
        self._taints = node.taints
        meta = ObjectMeta(name=node.name, uid=f"node-{node.name}", labels=self._labels)
        status = NodeStatus(
            capacity=quantities_of(capacity), allocatable=quantities_of(allocatable)
        )
        spec = NodeSpec(taints=node.taints, unschedulable=node.unschedulable)
        self.object = Node(metadata=meta, spec=spec, status=status)

    def admit(self, pod: PodInfo) -> Admitted | Rejected:
        """Let the kubelet decide about *pod*, which is bound to this node."""
        key = kubelet_key(pod)
        known = self._rejected.get(key)
        if known is not None:
            return known
        outcome = self.kubelet.admit(kubelet_demand(pod, self.kubelet))
        if isinstance(outcome, Rejected):
            self._rejected[key] = outcome
            return outcome
        refused = self._refusal(pod)
        if refused is not None:
            self.kubelet.remove(pod.uid)
            return refused
        self.count(pod)
        return outcome

    def resume(self, pod: PodInfo) -> Rejected | None:
        """Go on with a pod that runs here already; return why not, if it has to be admitted."""
        if pod.uid in self.kubelet.pods:
            self.count(pod)
            return None
        outcome = self.admit(pod)
        return outcome if isinstance(outcome, Rejected) else None

    def count(self, pod: PodInfo) -> None:
        """Count *pod* among those that run; what it holds, the kubelet knows."""
        self._rejected.clear()
        self.pods[pod.uid] = pod
        for name, amount in pod.requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def end(self, uid: str) -> PodInfo:
        """Let a pod end."""
        self._rejected.clear()
        pod = self.pods.pop(uid)
        self.kubelet.remove(uid)
        for name, amount in pod.requests.items():
            self.used[name] -= amount
        return pod

    def report(self, version: int, *, exact: bool) -> NodeResourceTopology:
        """Return what the exporter of the node writes now."""
        pods = self.pods.values()
        return report_written(self.name, self.kubelet, pods, version=version, exact=exact)

    def _refusal(self, pod: PodInfo) -> Rejected | None:
        """Return why the pod may not run here although the resource managers would have it."""
        others = (other.pod for other in self.pods.values())
        return (
            check_system(pod.pod)
            or fit_rejection(pod.requests, self.used, len(self.pods), self.allocatable)
            or check_placement(
                pod.pod, others, node_name=self.name, labels=self._labels, taints=self._taints
            )
        )


PREFIX: Final = "new-"
"""How the names of nodes begin that are counted on besides those that are there."""


def new_nodes(
    asked: NewNodes, cluster: Cluster, *, limit: int
) -> list[tuple[Node, NodeResourceTopology]]:
    """Return the nodes that *asked* means beside *cluster*, with what they report.

    Raises:
        ConfigError: their topology is not known, or they are none or more than *limit*.
    """
    if not 0 < asked.count <= limit:
        raise ConfigError(f"nodes: count: {asked.count} is not between 1 and {limit}")
    like = cluster.node(asked.like) if asked.like else None
    node = asked.node if like is None else like.node
    if node is None:
        raise ConfigError(f"nodes: there is no node {asked.like!r}, and none is described")
    report = asked.topology
    if report is None and like is not None and like.numa is not None:
        view = like.numa.topology
        report = None if view is None else new_report(like.numa.nrt, view, like.name)
    elif report is None:
        report = NodeGroups().report_for(node, cluster.nodes())
    if report is None:
        raise ConfigError(f"nodes: {node.metadata.name}: its topology is not known")
    names = (f"{PREFIX}{node.metadata.name}-{number}" for number in range(asked.count))
    return [(idle_copy(node, name), _renamed(report, name)) for name in names]


def described_nodes(kinds: Sequence[str]) -> Iterator[tuple[Node, NodeResourceTopology]]:
    """Yield nodes of these *kinds*, each in one line, with what they report.

    Raises:
        ConfigError: a kind cannot be read.
    """
    factory = NodeFactory({})
    for kind in nodes_of_kinds(kinds, prefix=PREFIX):
        node = factory.make(kind)
        yield node.object, node.report(1, exact=True)


def with_new_nodes(facts: ClusterFacts, kinds: Sequence[str]) -> ClusterFacts:
    """Return the cluster with nodes of these *kinds* besides; raises as `described_nodes` does.

    ``10x like node-0`` are nodes like one of the cluster.
    """
    wanted, described = Counter[str](), list[str]()
    for kind in kinds:
        like = nodes_like(kind, facts.nodes)
        if like is None:
            described.append(kind)
        elif like.words:
            raise ConfigError(
                f"{kind!r}: these have the kubelet of {like.like}; leave {like.words}"
            )
        else:
            wanted[like.like] += like.count
    for name, count in wanted.items():
        facts = with_nodes_like(facts, name, count)
    nodes, topologies = dict(facts.nodes), dict(facts.topologies)
    for node, report in described_nodes(described):
        nodes[node.metadata.name], topologies[node.metadata.name] = node, report
    return replace(facts, nodes=nodes, topologies=topologies)


def _renamed(report: NodeResourceTopology, name: str) -> NodeResourceTopology:
    metadata = msgspec.structs.replace(report.metadata, name=name, uid=name)
    return msgspec.structs.replace(report, metadata=metadata)
