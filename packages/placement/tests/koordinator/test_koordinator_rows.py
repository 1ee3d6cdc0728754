"""Rows of Koordinator's own tests: the same nodes, the same pods, the same answers."""

from __future__ import annotations

import pytest
from packages.placement.tests.strategies.nodes import GIB, cpus, facts_of_layout, layout_of, unbound
from packages.placement.tests.strategies.wishes import FULL, SPREAD, pod, rule

from numakube.topology.allotments import Allotment, Share
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import mask_of
from numakube.values.topology_policy import TopologyPolicy
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy
from numakube_placement.koordinator.node_facts import NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.numa_search import DeviceOffer
from numakube_placement.koordinator.numa_supply import Remaining, Supply, demand_of_pod
from numakube_placement.koordinator.placement_on_node import Grant, admit
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why
from numakube_placement.koordinator.pod_wish import PodWish

BIG = layout_of("2x1x26x2")
NONE = BindPolicy.NONE


def holding(held: str, *per_zone: int) -> Allotment:
    """Return what a pod with the CPUs *held* holds, with CPUs on record by NUMA node."""
    zones = {zone: {"cpu": count * 1000} for zone, count in enumerate(per_zone)}
    return Allotment(total=Share(cpus=cpus(held), zones=zones, mask=mask_of(zones)))


def grant(
    ledger: NodeLedger, wish: PodWish, bind: BindPolicy, mask: int
) -> Share | PlacementRefusal:
    """Return what is given on NUMA nodes that are decided already."""
    demand = demand_of_pod(wish, rule(bind=bind, required=bool(bind)), ledger.capacity)
    supply = Supply(ledger.capacity, Remaining(ledger=ledger), demand)
    return Grant(supply, DeviceOffer(ledger, demand)).on(mask)


