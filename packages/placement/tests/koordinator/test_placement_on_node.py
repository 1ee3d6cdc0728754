"""Whether a node can take a pod, and what the pod gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packages.placement.tests.koordinator.admitting import (
    BEST_EFFORT,
    CONTAINER,
    IDLE,
    NONE,
    RESTRICTED,
    SINGLE,
    TWO,
    given,
    holding,
    refused,
    text,
)
from packages.placement.tests.strategies.nodes import (
    GIB,
    bound,
    facts_of_layout,
    layout_of,
    unbound,
)
from packages.placement.tests.strategies.wishes import FULL, SPREAD, container, pod, rule

from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import Allotment, CpuExclusive
from numakube_placement.koordinator.annotation_values import Exclusive, Strategy
from numakube_placement.koordinator.node_facts import NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_on_node import rate
from numakube_placement.koordinator.placement_rule import PlacementRule, Why
from numakube_placement.koordinator.pod_wish import PodWish


class TestOnePod:
    """Scope pod: the pod is placed as one."""

    def test_gets_amounts_on_one_numa_node(self) -> None:
        """Without CPUs of its own it runs in the shared pool there."""
        got = given(IDLE, pod(cpu="1500m", memory="1Gi"), rule())
        assert got.total.zones == {0: {"cpu": 1500, "memory": GIB}}
        assert (got.total.mask, got.total.cpus, got.containers) == (0b01, 0, {})

    def test_e7_gets_no_numa_node_for_what_it_leaves_out(self) -> None:
        """More memory than any NUMA node has does not matter then."""
        large = pod(cpu="2", memory="1000Gi")
        assert refused(IDLE, large, rule()).resource == "memory"
        got = given(IDLE, replace(large, ignored_resources=frozenset({"memory"})), rule())
        assert got.total.zones == {0: {"cpu": 2000}}

    def test_gets_exact_cpus_on_one_numa_node(self) -> None:
        """Amounts and CPUs agree."""
        got = given(IDLE, pod(cpu="4", memory="1Gi"), rule(bind=FULL))
        assert text(got.total.cpus) == "0-3"
        assert got.total.zones == {0: {"cpu": 4000, "memory": GIB}}

    def test_goes_where_strategy_says(self) -> None:
        """MostAllocated fills a node up, LeastAllocated looks for an empty one."""
        ledger = holding(IDLE, bound(TWO, "8-9"))
        for strategy, mask in ((Strategy.MOST_ALLOCATED, 0b10), (Strategy.LEAST_ALLOCATED, 0b01)):
            got = given(ledger, pod(cpu="2"), rule(bind=FULL, strategy=strategy))
            assert got.total.mask == mask

    def test_without_policy_gets_cpus_and_no_numa_nodes(self) -> None:
        """So nothing is recorded but CPUs."""
        got = given(IDLE, pod(cpu="12", memory="1Gi"), rule(NONE, bind=FULL))
        assert (text(got.total.cpus), got.total.zones, got.total.mask) == ("0-11", {}, 0)

    def test_without_policy_and_cpus_gets_nothing(self) -> None:
        """There is nothing to decide."""
        assert given(IDLE, pod(cpu="12"), rule(NONE)) == Allotment()

    def test_without_policy_spares_cpu_time_that_was_promised(self) -> None:
        """Pods in the shared pool of the first node have six of its eight CPUs."""
        ledger = holding(IDLE, unbound(0b01, cpu=6000))
        got = given(ledger, pod(cpu="6"), rule(NONE, bind=FULL, strategy=Strategy.MOST_ALLOCATED))
        assert text(got.total.cpus) == "8-13"
        got = given(ledger, pod(cpu="10"), rule(NONE, bind=FULL))
        assert text(got.total.cpus) == "0-1,8-15"
        assert refused(ledger, pod(cpu="11"), rule(NONE, bind=FULL)).why is Why.TOO_FEW_CPUS

    def test_with_even_distribution_takes_all_numa_nodes_alike(self) -> None:
        """Where there is no policy that wants fewer."""
        even = rule(NONE, bind=FULL, strategy=Strategy.DISTRIBUTE_EVENLY)
        assert text(given(IDLE, pod(cpu="4"), even).total.cpus) == "0-1,8-9"

    def test_of_no_size_gets_nothing(self) -> None:
        """Neither requests nor devices."""
        assert given(IDLE, pod(), rule()) == Allotment()

    def test_may_ask_for_what_numa_nodes_do_not_tell(self) -> None:
        """Such resources are placed by others."""
        wish = PodWish(requests={"cpu": 1000, "vendor.example/x": 99})
        assert given(IDLE, wish, rule()).total.zones == {0: {"cpu": 1000}}
        assert given(IDLE, PodWish(requests={"vendor.example/x": 9}), rule()) == Allotment()

    def test_restricted_takes_as_few_numa_nodes_as_are_needed_now(self) -> None:
        """An idle machine would have placed it on one, a kubelet would refuse it."""
        ledger = holding(IDLE, unbound(0b01, cpu=5000), unbound(0b10, cpu=5000))
        assert given(ledger, pod(cpu="4"), rule(RESTRICTED)).total.zones == {
            0: {"cpu": 2000},
            1: {"cpu": 2000},
        }

    def test_restricted_keeps_all_resources_on_the_same_numa_nodes(self) -> None:
        """Memory needs both, so CPUs come from both."""
        got = given(IDLE, pod(cpu="2", memory="20Gi"), rule(RESTRICTED, bind=FULL, required=True))
        assert got.total.mask == 0b11
        assert got.total.zones == {0: {"memory": 10 * GIB}, 1: {"cpu": 2000, "memory": 10 * GIB}}
        assert text(got.total.cpus) == "8-9"

    def test_best_effort_takes_what_there_is(self) -> None:
        """CPUs are left on one node only, memory on the other."""
        ledger = holding(IDLE, bound(TWO, "0-7"), unbound(0b10, memory=16 * GIB))
        got = given(ledger, pod(cpu="2", memory="1Gi"), rule(BEST_EFFORT))
        assert got.total.zones == {0: {"memory": GIB}, 1: {"cpu": 2000}}
        assert got.total.mask == 0b11
        assert refused(ledger, pod(cpu="2", memory="1Gi"), rule(RESTRICTED)).why is Why.UNALIGNED

    def test_gets_hugepages_in_whole_pages(self) -> None:
        """Half a page is no page."""
        zone = {"cpu": 4000, "hugepages-1Gi": 2 * GIB}
        ledger = NodeLedger.of(NodeFacts(node="n", zones={0: zone, 1: zone}), {})
        wish = PodWish(requests={"hugepages-1Gi": 3 * GIB})
        assert given(ledger, wish, rule(RESTRICTED)).total.zones == {
            0: {"hugepages-1Gi": GIB},
            1: {"hugepages-1Gi": 2 * GIB},
        }

    def test_is_placed_on_the_only_numa_node_of_a_small_machine(self) -> None:
        """And what it takes is on record there."""
        small = NodeLedger.of(facts_of_layout(layout_of("1x1x4x2")), {})
        for policy in (BEST_EFFORT, RESTRICTED, SINGLE):
            assert given(small, pod(cpu="3"), rule(policy)).total.zones == {0: {"cpu": 3000}}

    def test_is_placed_where_numa_ids_have_holes(self) -> None:
        """Zones node-1 and node-3."""
        facts = NodeFacts(node="n", zones={1: {"cpu": 4000}, 3: {"cpu": 2000}})
        got = given(NodeLedger.of(facts, {}), pod(cpu="5"), rule(RESTRICTED))
        assert got.total.zones == {1: {"cpu": 3000}, 3: {"cpu": 2000}}
        assert got.total.mask == 0b1010

    def test_with_exclusive_cpus_says_so(self) -> None:
        """Others of its kind must see it; without CPUs there is nothing to see."""
        wish = pod(cpu="2", exclusive=CpuExclusive.PCPU_LEVEL)
        assert given(IDLE, wish, rule(bind=FULL)).cpu_exclusive is CpuExclusive.PCPU_LEVEL
        assert given(IDLE, wish, rule()).cpu_exclusive is CpuExclusive.NONE


class TestRefusals:
    """Why a node cannot take a pod."""

    def test_tell_what_all_numa_nodes_have_too_little_of(self) -> None:
        """With figures."""
        ledger = holding(IDLE, unbound(0b01, memory=12 * GIB))
        refusal = refused(ledger, pod(cpu="1", memory="21Gi"), rule())
        assert (refusal.why, refusal.resource) == (Why.UNSATISFIED, "memory")
        assert refusal.detail == "21Gi wanted, 20Gi left on all NUMA nodes"
        lenient = refused(ledger, pod(cpu="1", memory="21Gi"), rule(BEST_EFFORT))
        assert lenient.why is Why.ZONES_TOO_SMALL

    def test_tell_where_resources_could_be_had(self) -> None:
        """In Koordinator's words."""
        ledger = holding(IDLE, unbound(0b01, cpu=7000), unbound(0b10, memory=15 * GIB))
        refusal = refused(ledger, pod(cpu="2", memory="2Gi"), rule())
        assert refusal.why is Why.UNALIGNED
        assert refusal.detail == "cpu prefer [10] among [10],memory prefer [01] among [01]"

    def test_tell_that_a_pod_is_wider_than_a_numa_node(self) -> None:
        """The sets that would do are named."""
        refusal = refused(IDLE, pod(cpu="9"), rule())
        assert refusal.detail == "cpu prefer [11] among [11]"

    def test_tell_too_few_cpus(self) -> None:
        """Of whole cores, if whole cores are a must."""
        ledger = holding(IDLE, bound(TWO, "0,2,4,6,8,10"))
        refusal = refused(ledger, pod(cpu="6"), rule(RESTRICTED, bind=FULL, required=True))
        assert (refusal.why, refusal.resource) == (Why.TOO_FEW_CPUS, "cpu")
        assert refusal.detail == "6 wanted, 4 left on all NUMA nodes"
        anywhere = refused(ledger, pod(cpu="6"), rule(NONE, bind=FULL, required=True))
        assert anywhere.detail == "6 wanted, 4 can be bound as FullPCPUs"
        given(ledger, pod(cpu="6"), rule(RESTRICTED, bind=FULL))

    @pytest.mark.parametrize(
        ("facts", "under", "wish", "why"),
        [
            (NodeFacts(node="n", cpus=TWO), rule(), pod(cpu="1"), Why.NO_ZONES),
            (
                NodeFacts(node="n", zones={0: {"cpu": 9000}}),
                rule(bind=FULL),
                pod(cpu="1"),
                Why.NO_CPU_LAYOUT,
            ),
            (facts_of_layout(TWO), rule(bind=FULL), pod(cpu="1500m"), Why.NOT_WHOLE_CPUS),
        ],
    )
    def test_tell_what_no_eviction_changes(
        self, facts: NodeFacts, under: PlacementRule, wish: PodWish, why: Why
    ) -> None:
        """Neither is worth a preemption."""
        assert refused(NodeLedger.of(facts, {}), wish, under).why is why
        assert why.lasting

    def test_name_the_container(self) -> None:
        """The second of two finds nothing left."""
        wish = pod(container("a", cpu="8"), container("b", cpu="5"), container("c", cpu="5"))
        refusal = refused(IDLE, wish, rule(scope=CONTAINER))
        assert (refusal.container, refusal.why) == ("c", Why.UNSATISFIED)
        wide = refused(IDLE, pod(container("a"), container("b", cpu="9")), rule(scope=CONTAINER))
        assert (wide.container, wide.detail) == ("b", "cpu prefer [11] among [11]")


