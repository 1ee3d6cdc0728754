"""What is left of a node, from what its pods hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packages.placement.tests.strategies.nodes import (
    GIB,
    bound,
    cpus,
    facts_of_layout,
    layout_of,
    layouts,
    unbound,
    wild_allotments,
)

from numakube.topology.allotments import Allotment, CpuExclusive, HeldDevice, Share
from numakube_placement.koordinator.annotation_values import BindPolicy
from numakube_placement.koordinator.node_facts import CpuLayout, DevicePlace, NodeFacts, amplified
from numakube_placement.koordinator.node_ledger import NodeLedger, NumaStatus

TWO = layout_of("2x1x4x2")
CORE = "koordinator.sh/gpu-core"


def test_free_cpus_are_those_neither_reserved_nor_held() -> None:
    """Reserved CPUs are never bound."""
    ledger = NodeLedger.of(facts_of_layout(TWO, reserved="0-1"), {"a": bound(TWO, "2-3,8")})
    assert ledger.free_cpus == cpus("4-7,9-15")


def test_reserved_and_held_cpus_come_off_their_numa_node() -> None:
    """Both leave that much less CPU time."""
    ledger = NodeLedger.of(facts_of_layout(TWO, reserved="0-1"), {"a": bound(TWO, "2-3,8")})
    assert ledger.free_zones == {
        0: {"cpu": 4000, "memory": 64 * GIB},
        1: {"cpu": 7000, "memory": 64 * GIB},
    }


def test_pods_without_cpus_of_their_own_take_amounts() -> None:
    """They run in the shared pool."""
    ledger = NodeLedger.of(facts_of_layout(TWO), {"a": unbound(0b11, cpu=1500, memory=GIB)})
    assert ledger.free_zones[0] == ledger.free_zones[1] == {"cpu": 6500, "memory": 63 * GIB}
    assert ledger.free_cpus == TWO.all


def test_bound_cpus_count_even_where_no_amounts_were_written() -> None:
    """Pods without a NUMA policy carry CPUs alone."""
    held = Allotment(total=Share(cpus=cpus("0-3")))
    assert NodeLedger.of(facts_of_layout(TWO), {"a": held}).free_zones[0]["cpu"] == 4000


def test_amplified_zones_give_bound_cpus_at_the_amplified_price() -> None:
    """Others take what they ask for."""
    facts = facts_of_layout(TWO, reserved="7", ratios={"cpu": 1.5, "memory": 2})
    ledger = NodeLedger.of(facts, {"a": bound(TWO, "0-1"), "b": unbound(0b1, cpu=500, memory=GIB)})
    assert ledger.free_zones[0] == {"cpu": 7 * 1500 - 2 * 1500 - 500, "memory": 127 * GIB}
    assert ledger.free_zones[1] == {"cpu": 8 * 1500, "memory": 128 * GIB}


def test_amplified_cpus_fill_a_zone_exactly() -> None:
    """Rounding leaves nothing over and misses nothing."""
    facts = facts_of_layout(TWO, ratios={"cpu": 1.37})
    ledger = NodeLedger.of(facts, {"a": bound(TWO, "0-2"), "b": bound(TWO, "3-7")})
    assert ledger.free_zones[0]["cpu"] == 0


@pytest.mark.parametrize(
    ("amount", "ratio", "result"),
    [(1000, 1.1, 1100), (3, 1.5, 5), (7, 1.0, 7), (7, 0.5, 7), (1000, 1.333, 1333), (0, 2.0, 0)],
)
def test_amplified_amounts_round_up_in_decimal(amount: int, ratio: float, result: int) -> None:
    """Binary fractions do not show."""
    assert amplified(amount, ratio) == result


@pytest.mark.parametrize(
    ("held", "status"),
    [
        ([], "idle idle"),
        ([bound(TWO, "0-1")], "single idle"),
        ([bound(TWO, "0-1,8")], "shared shared"),
        ([bound(TWO, "0-1"), bound(TWO, "2,8")], "shared shared"),
        ([unbound(0b10, cpu=1)], "idle single"),
        ([unbound(0b11, cpu=1), unbound(0b10, cpu=1)], "shared shared"),
        ([Allotment(total=Share(cpus=cpus("8")))], "idle single"),
        ([Allotment(total=Share(zones={1: {"memory": 1}}))], "idle single"),
        ([Allotment()], "idle idle"),
    ],
)
def test_status_of_numa_nodes_counts_every_pod_that_was_placed(
    held: list[Allotment], status: str
) -> None:
    """Pods without CPUs of their own as well."""
    ledger = NodeLedger.of(facts_of_layout(TWO), {str(n): one for n, one in enumerate(held)})
    assert " ".join(each.value for each in ledger.numa_status.values()) == status


def test_containers_that_were_placed_one_by_one_hold_one_by_one() -> None:
    """The pod as a whole spans nodes, none of them does."""
    total = Share(zones={0: {"cpu": 1}, 1: {"cpu": 1}}, mask=0b11)
    parts = {"a": Share(zones={0: {"cpu": 1}}, mask=0b01), "b": Share(zones={1: {}}, mask=0b10)}
    ledger = NodeLedger.of(facts_of_layout(TWO), {"pod": Allotment(total=total, containers=parts)})
    assert set(ledger.numa_status.values()) == {NumaStatus.SINGLE}


def test_numa_ids_may_have_holes() -> None:
    """Nothing is indexed by position."""
    facts = NodeFacts(node="n", zones={2: {"cpu": 5}, 0: {"cpu": 7}})
    ledger = NodeLedger.of(facts, {"a": unbound(0b100, cpu=2), "b": unbound(0b010, cpu=2)})
    assert ledger.free_zones == {0: {"cpu": 7}, 2: {"cpu": 3}}
    assert ledger.numa_status == {0: NumaStatus.IDLE, 2: NumaStatus.SINGLE}


def test_exclusive_cpus_are_told_by_policy() -> None:
    """Only pods of the same policy keep away from each other."""
    allotments = {
        "a": bound(TWO, "0-1", exclusive=CpuExclusive.PCPU_LEVEL),
        "b": bound(TWO, "4", exclusive=CpuExclusive.PCPU_LEVEL),
        "c": bound(TWO, "8", exclusive=CpuExclusive.NUMA_NODE_LEVEL),
        "d": bound(TWO, "9"),
    }
    assert NodeLedger.of(facts_of_layout(TWO), allotments).exclusive_cpus == {
        CpuExclusive.PCPU_LEVEL: cpus("0-1,4"),
        CpuExclusive.NUMA_NODE_LEVEL: cpus("8"),
    }


def test_devices_are_left_as_far_as_nobody_holds_them() -> None:
    """Broken devices have nothing, unknown ones take nothing."""
    places = (
        DevicePlace(type="gpu", minor=0, resources={CORE: 100}),
        DevicePlace(type="gpu", minor=1, resources={CORE: 100}, healthy=False),
        DevicePlace(type="rdma", minor=0, resources={"rdma": 100}, vfs=("a", "b")),
        DevicePlace(type="gpu", minor=2, resources={CORE: 100}),
    )
    devices = (
        HeldDevice(type="gpu", minor=0, resources={CORE: 30}),
        HeldDevice(type="gpu", minor=0, resources={CORE: 90}),
        HeldDevice(type="rdma", minor=0, resources={"rdma": 1}, vfs=("a",)),
        HeldDevice(type="odd", minor=7, resources={"odd": 1}),
    )
    held = Allotment(total=Share(devices=devices))
    ledger = NodeLedger.of(facts_of_layout(TWO, devices=places), {"a": held})
    assert [(free.left, free.vfs, free.in_use) for free in ledger.free_devices] == [
        ({CORE: 0}, (), True),
        ({CORE: 0}, (), False),
        ({"rdma": 99}, ("b",), True),
        ({CORE: 100}, (), False),
    ]


def test_names_of_nodes_and_pods_are_not_in_the_key() -> None:
    """Nodes alike share answers."""
    one = NodeLedger.of(facts_of_layout(TWO), {"a": bound(TWO, "0-1")})
    other = NodeLedger.of(facts_of_layout(layout_of("2x1x4x2")), {"b": bound(TWO, "0-1")})
    assert one.key == other.key
    assert len({one.key, one.without(["a"]).key, one.with_pod("c", bound(TWO, "2")).key}) == 3


@pytest.mark.parametrize(
    "other",
    [
        facts_of_layout(TWO, reserved="0"),
        facts_of_layout(TWO, memory=GIB),
        facts_of_layout(TWO, ratios={"cpu": 1.5}),
        facts_of_layout(layout_of("2x2x2x2")),
        facts_of_layout(TWO, devices=(DevicePlace(type="gpu", minor=0),)),
        replace(facts_of_layout(TWO), binds_all=True),
        replace(facts_of_layout(TWO), bind_policy=BindPolicy.FULL_PCPUS),
        NodeFacts(node="n"),
    ],
)
def test_whatever_changes_answers_changes_the_key(other: NodeFacts) -> None:
    """Hardware, what is kept back and ratios."""
    assert NodeLedger.of(facts_of_layout(TWO), {}).key != NodeLedger.of(other, {}).key


@settings(max_examples=50)
@given(data=st.data(), layout=layouts(), held=st.lists(wild_allotments(), max_size=4))
def test_nonsense_on_pods_never_breaks_the_ledger(
    data: st.DataObject, layout: CpuLayout, held: list[Allotment]
) -> None:
    """Everybody may write annotations."""
    facts = data.draw(
        st.sampled_from(
            [
                NodeFacts(node="bare"),
                NodeFacts(node="alien", zones={-1: {"cpu": 1}, 99: {"cpu": 1}, 3: {"cpu": 1}}),
                facts_of_layout(TWO, reserved="100"),
                facts_of_layout(layout),
            ]
        )
    )
    ledger = NodeLedger.of(facts, {str(n): one for n, one in enumerate(held)})
    assert ledger.free_cpus & ~ledger.capacity.bindable == 0
    for zone, free in ledger.free_zones.items():
        assert all(0 <= free[name] <= ledger.capacity.totals[zone][name] for name in free)
    assert ledger.key == ledger.without(["nobody"]).key
    assert set(ledger.numa_status) == set(ledger.free_zones)


@settings(max_examples=50)
@given(held=st.lists(wild_allotments(), min_size=1, max_size=4), gone=st.integers(0, 3))
def test_pods_that_came_one_by_one_and_left_again_leave_no_trace(
    held: list[Allotment], gone: int
) -> None:
    """A ledger depends on who is there, not on how they came."""
    ledger = before = NodeLedger.of(facts_of_layout(TWO), {})
    assert before.key
    for number, one in enumerate(held):
        ledger = ledger.with_pod(str(number), one)
        assert ledger.key == NodeLedger.of(ledger.facts, ledger.allotments).key
    again = ledger.without([str(gone)]).with_pod(str(gone), held[gone % len(held)])
    assert again.without(again.allotments).key == before.key


def test_a_pod_that_is_allotted_anew_holds_the_new_only() -> None:
    """One pod holds one allotment."""
    ledger = NodeLedger.of(facts_of_layout(TWO), {"a": bound(TWO, "0-3")})
    assert ledger.with_pod("a", bound(TWO, "8")).free_cpus == TWO.all & ~cpus("8")
