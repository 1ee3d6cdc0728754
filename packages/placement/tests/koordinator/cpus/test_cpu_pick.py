"""Which CPUs a pod gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.placement.tests.strategies.nodes import cpus, far_threads, layout_of, layouts

from numakube.topology.allotments import CpuExclusive
from numakube.values.cpuset import CpuMask, CpuSet
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy
from numakube_placement.koordinator.cpu_pick import meets, pick, usable
from numakube_placement.koordinator.node_facts import CpuLayout, CpuPlace

FULL, SPREAD = BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS
MOST, LEAST, EVEN = Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED, Strategy.DISTRIBUTE_EVENLY
EITHER = (MOST, LEAST)
NONE, PCPU, NUMA = CpuExclusive.NONE, CpuExclusive.PCPU_LEVEL, CpuExclusive.NUMA_NODE_LEVEL

# Rows of Koordinator's cpu_accumulator_test.go: shape, CPUs that others hold, count, result.
PLAIN_ROWS = [
    (FULL, EITHER, "1x1x4x2", "", 2, "0-1"),
    (FULL, EITHER, "1x1x4x2", "0-1", 2, "2-3"),
    (FULL, EITHER, "2x1x4x2", "", 8, "0-7"),
    (FULL, EITHER, "2x1x4x2", "", 12, "0-11"),
    (FULL, EITHER, "2x1x4x2", "0-1", 8, "8-15"),
    (FULL, (MOST,), "2x2x4x2", "0-5,16-23", 6, "24-29"),
    (FULL, (LEAST,), "2x2x4x2", "0-5,16-23", 6, "8-13"),
    (FULL, EITHER, "2x2x4x2", "0-5,16-23", 12, "6-15,24-25"),
    (FULL, (MOST,), "2x2x4x2", "0-3,8-11", 4, "4-7"),
    (FULL, (LEAST,), "2x2x4x2", "0-3,8-11", 4, "16-19"),
    (FULL, EITHER, "2x2x2x2", "0,2,4,8,12", 4, "10-11,14-15"),
    (FULL, (MOST,), "2x2x2x2", "0,2,4,8,10,12", 6, "5-7,13-15"),
    (FULL, (LEAST,), "2x2x2x2", "0,2,4,8,10,12", 6, "1,3,6-7,14-15"),
    (FULL, (MOST,), "2x2x2x2", "0,2,4,8-10,12", 6, "6-7,11,13-15"),
    (FULL, (LEAST,), "2x2x4x2", "0,2,4,8-10,12", 6, "16-21"),
    (SPREAD, EITHER, "1x1x4x2", "", 4, "0,2,4,6"),
    (SPREAD, (MOST,), "2x1x4x2", "0,2", 4, "1,3-4,6"),
    (SPREAD, (MOST,), "2x1x4x2", "0,2", 6, "1,3-7"),
    (SPREAD, (LEAST,), "2x1x4x2", "0,2", 4, "8,10,12,14"),
    (SPREAD, (LEAST,), "2x1x4x2", "0,2", 6, "8-12,14"),
    (SPREAD, EITHER, "2x1x4x2", "0-3", 4, "8,10,12,14"),
]
GOLDEN = [
    (bind, strategy, shape, held, count, result)
    for bind, strategies, shape, held, count, result in PLAIN_ROWS
    for strategy in strategies
]

# The same with exclusive policies: that of the pod, that of those who hold CPUs.
EXCLUSIVE_ROWS = [
    (SPREAD, PCPU, PCPU, "2x1x4x2", "0,2", 4, "8,10,12,14"),
    (SPREAD, PCPU, PCPU, "2x1x4x2", "", 10, "0-4,6,8,10,12,14"),
    (SPREAD, PCPU, PCPU, "2x1x8x2", "0,2", 4, "4,6,8,10"),
    (SPREAD, NONE, PCPU, "2x1x8x2", "0,2", 4, "1,3-4,6"),
    (SPREAD, NUMA, NUMA, "2x1x4x2", "0,2", 4, "8,10,12,14"),
    (SPREAD, NONE, NUMA, "2x1x4x2", "0,2", 4, "1,3-4,6"),
    (FULL, NUMA, NUMA, "2x1x4x2", "0,2", 4, "8-11"),
    (FULL, NONE, NUMA, "2x1x4x2", "0,2", 4, "4-7"),
]


def text(bits: int | None) -> str | None:
    """Return bits as a CPU list."""
    return None if bits is None else str(CpuSet(bits))


@pytest.mark.parametrize(("bind", "strategy", "shape", "held", "count", "result"), GOLDEN)
def test_the_pick_is_koordinators(
    bind: BindPolicy, strategy: Strategy, shape: str, held: str, count: int, result: str
) -> None:
    """Pods keep the CPUs that they would have had with Koordinator."""
    layout = layout_of(shape)
    free = layout.all & ~cpus(held)
    assert text(pick(layout, free=free, count=count, bind=bind, strategy=strategy)) == result


@pytest.mark.parametrize(
    ("bind", "wanted", "of_others", "shape", "held", "count", "result"), EXCLUSIVE_ROWS
)
def test_pods_of_one_exclusive_policy_keep_apart(
    bind: BindPolicy,
    wanted: CpuExclusive,
    of_others: CpuExclusive,
    shape: str,
    held: str,
    count: int,
    result: str,
) -> None:
    """Others do not mind them."""
    layout = layout_of(shape)
    got = pick(
        layout,
        free=layout.all & ~cpus(held),
        count=count,
        bind=bind,
        strategy=MOST,
        exclusive=wanted,
        held={of_others: cpus(held)},
    )
    assert text(got) == result


@pytest.mark.parametrize("bind", [FULL, SPREAD])
def test_exclusive_policies_give_way_if_there_is_no_other_place(bind: BindPolicy) -> None:
    """They are wishes: a pod that would have to wait forever is the worse end."""
    layout = layout_of("1x1x4x2")
    for policy in (PCPU, NUMA):
        got = pick(
            layout,
            free=cpus("1,3,5,7"),
            count=3,
            bind=bind,
            strategy=MOST,
            exclusive=policy,
            held={policy: cpus("0,2,4,6")},
        )
        assert text(got) == "1,3,5"


@pytest.mark.parametrize(
    ("shape", "held", "bind", "count", "result"),
    [
        ("2x1x4x2", "", FULL, 4, "0-1,8-9"),
        ("2x1x4x2", "", FULL, 2, "8-9"),
        ("2x1x4x2", "", FULL, 6, "0-1,8-11"),
        ("2x1x4x2", "", FULL, 3, "0,8-9"),
        ("2x1x4x2", "", SPREAD, 4, "0,2,8,10"),
        ("2x1x4x2", "0-5", SPREAD, 4, "6,8,10,12"),
        ("2x1x4x2", "0-5", FULL, 8, "6-13"),
        ("2x1x4x2", "0,2,4,6,8", FULL, 6, "10-15"),
        ("2x1x4x2", "0,2,4,6,8", FULL, 8, "1,3,5,7,10-13"),
        ("2x2x2x2", "", SPREAD, 4, "0,4,8,12"),
        ("2x2x2x2", "0-3", SPREAD, 5, "4,8,10,12,14"),
    ],
)
def test_distribute_evenly_takes_as_much_of_every_numa_node(
    shape: str, held: str, bind: BindPolicy, count: int, result: str
) -> None:
    """Nodes that have less give what they have."""
    layout = layout_of(shape)
    got = pick(layout, free=layout.all & ~cpus(held), count=count, bind=bind, strategy=EVEN)
    assert text(got) == result


@st.composite
def picks(draw: st.DrawFn) -> tuple[CpuLayout, dict[str, object]]:
    """Draw a machine that is partly taken, and a pod."""
    layout = draw(layouts())
    exclusive = draw(st.sampled_from(CpuExclusive))
    free = draw(st.integers(0, layout.all)) & layout.all
    return layout, {
        "free": free,
        "count": draw(st.integers(0, free.bit_count() + 1)),
        "strategy": draw(st.sampled_from(Strategy)),
        "exclusive": exclusive,
        "held": {exclusive: draw(st.integers(0, layout.all)) & ~free},
    }


@given(case=picks(), bind=st.sampled_from([FULL, SPREAD]))
def test_a_pick_is_exactly_as_many_of_the_free_cpus(
    case: tuple[CpuLayout, dict[str, object]], bind: BindPolicy
) -> None:
    """Whatever the machine looks like; and the same each time."""
    layout, wish = case
    got = pick(layout, bind=bind, **wish)  # type: ignore[arg-type]
    free, count = wish["free"], wish["count"]
    assert isinstance(free, int)
    assert isinstance(count, int)
    if count > free.bit_count():
        assert got is None
        return
    assert got is not None
    assert got & ~free == 0
    assert got.bit_count() == count
    assert got == pick(CpuLayout(layout.places), bind=bind, **wish)  # type: ignore[arg-type]


@given(case=picks(), bind=st.sampled_from([FULL, SPREAD]))
def test_usable_cpus_meet_the_policy_however_they_are_picked(
    case: tuple[CpuLayout, dict[str, object]], bind: BindPolicy
) -> None:
    """So a count of usable CPUs is enough to know whether a policy can be met."""
    layout, wish = case
    free, count = wish["free"], wish["count"]
    assert isinstance(free, int)
    assert isinstance(count, int)
    fitting = usable(layout, CpuMask(free), bind)
    if bind is FULL:
        count -= count % layout.cpus_per_core
    got = pick(layout, bind=bind, **{**wish, "free": fitting, "count": count})  # type: ignore[arg-type]
    assert (got is None) == (count > fitting.bit_count())
    assert got is None or meets(layout, got, bind)


@given(layout=layouts(), count=st.integers(1, 8), bind=st.sampled_from([FULL, SPREAD]))
def test_an_idle_machine_is_used_alike_by_distribute_evenly(
    layout: CpuLayout, count: int, bind: BindPolicy
) -> None:
    """No NUMA node gives more than one core, or one thread, above another."""
    unit = layout.cpus_per_core if bind is FULL else 1
    got = pick(layout, free=layout.all, count=min(count, 3) * unit, bind=bind, strategy=EVEN)
    assert got is not None
    parts = [(got & cpus_of).bit_count() for cpus_of in layout.by_numa.values()]
    assert max(parts) - min(parts) <= unit


def test_policies_that_must_be_met_leave_broken_cores_or_second_threads_out() -> None:
    """Fully free cores for whole cores; one thread of each other core for spreading."""
    layout = layout_of("1x1x4x2")
    assert text(usable(layout, cpus("1-3,6-7"), FULL)) == "2-3,6-7"
    assert text(usable(layout, cpus("1-3,6-7"), SPREAD)) == "1-2,6"
    assert text(usable(layout, cpus("1-3,99"), BindPolicy.NONE)) == "1-3"


def test_cores_of_different_widths_are_whole_cores_each() -> None:
    """Desktop processors have cores with two threads beside cores with one."""
    places = [CpuPlace(id=cpu, core=cpu // 2, socket=0, numa=0) for cpu in range(4)]
    places += [CpuPlace(id=cpu, core=cpu, socket=0, numa=0) for cpu in range(4, 6)]
    layout = CpuLayout(tuple(places))
    assert text(usable(layout, cpus("0-5"), FULL)) == "0-5"
    got = pick(layout, free=cpus("1-5"), count=3, bind=FULL, strategy=LEAST)
    assert text(got) == "2-4"
    got = pick(layout, free=layout.all, count=4, bind=SPREAD, strategy=LEAST)
    assert text(got) == "0,2,4-5"


def test_threads_far_apart_are_one_core() -> None:
    """Core ids decide, not CPU ids."""
    layout = far_threads(2, 4)
    got = pick(layout, free=layout.all, count=4, bind=FULL, strategy=LEAST)
    assert text(got) == "0-1,8-9"