class TestExclusiveNumaNodes:
    """Pods on one NUMA node and pods across several."""

    def test_keep_single_pods_from_nodes_of_wide_ones(self) -> None:
        """Also where the wide pod has no CPUs of its own."""
        ledger = holding(IDLE, unbound(0b11, cpu=100))
        wanted = rule(exclusive=Exclusive.REQUIRED)
        refusal = refused(ledger, pod(cpu="1"), wanted)
        assert refusal.why is Why.UNALIGNED
        assert "across several [11]" in refusal.detail
        given(ledger, pod(cpu="1"), rule(exclusive=Exclusive.PREFERRED))

    def test_keep_wide_pods_from_nodes_of_single_ones(self) -> None:
        """BestEffort takes them all the same."""
        ledger = holding(IDLE, unbound(0b01, cpu=100))
        wide = pod(cpu="10")
        refused(ledger, wide, rule(RESTRICTED, exclusive=Exclusive.REQUIRED))
        assert given(ledger, wide, rule(RESTRICTED)).total.mask == 0b11
        got = given(ledger, wide, rule(BEST_EFFORT, exclusive=Exclusive.REQUIRED))
        assert got.total.mask == 0b11

    def test_are_looked_for_first(self) -> None:
        """Three nodes, the first two held by a wide pod."""
        facts = NodeFacts(node="n", zones={zone: {"cpu": 8000} for zone in range(3)})
        ledger = holding(NodeLedger.of(facts, {}), unbound(0b011, cpu=1), unbound(0b100, cpu=5000))
        for exclusive in (Exclusive.REQUIRED, Exclusive.PREFERRED):
            assert given(ledger, pod(cpu="1"), rule(exclusive=exclusive)).total.mask == 0b100
        assert given(ledger, pod(cpu="1"), rule()).total.mask == 0b001

    def test_do_not_part_containers_of_one_pod(self) -> None:
        """One spans both nodes, the other is on one of them."""
        wish = pod(container("wide", cpu="10"), container("narrow", cpu="2", policy=SINGLE))
        under = rule(RESTRICTED, scope=CONTAINER, exclusive=Exclusive.REQUIRED)
        got = given(IDLE, wish, under)
        assert [share.mask for share in got.containers.values()] == [0b11, 0b01]
        refused(IDLE.with_pod("it", got), pod(cpu="1"), rule(exclusive=Exclusive.REQUIRED))


