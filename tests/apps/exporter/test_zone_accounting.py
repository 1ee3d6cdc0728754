"""Capacity, allocatable and available of zones."""

from __future__ import annotations

from dataclasses import replace

from tests.apps.exporter.build import (
    GIB,
    Figures,
    container,
    figures,
    inputs,
    pod,
    two_zones,
    zone,
)

from numakube.api.checkpoints.device_checkpoint import DeviceManagerState
from numakube.apps.exporter.kubelet_checkpoints import Checkpoints
from numakube.apps.exporter.node_scan import NodeInputs
from numakube.apps.exporter.numa_hardware import Hardware
from numakube.apps.exporter.report_options import Accounting, ReportOptions, Trouble
from numakube.apps.exporter.zone_accounting import zones_of
from numakube.node.podresources_client import Devices, Memory

NET, GPU = "fake.io/net", "fake.io/gpu"
AS_RTE = ReportOptions(accounting=Accounting.RTE)


def zones(read: NodeInputs, options: ReportOptions | None = None) -> Figures:
    """Return the amounts of all zones."""
    return figures(zones_of(read, read.pods, options or ReportOptions()).zones)


def troubles(read: NodeInputs) -> set[Trouble]:
    """Return the kinds of problems that came up."""
    return {problem.kind for problem in zones_of(read, read.pods, ReportOptions()).problems}


def nets(*placed: tuple[int, int]) -> list[Devices]:
    """Network cards: so many on this NUMA node."""
    return [
        Devices(NET, tuple(f"net-{numa}-{index}" for index in range(count)), (numa,))
        for numa, count in placed
    ]


def test_everything_is_available_without_pods() -> None:
    """The first example of RTE's own tests."""
    read = inputs(
        two_zones(), cpus=range(24), devices=[*nets((0, 4), (1, 2)), Devices(GPU, ("g",), (1,))]
    )
    assert zones(read) == {
        "node-0": {"cpu": (12, 12, 12), NET: (4, 4, 4)},
        "node-1": {"cpu": (12, 12, 12), NET: (2, 2, 2), GPU: (1, 1, 1)},
    }


def test_reserved_cpus_lower_what_is_allocatable() -> None:
    """They stay in the capacity."""
    found = zones(inputs(two_zones(), cpus=range(2, 24)))
    assert found == {"node-0": {"cpu": (12, 11, 11)}, "node-1": {"cpu": (12, 11, 11)}}


def test_what_pods_hold_is_not_available() -> None:
    """CPUs 5 and 7 and a network card, all on the second NUMA node."""
    user = pod(container(cpus=(5, 7), devices=nets((1, 1))))
    found = zones(inputs(two_zones(), user, cpus=range(1, 24), devices=nets((0, 1), (1, 1))))
    assert found == {
        "node-0": {"cpu": (12, 11, 11), NET: (1, 1, 1)},
        "node-1": {"cpu": (12, 12, 10), NET: (1, 1, 0)},
    }


