"""D15: the scheduler decides by what any producer tells of a node."""

from __future__ import annotations

import pytest
from tests.topology.producers import golden

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.insight.facts import ClusterFacts
from numakube.insight.how_many_fit import room_for
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import pod

NODE = "worker-0"
AMOUNTS = {"cpu": "15", "memory": "30Gi", "pods": "110"}


def rooms(producer: str, cpu: str) -> int:
    """Return how many pods the scheduler would place on the node that *producer* tells of."""
    node = Node(
        metadata=ObjectMeta(name=NODE), status=NodeStatus(allocatable=AMOUNTS, capacity=AMOUNTS)
    )
    facts = ClusterFacts(nodes={NODE: node}, topologies={NODE: golden(producer)})
    return room_for(engine_of(facts), pod("web", cpu=cpu, memory="1Gi")).get(NODE, 0)


@pytest.mark.parametrize("producer", ["rte", "nfd", "volcano"])
def test_a_pod_wider_than_any_numa_node_is_refused(producer: str) -> None:
    """The kubelet's policy is single-numa-node, and 4 CPUs are the most that a NUMA node has."""
    assert rooms(producer, "4") > 0
    assert rooms(producer, "5") == 0


def test_nodes_of_nri_plugins_refuse_nothing_for_alignment() -> None:
    """Their kubelet aligns nothing; nri-plugins does, and takes what it is given."""
    assert rooms("nri-topology-aware", "5") > 0


def test_a_node_that_tells_no_numa_nodes_is_one_without_data() -> None:
    """Pods go there by the totals of the node."""
    assert rooms("nri-balloons", "5") == 3