class TestContainers:
    """Scope container: each container is placed on its own."""

    def test_are_placed_where_the_pod_as_a_whole_is_not(self) -> None:
        """Two containers of six CPUs: no NUMA node has twelve."""
        wish = pod(container("a", cpu="6", memory="1Gi"), container("b", cpu="6", memory="2Gi"))
        assert refused(IDLE, wish, rule()).why is Why.UNALIGNED
        got = given(IDLE, wish, rule(scope=CONTAINER))
        assert {name: share.mask for name, share in got.containers.items()} == {"a": 1, "b": 2}
        assert got.total.zones == {
            0: {"cpu": 6000, "memory": GIB},
            1: {"cpu": 6000, "memory": 2 * GIB},
        }
        assert got.total.mask == 0b11

    def test_get_cpus_each_and_the_pod_holds_all_of_them(self) -> None:
        """Nobody gets the same CPU twice."""
        wish = pod(
            container("a", cpu="2", bind=FULL),
            container("b", cpu="2", bind=SPREAD),
            container("c", cpu="500m"),
            container("d", memory="1Gi"),
        )
        under = rule(scope=CONTAINER, bind=FULL, strategy=Strategy.MOST_ALLOCATED)
        got = given(IDLE, wish, under)
        assert [text(share.cpus) for share in got.containers.values()] == ["0-1", "2,4", "", ""]
        assert text(got.total.cpus) == "0-2,4"
        assert got.total.zones == {0: {"cpu": 4500, "memory": GIB}}

    def test_that_are_ignored_or_ask_for_nothing_get_nothing(self) -> None:
        """And block nothing."""
        wish = pod(
            container("huge", cpu="99", ignored=True), container("none"), container("a", cpu="1")
        )
        got = given(IDLE, wish, rule(scope=CONTAINER))
        assert list(got.containers) == ["a"]

    def test_have_policies_of_their_own(self) -> None:
        """One is left alone, one may be wide."""
        wish = pod(
            container("free", cpu="9", policy=NONE),
            container("wide", cpu="9", policy=RESTRICTED),
            container("narrow", cpu="3"),
        )
        got = given(IDLE, wish, rule(scope=CONTAINER))
        assert {name: share.mask for name, share in got.containers.items()} == {
            "wide": 0b11,
            "narrow": 0b01,
        }

    def test_are_exclusive_by_their_own_word_or_policy(self) -> None:
        """A policy of its own means Required, as for a pod; the pod's word comes before that."""
        ledger = holding(IDLE, unbound(0b11, cpu=100))
        under = rule(scope=CONTAINER)
        strict = refused(ledger, pod(container("a", cpu="1", policy=SINGLE)), under)
        assert strict.container == "a"
        lenient = container("a", cpu="1", policy=SINGLE, exclusive=Exclusive.NO)
        assert given(ledger, pod(lenient), under).total.mask.bit_count() == 1
        told = PodWish(
            containers=(container("a", cpu="1", policy=SINGLE),), exclusive=Exclusive.PREFERRED
        )
        assert given(ledger, told, under).total.mask.bit_count() == 1

    def test_are_bound_as_the_node_demands(self) -> None:
        """Unless a container must have it otherwise; fractions stay in the pool."""
        facts = NodeFacts(
            node="n",
            zones={0: {"cpu": 8000}},
            cpus=layout_of("1x1x4x2"),
            bind_policy=SPREAD,
            binds_all=True,
        )
        wish = pod(
            container("part", ContainerRole.INIT, cpu="500m"),
            container("a", cpu="2"),
            container("b", cpu="2", required=FULL),
        )
        under = rule(scope=CONTAINER, bind=SPREAD, required=True)
        got = given(NodeLedger.of(facts, {}), wish, under)
        assert [text(share.cpus) for share in got.containers.values()] == ["", "0,2", "4-5"]

    def test_without_policy_get_cpus_each(self) -> None:
        """Binding is asked for, alignment is not."""
        wish = pod(container("a", cpu="10", bind=FULL), container("b", cpu="2", bind=FULL))
        got = given(IDLE, wish, rule(NONE, scope=CONTAINER, bind=FULL))
        assert [text(share.cpus) for share in got.containers.values()] == ["0-9", "10-11"]
        assert (got.total.zones, got.total.mask) == ({}, 0)


