"""What still fits into a zone, and what is stranded in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numakube.insight.usage.largest_pod import (
    NOTHING,
    PodShape,
    largest_shape,
    largest_with_devices,
)
from numakube.insight.usage.stranded_amounts import LEAN, RICH, proportion, stranded
from numakube.values.resources import MILLI_PER_CPU

GIB = 1 << 30
GPU = "vendor.example/gpu"
ZONE = {"cpu": 32 * MILLI_PER_CPU, "memory": 128 * GIB, GPU: 4}
RATIO = 4 * GIB

amounts = st.fixed_dictionaries(
    {
        "cpu": st.integers(0, 32).map(lambda cpus: cpus * MILLI_PER_CPU),
        "memory": st.integers(0, 128 * GIB),
        GPU: st.integers(0, 4),
    }
)


def test_the_proportion_is_the_memory_of_a_cpu() -> None:
    """A zone that lacks one of them has none."""
    assert proportion(ZONE) == RATIO
    assert proportion({"memory": GIB}) == 0
    assert proportion({"cpu": 500}) == 0


def test_an_empty_zone_fits_itself() -> None:
    """All CPUs with all memory."""
    assert largest_shape(ZONE, 32, RATIO) == PodShape(32, 128 * GIB)
    assert stranded(ZONE, ZONE, 32, RATIO) == {}


def test_the_scarcer_resource_decides_what_fits() -> None:
    """CPUs come with their share of memory."""
    assert largest_shape({"cpu": 8000, "memory": 128 * GIB}, 8, RATIO) == PodShape(8, 32 * GIB)
    assert largest_shape({"cpu": 32000, "memory": 9 * GIB}, 32, RATIO) == PodShape(2, 8 * GIB)
    assert largest_shape({"cpu": 32000, "memory": 3 * GIB}, 32, RATIO) == NOTHING


def test_where_memory_is_not_managed_cpus_decide_alone() -> None:
    """Nobody counts it."""
    assert largest_shape({"cpu": 5000}, 5, 0) == PodShape(5)
    assert stranded({"cpu": 8000}, {"cpu": 5000}, 5, 0) == {}


def test_devices_come_with_cpus() -> None:
    """At least one for each, unless devices outnumber CPUs."""
    free = {"cpu": 3000, "memory": 64 * GIB, GPU: 4}
    base = largest_shape(free, 3, RATIO)
    assert largest_with_devices(ZONE, free, base, GPU) == PodShape(3, 12 * GIB, {GPU: 3})
    assert largest_with_devices(ZONE, free, NOTHING, GPU) == NOTHING
    many = ZONE | {GPU: 64}
    assert largest_with_devices(many, free | {GPU: 40}, base, GPU).devices == {GPU: 24}


def test_devices_without_cpus_are_stranded() -> None:
    """The case that costs most: free GPUs that no pod can have."""
    free = {"cpu": 0, "memory": 100 * GIB, GPU: 3}
    assert stranded(ZONE, free, 0, RATIO) == {"memory": 100 * GIB, GPU: 3}
    assert stranded(ZONE, free | {"cpu": 1000}, 1, RATIO) == {"memory": 84 * GIB, GPU: 2}


def test_many_devices_are_not_stranded_for_being_many() -> None:
    """Virtual functions outnumber CPUs on an empty zone already."""
    many = ZONE | {GPU: 64}
    assert stranded(many, many, 32, RATIO) == {}
    assert stranded(many, many | {"cpu": 1000, "memory": 8 * GIB}, 1, RATIO) == {GPU: 56}


def test_cpus_without_memory_are_stranded() -> None:
    """Beyond what lean pods could take."""
    free = {"cpu": 16000, "memory": 2 * GIB, GPU: 4}
    assert stranded(ZONE, free, 16, RATIO) == {"cpu": 14000, GPU: 2}


def test_cpus_on_broken_cores_are_stranded() -> None:
    """Where the kubelet gives out whole cores only."""
    free = {"cpu": 5000, "memory": 100 * GIB}
    assert stranded(ZONE, free, 4, RATIO)["cpu"] == 1000


def test_what_was_never_usable_alone_is_not_stranded() -> None:
    """Such as memory that has no CPUs."""
    assert stranded({"memory": GIB}, {"memory": GIB}, 0, 0) == {}


@given(amounts)
def test_what_is_stranded_is_free(free: dict[str, int]) -> None:
    """And what is left could be used by lean or rich pods."""
    cpus = free["cpu"] // MILLI_PER_CPU
    lost = stranded(ZONE, free, cpus, RATIO)
    assert all(0 < amount <= free[name] for name, amount in lost.items())
    usable = cpus - lost.get("cpu", 0) // MILLI_PER_CPU
    assert usable * RATIO <= LEAN * free["memory"]
    assert free["memory"] - lost.get("memory", 0) <= cpus * RATIO * RICH
    assert free[GPU] - lost.get(GPU, 0) <= usable


@given(amounts)
def test_the_largest_shape_fits_and_nothing_larger_does(free: dict[str, int]) -> None:
    """By one CPU with its memory."""
    cpus = free["cpu"] // MILLI_PER_CPU
    shape = largest_shape(free, cpus, RATIO)
    wanted = {"cpu": shape.cpus * MILLI_PER_CPU, "memory": shape.memory_bytes}
    assert all(free[name] >= amount for name, amount in wanted.items())
    more = {"cpu": (shape.cpus + 1) * MILLI_PER_CPU, "memory": (shape.cpus + 1) * RATIO}
    assert any(free[name] < amount for name, amount in more.items())
