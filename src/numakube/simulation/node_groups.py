"""What nodes will be like that do not exist yet: those that an autoscaler would add to a group.

The topology of such a node is looked for, in this order, in

1. the annotation `MACHINE` of the node object: a kind of node in one line (`node_kinds`),
2. the label `MACHINE`: the name of a known machine, or of one of the described groups,
3. the described groups: labels, and the kind of node that has them,
4. the nodes that are there: one of the same group, with the same instance type and amounts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.codec import Wire
from numakube.errors import ConfigError
from numakube.insight.explain.empty_node import idle_copy, new_report, with_nodes_like
from numakube.simulation.node_kinds import nodes_like, nodes_of_kinds
from numakube.simulation.virtual_node import NodeFactory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.fit_question import NewNodes
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.snapshot.cluster import Cluster
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
PREFIX: Final = "new-"
"""How the names of nodes begin that are counted on besides those that are there."""
_VAGUE: Final = ("memory", "ephemeral-storage", "pods")
_REMEMBERED: Final = 256


class NodeGroup(Wire, frozen=True, kw_only=True):
    """A group of nodes that was described.

    Attributes:
        name: what the label `MACHINE` of its nodes may say.
        labels: what its nodes have, unless they are found by the name.
        node: what they are like, as ``numakube simulate --nodes`` takes it.
    """

    name: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    node: str


class NodeGroupList(Wire, frozen=True):
    """The file in which groups are described."""

    groups: tuple[NodeGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Knows the groups that were described."""

    described: tuple[NodeGroup, ...] = ()
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
            known = NodeFactory({}).make(first).report(1, exact=True)
            if len(self._reports) >= _REMEMBERED:
                self._reports.clear()
            self._reports[text] = known
        return known


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
    for one in nodes_of_kinds(kinds, prefix=PREFIX):
        node = factory.make(one)
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


def belief_of_its_like(node: Node, known: Iterable[NodeInfo]) -> NumaBelief | None:
    """Return what is believed of a node of the same group and amounts; exact data if possible."""
    labels = node.metadata.labels
    group = next((key for key in GROUPS if key in labels), None)
    if group is None:
        return None
    keys = [key for key in (group, INSTANCE_TYPE) if key in labels]
    alike = [
        (one.name, one.numa)
        for one in known
        if one.numa is not None
        and one.numa.topology is not None
        and all(one.labels.get(key) == labels[key] for key in keys)
        and _amounts(one.node) == _amounts(node)
    ]
    alike.sort(key=lambda one: (_has_no_exact_data(one[1]), one[0]))
    return alike[0][1] if alike else None


def _has_no_exact_data(belief: NumaBelief) -> bool:
    return belief.topology is None or belief.topology.report is None


def _amounts(node: Node) -> dict[str, str]:
    """Return what tells machines apart; memory differs a little from one boot to the next."""
    amounts = {name: str(amount) for name, amount in node.status.capacity.items()}
    return {name: text for name, text in amounts.items() if name not in _VAGUE and text != "0"}