class TestInitContainers:
    """What plain init containers use is there again; sidecars keep what they have."""

    def test_lend_their_cpus_to_later_containers(self) -> None:
        """As under the kubelet."""
        wish = pod(
            container("init", ContainerRole.INIT, cpu="4", bind=FULL),
            container("a", cpu="2", bind=FULL),
            container("b", cpu="4", bind=FULL),
        )
        under = rule(scope=CONTAINER, bind=FULL, strategy=Strategy.MOST_ALLOCATED)
        got = given(IDLE, wish, under)
        assert [text(share.cpus) for share in got.containers.values()] == ["0-3", "0-1", "2-5"]
        assert text(got.total.cpus) == "0-5"
        assert got.total.zones == {0: {"cpu": 6000}}

    def test_leave_the_pod_what_nobody_used_after_them(self) -> None:
        """It is bound to the pod until it ends."""
        wish = pod(
            container("init", ContainerRole.INIT, cpu="6", memory="8Gi", bind=FULL),
            container("a", cpu="2", memory="1Gi", bind=FULL),
        )
        got = given(IDLE, wish, rule(scope=CONTAINER, bind=FULL))
        assert text(got.total.cpus) == "0-5"
        assert got.total.zones == {0: {"cpu": 6000, "memory": 8 * GIB}}

    def test_may_use_what_later_containers_use(self) -> None:
        """Amounts are those of the peak, on each NUMA node."""
        wish = pod(
            container("one", ContainerRole.INIT, cpu="8", memory="1Gi"),
            container("two", ContainerRole.INIT, cpu="7", memory="9Gi"),
            container("a", cpu="8", memory="2Gi"),
        )
        got = given(IDLE, wish, rule(scope=CONTAINER, strategy=Strategy.MOST_ALLOCATED))
        assert {share.mask for share in got.containers.values()} == {0b01}
        assert got.total.zones == {0: {"cpu": 8000, "memory": 9 * GIB}}

    def test_run_beside_sidecars(self) -> None:
        """A sidecar that starts before keeps its CPUs from them."""
        wish = pod(
            container("side", ContainerRole.SIDECAR, cpu="4", bind=FULL),
            container("init", ContainerRole.INIT, cpu="4", bind=FULL),
            container("a", cpu="4", bind=FULL),
            container("b", cpu="8", bind=FULL),
        )
        under = rule(scope=CONTAINER, bind=FULL, strategy=Strategy.MOST_ALLOCATED)
        got = given(IDLE, wish, under)
        assert {name: text(share.cpus) for name, share in got.containers.items()} == {
            "side": "0-3",
            "init": "4-7",
            "a": "4-7",
            "b": "8-15",
        }
        late = pod(*wish.containers, container("c", cpu="1", bind=FULL))
        assert refused(IDLE, late, under).container == "c"

    def test_do_not_make_the_pod_hold_more_than_there_is(self) -> None:
        """An init container in the pool and an app container with CPUs of its own take turns."""
        wish = pod(
            container("init", ContainerRole.INIT, cpu="7500m"), container("a", cpu="8", bind=FULL)
        )
        under = rule(scope=CONTAINER, bind=FULL, strategy=Strategy.MOST_ALLOCATED)
        ledger = NodeLedger.of(facts_of_layout(TWO, ratios={"cpu": 1.5}), {"o": bound(TWO, "8-15")})
        got = given(ledger, wish, under)
        assert got.total.zones == {0: {"cpu": 8000}}
        assert ledger.with_pod("it", got).free_zones[0]["cpu"] == 0


