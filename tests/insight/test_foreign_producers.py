"""D15: the scheduler decides by what any producer tells of a node."""

from __future__ import annotations

import pytest
from tests.topology.producers import golden

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.volcano_numatopology import CpuDetail, Numatopology, NumatopologySpec
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.facts import ClusterFacts
from numakube.insight.how_many_fit import room_for
from numakube.insight.list_reading import Unreadable
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import pod
from numakube.topology.volcano import as_nrt

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


def findings(facts: ClusterFacts) -> dict[str, str]:
    """Return what the doctor finds, with what to do about it."""
    return {
        entry.rule.id: finding.remedy
        for entry in diagnose(facts).entries
        for finding in entry.findings
    }


def test_the_doctor_misses_no_topologies_where_volcano_tells_of_the_nodes() -> None:
    """A4: it asks for them on a cluster that has neither."""
    absent = (Unreadable("noderesourcetopologies", "the server does not have it"),)
    volcano = {NODE: golden("volcano")}
    nodes = {NODE: Node(metadata=ObjectMeta(name=NODE))}
    told = ClusterFacts(nodes=nodes, topologies=volcano, unreadable=absent)
    assert "NUMA-NRT-CRD-MISSING" not in findings(told)
    assert "NUMA-NRT-CRD-MISSING" in findings(ClusterFacts(nodes=nodes, unreadable=absent))


def test_the_doctor_says_who_could_tell_the_policy_that_volcano_does_not() -> None:
    """A4: its agent of August 2026 tells none."""
    silent = as_nrt(Numatopology(metadata=ObjectMeta(name=NODE), spec=NumatopologySpec(
        cpu_detail={"0": CpuDetail()}
    )))  # fmt: skip
    facts = ClusterFacts(
        nodes={NODE: Node(metadata=ObjectMeta(name=NODE))}, topologies={NODE: silent}
    )
    assert "numakube run exporter" in findings(facts)["NUMA-NRT-POLICY-UNKNOWN"]


def test_a_node_that_tells_no_numa_nodes_is_one_without_data() -> None:
    """Pods go there by the totals of the node."""
    assert rooms("nri-balloons", "5") == 3
