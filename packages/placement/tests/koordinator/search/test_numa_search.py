"""The search for NUMA nodes looks at few sets and misses none."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from packages.placement.tests.strategies.nodes import unbound
from packages.placement.tests.strategies.wishes import rule

from numakube.topology.allotments import Allotment
from numakube.values.numamask import mask_of, masks_of_size, masks_over, nodes_of
from numakube.values.topology_policy import TopologyPolicy
from numakube_placement.koordinator.annotation_values import Exclusive
from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.numa_search import DeviceOffer, Search
from numakube_placement.koordinator.numa_supply import Neighbours, Remaining, Supply, demand_of_pod
from numakube_placement.koordinator.placement_rule import PlacementRefusal
from numakube_placement.koordinator.pod_wish import DeviceWish, PodWish

GPU = {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100}
RESOURCES = ("cpu", "memory", "vendor.example/x")


@st.composite
def ledgers(draw: st.DrawFn) -> NodeLedger:
    """Draw up to five NUMA nodes with little left on each, and who is there."""
    ids = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True))
    left = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 6))
    gpus = tuple(
        DevicePlace(type="gpu", minor=minor, numa=numa, resources=GPU)
        for minor, numa in enumerate(draw(st.lists(st.sampled_from([*ids, None]), max_size=3)))
    )
    facts = NodeFacts(node="n", zones={numa: draw(left) for numa in ids}, devices=gpus)
    holders = draw(st.lists(st.integers(1, 127), max_size=2))
    others: dict[str, Allotment] = {
        str(at): unbound(mask, memory=0) for at, mask in enumerate(holders)
    }
    return NodeLedger.of(facts, others)


def amounts() -> st.SearchStrategy[dict[str, int]]:
    """Draw what a pod asks for."""
    return st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 9), min_size=1)


def devices(count: int) -> DeviceWish | None:
    """Return a wish for whole GPUs."""
    wanted = {name: amount * count for name, amount in GPU.items()}
    return DeviceWish(requests={"gpu": wanted}) if count else None


def search(
    ledger: NodeLedger, wish: PodWish, policy: TopologyPolicy, exclusive: Exclusive
) -> tuple[int | PlacementRefusal, Supply, DeviceOffer]:
    """Return what the search finds, and what it looked at."""
    demand = demand_of_pod(wish, rule(policy, exclusive=exclusive), ledger.capacity)
    supply = Supply(ledger.capacity, Remaining(ledger=ledger), demand)
    offer = DeviceOffer(ledger, demand)
    found = Search(supply, offer, Neighbours.of(ledger.numa_status)).run()
    return found, supply, offer


def fits(supply: Supply, mask: int) -> bool:
    """Tell whether every NUMA node of *mask* has something of all, and all of them enough."""
    return all(
        all(available[node] > 0 for node in nodes_of(mask))
        and sum(available[node] for node in nodes_of(mask)) >= supply.demand.amounts[name]
        for name, available in supply.available.items()
    )


@given(
    ledger=ledgers(),
    asked=amounts(),
    gpus=st.integers(0, 2),
    policy=st.sampled_from(
        [TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE]
    ),
    exclusive=st.sampled_from(Exclusive),
)
def test_no_set_is_missed_and_none_is_wider_than_it_must_be(
    ledger: NodeLedger,
    asked: dict[str, int],
    gpus: int,
    policy: TopologyPolicy,
    exclusive: Exclusive,
) -> None:
    """Against a look at all sets one by one."""
    wish = PodWish(requests=asked, devices=devices(gpus))
    found, supply, offer = search(ledger, wish, policy, exclusive)
    assume(supply.demand.amounts or offer.types)
    masks = masks_over(ledger.capacity.zone_ids)
    given = [mask for mask in masks if not isinstance(offer.on(mask), PlacementRefusal)]
    aligned = [mask for mask in given if fits(supply, mask)]
    neighbours = Neighbours.of(ledger.numa_status)
    allowed = [mask for mask in aligned if neighbours.allow(mask, exclusive)]
    if offer.types and policy is TopologyPolicy.RESTRICTED:
        fewest = min((mask.bit_count() for mask in given), default=0)
        allowed = [mask for mask in allowed if mask.bit_count() == fewest]
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        allowed = [mask for mask in allowed if mask.bit_count() == 1]
    best = min((mask.bit_count() for mask in allowed), default=None)
    if isinstance(found, PlacementRefusal):
        enough = not isinstance(offer.best, PlacementRefusal) and supply.short_of is None
        assert best is None
        assert policy is not TopologyPolicy.BEST_EFFORT or not enough
    elif best is None:
        assert policy is TopologyPolicy.BEST_EFFORT
        assert found in aligned or (not aligned and found == ledger.capacity.all_zones)
    else:
        assert found in allowed
        assert found.bit_count() == best


class TestManyNumaNodes:
    """Machines with dozens of NUMA nodes have more sets than can be looked at."""

    ZONES = 48

    def node(self, *held: Allotment) -> NodeLedger:
        """Return a node whose NUMA nodes have 1, 2, 3, ... CPUs."""
        zones = {zone: {"cpu": 1000 * (zone + 1), "memory": 100} for zone in range(self.ZONES)}
        others = {str(at): one for at, one in enumerate(held)}
        return NodeLedger.of(NodeFacts(node="n", zones=zones), others)

    def found(self, ledger: NodeLedger, cpus: int, exclusive: Exclusive = Exclusive.NO) -> int:
        """Return where a pod with *cpus* goes under Restricted."""
        wish = PodWish(requests={"cpu": cpus * 1000})
        found, _, _ = search(ledger, wish, TopologyPolicy.RESTRICTED, exclusive)
        assert isinstance(found, int), found
        return found

    def test_are_combined_if_they_are_rich(self) -> None:
        """Three nodes of 48, 47 and 46."""
        assert self.found(self.node(), 141) == mask_of([45, 46, 47])

    def test_are_taken_all_before_a_pod_is_refused(self) -> None:
        """All of them together have as many as the pod wants."""
        everything = sum(range(1, self.ZONES + 1))
        assert self.found(self.node(), everything) == (1 << self.ZONES) - 1

    def test_without_those_of_others_if_need_be(self) -> None:
        """Pods that keep to one node are not disturbed."""
        ledger = self.node(unbound(1 << 47, memory=1))
        assert self.found(ledger, 138, Exclusive.REQUIRED) == mask_of([44, 45, 46])
        rest = sum(range(1, self.ZONES))
        assert self.found(ledger, rest, Exclusive.REQUIRED) == (1 << 47) - 1

    def test_are_shown_by_example(self) -> None:
        """A refusal takes no longer than an answer."""
        wish = PodWish(requests={"cpu": 900_000})
        refusal, _, _ = search(self.node(), wish, TopologyPolicy.SINGLE_NUMA_NODE, Exclusive.NO)
        assert isinstance(refusal, PlacementRefusal)
        assert refusal.detail.startswith("cpu prefer [1111")


@pytest.mark.parametrize(
    ("available", "amount", "fewest"),
    [((4, 1, 3), 4, 1), ((4, 1, 3), 5, 2), ((4, 1, 3), 8, 3), ((4, 1, 3), 9, 0), ((0, 0), 1, 0)],
)
def test_sets_that_are_too_small_are_skipped(
    available: tuple[int, ...], amount: int, fewest: int
) -> None:
    """The richest nodes tell how many it takes at least."""
    zones = {zone: {"x": left} for zone, left in enumerate(available)}
    ledger = NodeLedger.of(NodeFacts(node="n", zones=zones), {})
    demand = demand_of_pod(PodWish(requests={"x": amount}), rule(), ledger.capacity)
    supply = Supply(ledger.capacity, Remaining(ledger=ledger), demand)
    assert supply.fewest == {"x": fewest}
    for size in range(1, fewest):
        assert supply.masks("x", masks_of_size(ledger.capacity.zone_ids, size)) == []