class TestAmplified:
    """Nodes that count more CPUs than they have."""

    FACTS = facts_of_layout(TWO, memory=16 * GIB, ratios={"cpu": 1.5})

    def test_pods_in_pools_get_amplified_time(self) -> None:
        """Eight CPUs count as twelve."""
        ledger = NodeLedger.of(self.FACTS, {})
        assert given(ledger, pod(cpu="12"), rule()).total.zones == {0: {"cpu": 12000}}
        refused(ledger, pod(cpu="12001m"), rule())

    def test_bound_cpus_are_no_more_than_there_are(self) -> None:
        """And cost the amplified price."""
        ledger = NodeLedger.of(self.FACTS, {})
        assert given(ledger, pod(cpu="8"), rule(bind=FULL)).total.zones == {0: {"cpu": 8000}}
        assert refused(ledger, pod(cpu="9"), rule(bind=FULL)).why is Why.UNALIGNED
        crowded = holding(ledger, unbound(0b11, cpu=3000))
        given(crowded, pod(cpu="6"), rule(bind=FULL))
        assert refused(crowded, pod(cpu="7"), rule(bind=FULL)).why is Why.UNALIGNED
        given(crowded, pod(cpu="12"), rule(RESTRICTED, bind=FULL))
        assert refused(crowded, pod(cpu="13"), rule(RESTRICTED, bind=FULL)).resource == "cpu"