def test_memory_on_several_numa_nodes_counts_once() -> None:
    """Filled in order, as the Memory Manager does; RTE takes all of it from each."""
    blocks = [Memory("memory", 8 * GIB, (0,)), Memory("memory", 8 * GIB, (1,))]
    user = pod(container(memory=[Memory("memory", 10 * GIB, (0, 1))]))
    read = inputs(two_zones(8 * GIB), user, memory=blocks)
    left = {name: one["memory"][2] // GIB for name, one in zones(read).items()}
    assert left == {"node-0": 0, "node-1": 6}
    as_rte = {name: one["memory"][2] for name, one in zones(read, AS_RTE).items()}
    assert as_rte == {"node-0": 0, "node-1": 0}


def test_allocatable_memory_on_several_numa_nodes_counts_once() -> None:
    """No kubelet reports such a block; if one did, its bytes would be where there is room."""
    read = inputs(two_zones(8 * GIB), memory=[Memory("memory", 12 * GIB, (0, 1))])
    assert {name: one["memory"][1] // GIB for name, one in zones(read).items()} == {
        "node-0": 8,
        "node-1": 4,
    }
    more = inputs(two_zones(8 * GIB), memory=[Memory("memory", 20 * GIB, (0, 1))])
    assert sum(entry["memory"][1] for entry in zones(more).values()) == 20 * GIB


def test_a_device_on_several_numa_nodes_is_available_on_each() -> None:
    """And held on each: the kubelet lists it once for every NUMA node."""
    both = [Devices(GPU, ("g0",), (0,)), Devices(GPU, ("g0",), (1,)), Devices(GPU, ("g1",), (0, 1))]
    free = inputs(two_zones(), devices=both)
    assert zones(free) == {"node-0": {GPU: (2, 2, 2)}, "node-1": {GPU: (2, 2, 2)}}
    used = inputs(two_zones(), pod(container(devices=both[:2])), devices=both)
    assert zones(used) == {"node-0": {GPU: (2, 2, 1)}, "node-1": {GPU: (2, 2, 1)}}


def test_devices_without_numa_node_are_in_no_zone() -> None:
    """Neither those without topology nor those on -1, on which RTE dies."""
    read = inputs(
        two_zones(),
        pod(container(devices=[Devices(GPU, ("g0",), (-1,))])),
        devices=[Devices(GPU, ("g0",), (-1,)), Devices(NET, ("n0",))],
    )
    assert zones(read) == {"node-0": {"cpu": (12, 0, 0)}, "node-1": {"cpu": (12, 0, 0)}}
    assert troubles(read) == set()


def test_a_repeated_cpu_is_one_cpu() -> None:
    """RTE counts it as often as it is listed."""
    read = inputs(two_zones(), cpus=(0, 0, 2))
    assert zones(read)["node-0"] == {"cpu": (12, 2, 2)}
    assert zones(read, AS_RTE)["node-0"] == {"cpu": (12, 3, 3)}


def test_hugepages_of_every_size_have_their_true_capacity() -> None:
    """RTE knows the pools of 2Mi and 1Gi pages only."""
    pools = {"hugepages-64Ki": 1 << 20, "hugepages-2Mi": 8 << 20}
    hardware = Hardware(zones=(zone(0, "0", hugepages=pools, distances=(10,)),))
    memory = [Memory("hugepages-64Ki", 1 << 18, (0,)), Memory("hugepages-2Mi", 4 << 20, (0,))]
    read = inputs(hardware, memory=memory)
    assert zones(read)["node-0"] == {
        "hugepages-64Ki": (1 << 20, 1 << 18, 1 << 18),
        "hugepages-2Mi": (8 << 20, 4 << 20, 4 << 20),
    }
    assert zones(read, AS_RTE)["node-0"]["hugepages-64Ki"] == (1 << 18, 1 << 18, 1 << 18)


def test_the_kubelet_is_trusted_over_sysfs() -> None:
    """More to give out than there is makes the capacity larger, and is a problem."""
    read = inputs(two_zones(GIB), memory=[Memory("memory", 2 * GIB, (0,))])
    assert zones(read)["node-0"]["memory"] == (2 * GIB, 2 * GIB, 2 * GIB)
    assert troubles(read) == {Trouble.OVER_CAPACITY}


def test_more_in_use_than_there_is_leaves_nothing() -> None:
    """Never less than nothing."""
    read = inputs(two_zones(), pod(container(devices=nets((0, 3)))), devices=nets((0, 2)))
    assert zones(read)["node-0"][NET] == (2, 2, 0)
    assert troubles(read) == {Trouble.OVER_ALLOCATABLE}


def test_a_broken_device_in_use_leaves_the_others_free() -> None:
    """It is not allocatable any more; RTE takes a whole one off for it."""
    broken, good = Devices(GPU, ("g0",), (0,)), Devices(GPU, ("g1",), (0,))
    read = inputs(two_zones(), pod(container(devices=[broken])), devices=[good])
    read = replace(read, checkpoints=Checkpoints(devices=DeviceManagerState()))
    assert zones(read)["node-0"][GPU] == (1, 1, 1)
    assert zones(read, AS_RTE)["node-0"][GPU] == (1, 1, 0)
    assert troubles(read) == set()


def test_memory_beyond_what_can_be_written_is_cut_off() -> None:
    """A kubelet whose hugepages and reservations exceed its memory reports almost 2^64 bytes."""
    read = inputs(two_zones(GIB), memory=[Memory("memory", (1 << 64) - GIB, (0,))])
    assert zones(read)["node-0"]["memory"] == ((1 << 63) - 1,) * 3


def test_what_sysfs_does_not_know_is_told_and_not_counted() -> None:
    """CPUs and NUMA nodes; on devices of unknown NUMA nodes RTE dies."""
    read = inputs(
        two_zones(),
        pod(container(cpus=(2, 99))),
        cpus=(0, 2, 64),
        devices=nets((4, 1)),
        memory=[Memory("memory", GIB, (7,))],
    )
    table = zones_of(read, read.pods, ReportOptions())
    assert figures(table.zones)["node-0"] == {"cpu": (12, 2, 1)}
    assert [one.name for one in table.zones] == ["node-0", "node-1"]
    text = " ".join(problem.detail for problem in table.problems)
    assert all(word in text for word in ("64", "99", "fake.io/net on NUMA node 4", "NUMA node 7"))


def test_zones_are_those_of_the_kubelet_if_sysfs_has_none() -> None:
    """RTE does not start, or publishes no zone."""
    read = inputs(
        Hardware(), cpus=(0, 1), memory=[Memory("memory", GIB, (1,))], devices=nets((0, 2))
    )
    assert zones(read) == {"node-0": {NET: (2, 2, 2)}, "node-1": {"memory": (GIB, GIB, GIB)}}
    assert troubles(read) == {Trouble.NO_ZONES, Trouble.UNKNOWN_CPU}


def test_costs_name_the_numa_nodes_that_exist() -> None:
    """The kernel lists distances without gaps; RTE numbers them, and dies of ids with holes."""
    hardware = Hardware(zones=(zone(0, "0", distances=(10, 40)), zone(8, "1", distances=(40, 10))))
    read = inputs(hardware, cpus=(0, 1))
    first, second = zones_of(read, (), ReportOptions()).zones
    assert [(cost.name, cost.value) for cost in first.costs] == [("node-0", 10), ("node-8", 40)]
    assert [(cost.name, cost.value) for cost in second.costs] == [("node-0", 40), ("node-8", 10)]


def test_a_zone_without_distances_has_no_costs() -> None:
    """The others have theirs."""
    hardware = Hardware(zones=(zone(0, "0"), zone(1, "1", distances=None)))
    first, second = zones_of(inputs(hardware), (), ReportOptions()).zones
    assert (len(first.costs), second.costs) == (2, ())


def test_a_row_of_another_length_is_a_problem() -> None:
    """Taken as far as it goes."""
    hardware = Hardware(zones=(zone(0, "0", distances=(10,)), zone(1, "1")))
    assert troubles(inputs(hardware)) == {Trouble.NO_DISTANCES}


def test_excluded_resources_are_not_published() -> None:
    """Those for every node and those for this one, by their exact names."""
    read = inputs(two_zones(), cpus=range(24), devices=[*nets((0, 1)), Devices(GPU, ("g",), (0,))])
    options = ReportOptions(
        node_name="me", resource_exclude={"*": ("cpu",), "me": (NET,), "other": (GPU,)}
    )
    assert zones(read, options) == {"node-0": {GPU: (1, 1, 1)}, "node-1": {}}


def test_only_pods_of_the_watched_namespace_count() -> None:
    """For debugging: what others hold looks free."""
    mine = pod(container(cpus=(0,)), namespace="mine")
    other = pod(container(cpus=(2,)), namespace="other")
    read = inputs(two_zones(), mine, other, cpus=range(24))
    assert zones(read, ReportOptions(watch_namespace="mine"))["node-0"]["cpu"] == (12, 12, 11)


def test_what_a_pod_holds_as_a_whole_counts_once() -> None:
    """Its containers' CPUs and memory are parts of it; RTE does not see it at all."""
    whole = replace(
        pod(
            container("a", cpus=(0, 2), memory=[Memory("memory", GIB, (0,))]),
            container("b", cpus=(2, 4), memory=[Memory("memory", GIB, (0,))]),
        ),
        cpu_ids=(0, 2, 4, 6),
        memory=(Memory("memory", 3 * GIB, (0,)),),
    )
    memory = [Memory("memory", 8 * GIB, (0,))]
    read = inputs(two_zones(8 * GIB), whole, cpus=range(24), memory=memory)
    found = zones(read)["node-0"]
    assert (found["cpu"][2], found["memory"][2]) == (8, 5 * GIB)


def test_memory_that_a_pod_holds_as_a_whole_counts_without_cpus_of_its_own() -> None:
    """A pod may have memory as a whole and CPUs by container."""
    whole = replace(
        pod(container("a", cpus=(0, 2), memory=[Memory("memory", GIB, (0,))])),
        memory=(Memory("memory", 3 * GIB, (0,)),),
    )
    memory = [Memory("memory", 8 * GIB, (0,))]
    read = inputs(two_zones(8 * GIB), whole, cpus=range(24), memory=memory)
    found = zones(read)["node-0"]
    assert (found["cpu"][2], found["memory"][2]) == (10, 5 * GIB)


def test_rte_knows_the_hardware_of_two_page_sizes_only() -> None:
    """Of others the capacity is what the kubelet gives out."""
    kinds = ("hugepages-64Ki", "hugepages-2Mi", "hugepages-1Gi")
    has = dict.fromkeys(kinds, 3 * GIB)
    hardware = Hardware(zones=(zone(0, "0-1", hugepages=has), zone(1, "2-3", hugepages=has)))
    read = inputs(hardware, memory=[Memory(kind, 2 * GIB, (0,)) for kind in kinds])
    ours, rte = (
        {name: amounts[0] // GIB for name, amounts in zones(read, how)["node-0"].items()}
        for how in (ReportOptions(), AS_RTE)
    )
    assert ours == dict.fromkeys(kinds, 3)
    assert rte == {**ours, "hugepages-64Ki": 2}
