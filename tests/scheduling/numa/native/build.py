"""From kubelet models to what is reported and believed of them."""

from __future__ import annotations

from tests.scheduling.numa.native.clusters import Belief

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.numa.native.node_counts import NodeCounts, counts_of
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.topology.model_report import report_of, zones_of
from numakube.topology.topology_view import NodeTopology, Producer, ZoneView
from numakube.values.topology_policy import TopologyPolicy, TopologyScope


def topology_of_model(node: KubeletNode, name: str = "node") -> NodeTopology:
    """Return the report that a perfect exporter would write of *node*."""
    settings = node.settings
    distances = {
        numa_node.id: dict(
            zip(sorted(other.id for other in node.machine.nodes), numa_node.distances, strict=False)
        )
        for numa_node in node.machine.nodes
    }
    return NodeTopology(
        node=name,
        zones=tuple(
            ZoneView(
                id=zone.id,
                name=f"node-{zone.id}",
                capacity=zone.capacity,
                allocatable=zone.allocatable,
                available=zone.available,
                costs=distances[zone.id],
            )
            for zone in zones_of(node)
        ),
        policy=TopologyPolicy(settings.topology_policy),
        scope=TopologyScope(settings.topology_scope),
        topology_options=settings.topology_options,
        cpu_manager_policy=settings.cpu_policy,
        cpu_manager_options=settings.cpu_options,
        memory_manager_policy=settings.memory_policy,
        report=report_of(node),
        producer=Producer.NUMAKUBE,
    )


def counts_of_model(node: KubeletNode) -> NodeCounts:
    """Return the numbers that are reported of *node*."""
    topology = topology_of_model(node)
    return counts_of(topology, tuple(zone.available for zone in topology.zones))


def info_of_model(node: KubeletNode, name: str = "node") -> NodeInfo:
    """Return *node* as the scheduler sees it, with exact data."""
    info = NodeInfo(Node(metadata=ObjectMeta(name=name)))
    info.numa = Belief(topology_of_model(node, name), kubelet=node)
    return info