class TestRating:
    """Which of several nodes is better."""

    def test_follows_the_strategy_on_the_numa_nodes_of_the_pod(self) -> None:
        """Two of eight CPUs and no memory: a quarter full, and none."""
        got = given(IDLE, pod(cpu="2"), rule())
        assert rate(IDLE, got, rule()) == (75 + 100) // 2
        assert rate(IDLE, got, rule(strategy=Strategy.MOST_ALLOCATED)) == (25 + 0) // 2

    def test_looks_at_the_whole_node_if_no_numa_node_was_asked_for(self) -> None:
        """Two of sixteen CPUs."""
        got = given(IDLE, pod(cpu="2"), rule(NONE, bind=FULL))
        assert rate(IDLE, got, rule(NONE, bind=FULL)) == (87 + 100) // 2

    def test_is_the_mean_of_containers(self) -> None:
        """Each on its own NUMA nodes, with the whole pod there."""
        wish = pod(container("a", cpu="8", memory="16Gi"), container("b", cpu="4", memory="8Gi"))
        under = rule(scope=CONTAINER)
        assert rate(IDLE, given(IDLE, wish, under), under) == (0 + 50) // 2

    def test_puts_narrow_before_wide(self) -> None:
        """A full single NUMA node before two empty ones."""
        narrow = given(IDLE, pod(cpu="8", memory="16Gi"), rule(BEST_EFFORT))
        wide = given(
            holding(IDLE, unbound(0b11, memory=15 * GIB)),
            pod(cpu="1", memory="2Gi"),
            rule(BEST_EFFORT),
        )
        assert (narrow.total.mask, wide.total.mask) == (0b01, 0b11)
        assert rate(IDLE, narrow, rule(BEST_EFFORT)) == 50
        assert rate(IDLE, wide, rule(BEST_EFFORT)) < 50

    @pytest.mark.parametrize("wish", [pod(), pod(cpu="4"), pod(cpu="16", memory="32Gi")])
    def test_stays_in_range(self, wish: PodWish) -> None:
        """Also on nodes without any figures."""
        for under in (rule(BEST_EFFORT), rule(NONE), rule(NONE, bind=FULL)):
            assert 0 <= rate(IDLE, given(IDLE, wish, under), under) <= 100
        assert rate(NodeLedger.of(NodeFacts(node="bare"), {}), Allotment(), rule()) == 0
