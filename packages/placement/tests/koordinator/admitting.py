"""Asking for admission, and failing if the answer is another than expected."""

from __future__ import annotations

from packages.placement.tests.strategies.nodes import (
    GIB,
    facts_of_layout,
    layout_of,
)

from numakube.topology.allotments import Allotment
from numakube.values.cpuset import CpuSet
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_on_node import admit
from numakube_placement.koordinator.placement_rule import PlacementRefusal, PlacementRule
from numakube_placement.koordinator.pod_wish import PodWish

NONE, BEST_EFFORT = TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT
RESTRICTED, SINGLE = TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE
CONTAINER = TopologyScope.CONTAINER
TWO = layout_of("2x1x4x2")
IDLE = NodeLedger.of(facts_of_layout(TWO, memory=16 * GIB), {})


def given(ledger: NodeLedger, wish: PodWish, under: PlacementRule) -> Allotment:
    """Return what the pod is given, and fail if it is refused."""
    result = admit(ledger, wish, under)
    assert isinstance(result, Allotment), result
    return result


def refused(ledger: NodeLedger, wish: PodWish, under: PlacementRule) -> PlacementRefusal:
    """Return why the pod is refused, and fail if it is not."""
    result = admit(ledger, wish, under)
    assert isinstance(result, PlacementRefusal), result
    return result


def text(bits: int) -> str:
    """Return bits as a CPU list."""
    return str(CpuSet(bits))


def holding(ledger: NodeLedger, *held: Allotment) -> NodeLedger:
    """Return *ledger* with others on the node."""
    for number, one in enumerate(held):
        ledger = ledger.with_pod(f"other-{number}", one)
    return ledger