# Name: bind policy, CPUs wanted, NUMA nodes, ratio, what is held; CPUs by NUMA node, CPU ids.
# Refused rows have no result.
ALLOCATE = {
    "full": (FULL, 4, [0], 1.0, None, {0: 4}, "0-3"),
    "full, allocated": (FULL, 4, [0], 1.0, ("4-104", 48, 52), {0: 4}, "0-3"),
    "full, failed": (FULL, 4, [0], 1.0, ("1,3,5,7-104", 48, 52), None, ""),
    "spread": (SPREAD, 4, [0], 1.0, None, {0: 4}, "0,2,4,6"),
    "spread, allocated": (SPREAD, 4, [0], 1.0, ("1,3,5,7-104", 48, 52), {0: 4}, "0,2,4,6"),
    "spread, failed": (SPREAD, 4, [0], 1.0, ("4-104", 48, 52), None, ""),
    "spread, amplified": (SPREAD, 4, [0], 1.5, None, {0: 4}, "0,2,4,6"),
    "spread, both": (SPREAD, 4, [0], 1.5, ("1,3,5,7-104", 48, 52), {0: 4}, "0,2,4,6"),
    "share, failed": (NONE, 4, [0], 1.5, ("0-49,52-101", 50, 50), None, ""),
    "insufficient": (NONE, 54, [0], 1.0, None, None, ""),
    "mixed cpuset and share": (
        FULL, 8, [0, 1], 1.0, ("0-43,53-96", 48, 48), {0: 4, 1: 4}, "44-47,98-101",
    ),
    "full, evenly": (FULL, 4, [0, 1], 1.0, None, {0: 2, 1: 2}, "0-1,52-53"),
    "full, on what is left": (FULL, 4, [0, 1], 1.0, ("4-104", 48, 52), {0: 4}, "0-3"),
    "full, none left": (FULL, 4, [0, 1], 1.0, ("1,3,5,7-104", 48, 52), None, ""),
    "spread, evenly": (SPREAD, 4, [0, 1], 1.0, None, {0: 2, 1: 2}, "0,2,52,54"),
    "plural, not balanced": (
        SPREAD, 4, [0, 1], 1.0, ("1,3,5,7-101,103", 48, 50), {0: 3, 1: 1}, "0,2,4,102",
    ),
    "plural, balanced": (
        SPREAD, 4, [0, 1], 1.0, ("4-100", 48, 49), {0: 2, 1: 2}, "0,2,101-102",
    ),
    "singular": (
        SPREAD, 5, [0, 1], 1.0, ("1,3,5,7-97,103", 48, 47), {0: 3, 1: 2}, "0,2,4,98,100",
    ),
    "spread, none left": (SPREAD, 4, [0, 1], 1.0, ("4-104", 48, 52), None, ""),
    "spread, amplified, not balanced": (
        SPREAD, 4, [0, 1], 1.5, ("1,3,5,7-101", 48, 50), {0: 3, 1: 1}, "0,2,4,102",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("bind", "count", "nodes", "ratio", "held", "by_zone", "ids"), ALLOCATE.values(), ids=ALLOCATE
)
def test_amounts_and_cpus_on_given_numa_nodes(
    bind: BindPolicy,
    count: int,
    nodes: list[int],
    ratio: float,
    held: tuple[str, int, int] | None,
    by_zone: dict[int, int] | None,
    ids: str,
) -> None:
    """resource_manager_test.go: two NUMA nodes of 26 cores with two threads."""
    facts = facts_of_layout(BIG, memory=128 * GIB, ratios={"cpu": ratio} if ratio > 1 else {})
    ledger = NodeLedger.of(facts, {"other": holding(*held)} if held else {})
    got = grant(ledger, pod(cpu=str(count)), bind, mask_of(nodes))
    if by_zone is None:
        assert isinstance(got, PlacementRefusal)
        return
    assert isinstance(got, Share)
    assert got.zones == {zone: {"cpu": number * 1000} for zone, number in by_zone.items()}
    assert str(CpuSet(got.cpus)) == ids


def test_cpu_time_is_split_to_the_thousandth() -> None:
    """Three and a half CPUs on two nodes, amplified."""
    facts = facts_of_layout(BIG, ratios={"cpu": 1.5})
    ledger = NodeLedger.of(facts, {"other": holding("0-49,52-101", 50, 50)})
    got = grant(ledger, pod(cpu="3500m"), NONE, 0b11)
    assert isinstance(got, Share)
    assert got.zones == {0: {"cpu": 1750}, 1: {"cpu": 1750}}


def test_resources_that_no_numa_node_knows_are_passed_over() -> None:
    """GPU memory is DeviceShare's."""
    wish = PodWish(requests={"cpu": 4000, "koordinator.sh/gpu-memory": 10 * GIB})
    got = grant(NodeLedger.of(facts_of_layout(BIG), {}), wish, NONE, 0b01)
    assert isinstance(got, Share)
    assert got.zones == {0: {"cpu": 4000}}


# TopologyPolicy, NUMA nodes, CPUs taken on each, strategy, the node that is taken.
SCORED = {
    "single, most": (TopologyPolicy.SINGLE_NUMA_NODE, (4, 40), Strategy.MOST_ALLOCATED, 1),
    "single, least": (TopologyPolicy.SINGLE_NUMA_NODE, (4, 40), Strategy.LEAST_ALLOCATED, 0),
    "single, only one": (TopologyPolicy.SINGLE_NUMA_NODE, (4, 52), Strategy.LEAST_ALLOCATED, 0),
    "restricted, most": (TopologyPolicy.RESTRICTED, (24, 23, 4, 8), Strategy.MOST_ALLOCATED, 3),
    "restricted, least": (TopologyPolicy.RESTRICTED, (24, 23, 4, 8), Strategy.LEAST_ALLOCATED, 2),
}


@pytest.mark.parametrize(("policy", "taken", "strategy", "expected"), SCORED.values(), ids=SCORED)
def test_strategies_choose_the_numa_node(
    policy: TopologyPolicy, taken: tuple[int, ...], strategy: Strategy, expected: int
) -> None:
    """plugin_test.go, TestFilterWithNUMANodeScoring: 104 CPUs and 256Gi in equal parts."""
    zone = {"cpu": 104_000 // len(taken), "memory": 256 * GIB // len(taken)}
    facts = NodeFacts(node="n", zones=dict.fromkeys(range(len(taken)), zone))
    others = {
        str(numa): unbound(1 << numa, cpu=count * 1000, memory=8 * GIB)
        for numa, count in enumerate(taken)
    }
    under = rule(policy, strategy=strategy)
    got = admit(NodeLedger.of(facts, others), pod(cpu="4", memory="40Gi"), under)
    assert isinstance(got, Allotment)
    assert got.total.mask == 1 << expected


def test_short_hugepages_are_named() -> None:
    """topology_hint_test.go: insufficient memory and hugepages; what fits is not blamed."""
    zone = {"cpu": 52_000, "memory": 8 * GIB, "hugepages-1Gi": GIB}
    ledger = NodeLedger.of(NodeFacts(node="n", zones={0: zone, 1: zone}), {})
    wish = PodWish(requests={"cpu": 4000, "memory": 4 * GIB, "hugepages-1Gi": 4 * GIB})
    for policy in (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE):
        got = admit(ledger, wish, rule(policy))
        assert isinstance(got, PlacementRefusal)
        assert (got.why, got.resource) == (Why.UNSATISFIED, "hugepages-1Gi")
        assert got.detail == "4Gi wanted, 2Gi left on all NUMA nodes"


class TestEndToEndRows:
    """test/e2e/scheduling/nodenumaresource.go, on two NUMA nodes."""

    LEDGER = NodeLedger.of(facts_of_layout(BIG, memory=100 * GIB), {})

    def place(self, policy: TopologyPolicy, *quantities: tuple[str, str]) -> list[int | Why]:
        """Return where each of the pods goes, one after the other, or why it does not."""
        ledger, masks = self.LEDGER, list[int | Why]()
        for number, (cpu, memory) in enumerate(quantities):
            got = admit(ledger, pod(cpu=cpu, memory=memory), rule(policy))
            if isinstance(got, Allotment):
                masks.append(got.total.mask)
                ledger = ledger.with_pod(str(number), got)
            else:
                masks.append(got.why)
        return masks

    def test_two_pods_on_two_numa_nodes_and_no_place_for_a_third(self) -> None:
        """More than half of a node each."""
        each = ("30", "50Gi")
        assert self.place(TopologyPolicy.SINGLE_NUMA_NODE, each, each, each) == [
            1,
            2,
            Why.UNALIGNED,
        ]

    def test_restricted_places_the_third_across_both(self) -> None:
        """What is left of both is enough."""
        each = ("30", "50Gi")
        assert self.place(TopologyPolicy.RESTRICTED, each, each, each) == [1, 2, 3]
        assert self.place(TopologyPolicy.BEST_EFFORT, each, each, each) == [1, 2, 3]

    def test_resources_that_are_left_crosswise_are_no_place(self) -> None:
        """CPUs on the one node, memory on the other."""
        pods = [("42", "1Gi"), ("10", "99Gi"), ("20", "20Gi")]
        assert self.place(TopologyPolicy.SINGLE_NUMA_NODE, *pods) == [1, 2, Why.UNALIGNED]
